"""The maze benchmark as the engine takes it. `cilab.maze.BENCHMARK` is this one, made when it is asked for."""

from __future__ import annotations

from cilab.collect.spec import Benchmark
from cilab.maze.plan import MazeBlock, forecast, plan
from cilab.maze.play import play
from cilab.maze.sim import describe, simulated

BENCHMARK = Benchmark("maze", MazeBlock, plan, play, simulated, forecast, describe)
