"""The maze benchmark as the engine takes it. `cilab.maze.BENCHMARK` is this one, made when it is asked for."""

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
