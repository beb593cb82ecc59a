"""The teamwork benchmark (collaborative-intelligence paper): a model in a team, and a scripted teammate with a problem.

`task` is the task file, `bank` finds tasks, `plan` turns a study block into run specs, `play` plays one with `script`,
`judges`, `tools` and `sandbox`, `checks` gives the verdict, `acting` and `sim` act tasks out without a language model,
`prove` proves them, `looks` asks other judges about stored runs.
"""

from __future__ import annotations

from cilab.collect.spec import Benchmark
from cilab.teamwork.looks import LOOKS
from cilab.teamwork.plan import TeamworkBlock, describe_tasks, forecast, plan
from cilab.teamwork.play import play
from cilab.teamwork.prove import check_tasks
from cilab.teamwork.sim import describe, simulated

BENCHMARK = Benchmark(
    name="teamwork",
    block=TeamworkBlock,
    plan=plan,
    play=play,
    simulated=simulated,
    forecast=forecast,
    describe=describe,
    tasks=describe_tasks,
    looks=LOOKS,
    prove=check_tasks,
    data_sets={
        "simulated_release": "cilab.datasets:simulated_release",
        "published_round": "cilab.datasets:published_round",
        "hand_worked_round": "cilab.datasets:hand_worked_round",
    },
)
