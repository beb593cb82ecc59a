"""The teamwork benchmark as the engine takes it. `cilab.teamwork.BENCHMARK` is this one, made when it is asked for."""

from __future__ import annotations

from cilab.collect.spec import Benchmark
from cilab.teamwork.plan import TeamworkBlock, describe_tasks, forecast, plan
from cilab.teamwork.play import play
from cilab.teamwork.sim import describe, simulated

BENCHMARK = Benchmark("teamwork", TeamworkBlock, plan, play, simulated, forecast, describe, describe_tasks)
