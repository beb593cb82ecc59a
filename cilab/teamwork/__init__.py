"""The teamwork benchmark (collaborative-intelligence paper): a model in a team, and a scripted teammate with a problem.

`task` is the task file, `bank` finds tasks, `plan` turns a study block into run specs, `play` plays one with `script`,
`judges`, `tools` and `sandbox`, `checks` gives the verdict, `acting` and `sim` act tasks out without a language model.
"""

from __future__ import annotations

from cilab.collect.spec import Benchmark
from cilab.teamwork.plan import TeamworkBlock, describe_tasks, forecast, plan
from cilab.teamwork.play import play
from cilab.teamwork.sim import describe, simulated

BENCHMARK = Benchmark("teamwork", TeamworkBlock, plan, play, simulated, forecast, describe, describe_tasks)
