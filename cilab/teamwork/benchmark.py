"""The teamwork benchmark as the engine takes it. `cilab.teamwork.BENCHMARK` is this one, made when it is asked for."""

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
