"""The maze benchmark (collaboration-gap paper): two agents that each see half a maze agree on every move.

`grid` makes and splits mazes, `texts` holds the prompts, `plan` turns a study block into run specs,
`play` plays one, `extract`, `schemes` and `grade` turn a transcript into an outcome, `annotate` looks
for grounding and disagreement, `looks` does both again on stored runs, `view` is what its pages show,
`sim` are simulated agents.
"""

from __future__ import annotations

from cilab.collect.spec import Benchmark
from cilab.maze.looks import LOOKS
from cilab.maze.plan import MazeBlock, forecast, plan
from cilab.maze.play import play
from cilab.maze.sim import describe, simulated
from cilab.maze.view import view

BENCHMARK = Benchmark(
    name="maze",
    block=MazeBlock,
    plan=plan,
    play=play,
    simulated=simulated,
    forecast=forecast,
    describe=describe,
    looks=LOOKS,
    view=view,
    data_sets={"simulated_mazes": "cilab.datasets:simulated_mazes"},
)
