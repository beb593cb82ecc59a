"""Malformed study files, for `cilab run`."""

from __future__ import annotations

from tests.corpus.driver import Case

GOOD = """\
name: s
blocks:
  - benchmark: maze
    versions: [solo_full, pair]
    models: [sim/strong, sim/weak]
    mazes: {count: 1}
"""
TEAM = """\
name: t
blocks:
  - benchmark: teamwork
    models: [sim/team-F1]
    tasks: [rup-potassium-rate]
    judges: {referee: sim/team-judge-a, second: sim/team-judge-b, third: sim/team-judge-c}
    partners: [sim/team-partner]
"""
RELAY = """\
name: r
blocks:
  - benchmark: maze
    versions: [relay]
    relay: [{strong: sim/strong, weak: sim/weak, k: [2]}]
    mazes: {count: 1}
"""


def _case(name: str, text: str | bytes, *words: str) -> Case:
    return Case(name, ("run", "s.yaml", "--out", "new"), ("s.yaml", *words), {"s.yaml": text})


def _with(old: str, new: str, base: str = GOOD) -> str:
    assert old in base, old
    return base.replace(old, new)


_TEXTS: list[tuple[str, str | bytes, tuple[str, ...]]] = [
    # not YAML, or not a study
    ("an empty file", "", ("no study file",)),
    ("only a comment", "# later\n", ("no study file",)),
    ("a list", "- a\n- b\n", ("no study file",)),
    ("a number", "5\n", ("no study file",)),
    ("a text", "just words\n", ("no study file",)),
    ("an open bracket", "name: [a", ("no YAML",)),
    ("an open quote", 'name: "a', ("no YAML",)),
    ("a tab as indentation", "name: s\nblocks:\n\t- benchmark: maze\n", ("no YAML",)),
    ("an undefined alias", "name: *nobody\n", ("no YAML", "nobody")),
    ("a tag of Python's", "name: !!python/object/apply:os.system [echo hello]\n", ("no YAML",)),
    ("a tag of Python's in a block", _with("maze", "!!python/name:os.system x"), ("no YAML",)),
    ("an unknown tag", "name: !secret x\n", ("no YAML",)),
    ("a key given twice", GOOD + "name: other\n", ("'name'", "a second time")),
    ("a key given twice in a block", GOOD + "    models: [sim/F1]\n", ("'models'", "a second time")),
    ("two documents", GOOD + "---\nname: other\n", ("no YAML",)),
    ("bytes that are no UTF-8", b"name: s\xff\xfe\nblocks: []\n", ("cannot be read",)),
    ("UTF-16", GOOD.encode("utf-16"), ("cannot be read",)),
    ("a NUL", "name: s\x00\n", ("no YAML",)),
    ("a control character", "name: s\x07\n", ("no YAML",)),
    ("half of a surrogate pair", 'description: "\\ud800"\n' + GOOD, ("surrogate",)),
    ("nested too deeply", "name: s\nblocks: " + "[" * 3000 + "]" * 3000, ("nested too deeply",)),
    ("a list that holds itself", "name: s\nblocks: &a [*a]\n", ("blocks[0]",)),
    ("JSON with a comma too many", '{"name": "s", "blocks": [{]}', ("no YAML",)),
    # keys and types at the top
    ("no name", _with("name: s\n", ""), ("name", "missing")),
    ("no blocks", "name: s\n", ("blocks", "missing")),
    ("an empty list of blocks", "name: s\nblocks: []\n", ("blocks", "too short")),
    ("blocks that are no list", "name: s\nblocks: {benchmark: maze}\n", ("blocks",)),
    ("a block that is a text", "name: s\nblocks: [maze]\n", ("blocks[0]",)),
    ("a block that is empty", "name: s\nblocks: [{}]\n", ("blocks[0].benchmark", "missing")),
    ("a block that is null", "name: s\nblocks: [null]\n", ("blocks[0]",)),
    ("a name with a slash", _with("name: s", "name: a/b"), ("name", "match")),
    ("a name that leads out of the folder", _with("name: s", "name: ../s"), ("name",)),
    ("a name that is a number", _with("name: s", "name: 5"), ("name",)),
    ("a name that is empty", _with("name: s", "name: ''"), ("name",)),
    ("a name with a line break", _with("name: s", 'name: "a\\nb"'), ("name",)),
    ("a name with a bidi control", _with("name: s", 'name: "a\\u202eb"'), ("name",)),
    ("a misspelt key", GOOD + "bugdet_usd: 3\n", ("bugdet_usd", "unknown key", "budget_usd")),
    ("a key with a line break", GOOD + '"a\\nb": 3\n', ("unknown key",)),
    ("a budget of 0", GOOD + "budget_usd: 0\n", ("budget_usd", "greater than 0")),
    ("a budget that is a text", GOOD + "budget_usd: much\n", ("budget_usd", "'much'")),
    ("a budget that is true", GOOD + "budget_usd: yes\n", ("budget_usd", "true or false")),
    ("a budget that is no number", GOOD + "budget_usd: .nan\n", ("budget_usd",)),
    ("a budget without end", GOOD + "budget_usd: .inf\n", ("budget_usd",)),
    ("a concurrency of 0", GOOD + "concurrency: 0\n", ("concurrency",)),
    ("a concurrency of half", GOOD + "concurrency: 0.5\n", ("concurrency",)),
    ("a concurrency beyond reason", GOOD + "concurrency: 100000\n", ("concurrency", "4096")),
    ("a deadline below zero", GOOD + "deadline_s: -1\n", ("deadline_s",)),
    ("a deadline without end", GOOD + "deadline_s: .inf\n", ("deadline_s",)),
    ("a date for a number", GOOD + "max_requests: 2026-01-01\n", ("max_requests",)),
    ("limits that are a list", GOOD + "limits: [openai]\n", ("limits",)),
    ("a limit of no request", GOOD + "limits: {openai: {requests_per_minute: 0}}\n", ("requests_per_minute",)),
    ("a misspelt limit", GOOD + "limits: {openai: {concurency: 3}}\n", ("concurency", "concurrency")),
    ("a price without output", GOOD + "models: {m: {price: {input: 1}}}\n", ("models.m.price.output", "missing")),
    ("a price below zero", GOOD + "models: {m: {price: {input: -1, output: 1}}}\n", ("models.m.price.input", "-1")),
    ("a price that is no number", GOOD + "models: {m: {price: {input: .nan, output: 1}}}\n", ("models.m.price",)),
    ("a price that is true", GOOD + "models: {m: {price: {input: true, output: 1}}}\n", ("models.m.price.input",)),
    ("an unknown way with system prompts", GOOD + "models: {m: {system: drop}}\n", ("models.m.system", "'drop'")),
    ("a model's settings that are a text", GOOD + "models: {m: openai/m}\n", ("models.m",)),
    # benchmark, versions, models
    ("a misspelt benchmark", _with("maze\n", "mase\n"), ("blocks[0].benchmark", "Did you mean maze?")),
    ("a benchmark that is a list", _with("benchmark: maze", "benchmark: [maze]"), ("blocks[0].benchmark",)),
    ("a misspelt version", _with("solo_full", "solo_ful"), ("blocks[0].versions[0]", "'solo_ful'")),
    ("a version of the other benchmark", _with("solo_full", "alone"), ("blocks[0].versions[0]", "'alone'")),
    ("no models", _with("[sim/strong, sim/weak]", "[]"), ("blocks[0]", "models")),
    ("models that are a text", _with("[sim/strong, sim/weak]", "sim/strong"), ("blocks[0].models", "[sim/strong]")),
    ("a model that is a number", _with("sim/weak", "5"), ("blocks[0].models[1]",)),
    ("a model without a name", _with("sim/weak", "{effort: high}"), ("blocks[0].models[1]", "missing")),
    ("a model that is empty", _with("sim/weak", "''"), ("blocks[0].models[1]",)),
    ("a simulated model that nobody knows", _with("sim/weak", "sim/wek"), ("'wek'", "Did you mean weak?")),
    ("a simulated model without a name", _with("sim/weak", "sim/"), ("sim",)),
    ("a model that nobody knows", _with("sim/weak", "gpt-4.l"), ("'gpt-4.l'", "gpt-4.1")),
    ("a provider that nobody knows", _with("sim/weak", "opnai/gpt-4.1"), ("'opnai'", "openai")),
    ("a local model that is not there", _with("sim/weak", "local/nobody"), ("local/nobody",)),
    ("code that is not there", _with("sim/weak", "python:nowhere:make"), ("nowhere",)),
    ("code without a factory", _with("sim/weak", "python:json"), ("python:json",)),
    ("code whose factory is not there", _with("sim/weak", "python:json:nobody"), ("nobody",)),
    ("a provider without a key", _with("sim/weak", "openai/gpt-4.1"), ("OPENAI_API_KEY",)),
    # mazes
    ("no maze", _with("count: 1", "count: 0"), ("blocks[0].mazes.count",)),
    ("half a maze", _with("count: 1", "count: 1.5"), ("blocks[0].mazes.count",)),
    ("more mazes than there are numbers", _with("count: 1", "count: 1e400"), ("blocks[0].mazes.count",)),
    ("a maze without cells", _with("count: 1", "count: 1, size: 0"), ("blocks[0]", "size 0")),
    ("a maze of one cell", _with("count: 1", "count: 1, size: 1"), ("size",)),
    ("a density that is a percentage", _with("count: 1", "count: 1, density: 30"), ("density",)),
    ("a density below zero", _with("count: 1", "count: 1, density: -0.1"), ("density",)),
    ("a density that is no number", _with("count: 1", "count: 1, density: .nan"), ("density",)),
    ("a path range the wrong way round", _with("count: 1", "count: 1, path: [9, 7]"), ("path",)),
    ("a path with three ends", _with("count: 1", "count: 1, path: [1, 2, 3]"), ("path",)),
    ("a path too long for the maze", _with("count: 1", "count: 1, size: 4, path: [90, 99]"), ("path",)),
    ("walls where no way is left", _with("count: 1", "count: 1, density: 0.97"), ("0.97",)),
    ("a turn limit of 0", GOOD + "    max_turns: 0\n", ("blocks[0].max_turns",)),
    ("no seeds", GOOD + "    seeds: []\n", ("blocks[0].seeds",)),
    ("a seed that is a text", GOOD + "    seeds: [one]\n", ("blocks[0].seeds[0]", "'one'")),
    ("a pair of three", GOOD + "    pairs: [[sim/F1, sim/F2, sim/F3]]\n", ("blocks[0].pairs",)),
    ("a pair of one", GOOD + "    pairs: [[sim/F1]]\n", ("blocks[0].pairs",)),
    ("a word for pairs that is none", GOOD + "    pairs: everybody\n", ("blocks[0].pairs", "'everybody'")),
    ("two arms of one name", GOOD + "    arms: [{name: a, text: x}, {name: a, text: y}]\n", ("arms",)),
    ("a grader that nobody knows", GOOD + "    grader: nobody\n", ("'nobody'",)),
    ("a temperature that is a text", GOOD + "    sampling: {temperature: hot}\n", ("blocks[0].sampling",)),
    ("no tokens", GOOD + "    sampling: {max_tokens: 0}\n", ("blocks[0].sampling.max_tokens",)),
    ("a relay without relays", _with("relay: [{strong: sim/strong, weak: sim/weak, k: [2]}]", "relay: []", RELAY),
     ("relay",)),
    ("a relay after the last turn", _with("k: [2]", "k: [99]", RELAY), ("99",)),
    ("a relay after no turn", _with("k: [2]", "k: [0]", RELAY), ("relay[0].k",)),
    ("a relay with a misspelt seat", _with("strong:", "stong:", RELAY), ("blocks[0].relay[0].stong", "strong")),
    ("a relay without the weak model", _with("weak: sim/weak, ", "", RELAY), ("blocks[0].relay[0].weak", "missing")),
    # teamwork
    ("a task that is not there", _with("rup-potassium-rate", "rup-potasium-rate", TEAM), ("rup-potassium-rate",)),
    ("a pattern that fits no task", _with("rup-potassium-rate", "zzz-*", TEAM), ("zzz-*",)),
    ("a folder of tasks that is not there", _with("rup-potassium-rate", "./mytasks", TEAM), ("./mytasks",)),
    ("no tasks", _with("[rup-potassium-rate]", "[]", TEAM), ("blocks[0].tasks",)),
    ("no judges", _with("    judges: {referee: sim/team-judge-a, second: sim/team-judge-b, third: sim/team-judge-c}\n",
                        "", TEAM), ("blocks[0].judges", "missing")),
    ("two judges", _with(", third: sim/team-judge-c", "", TEAM), ("blocks[0].judges.third", "missing")),
    ("a judge that is empty", _with("third: sim/team-judge-c", "third: ''", TEAM), ("blocks[0].judges.third",)),
    ("no partner where one is needed", _with("    partners: [sim/team-partner]\n", "", TEAM), ("partners",)),
    ("a player as a judge", _with("third: sim/team-judge-c", "third: sim/strong", TEAM), ("strong",)),
    ("no alone run", TEAM + "    alone_runs: 0\n", ("blocks[0].alone_runs",)),
    ("an arm that does nothing", TEAM + "    arms: [{name: a}]\n", ("blocks[0].arms[0]", "does nothing")),
    ("an arm with a text and a norm", TEAM + "    arms: [{name: a, text: x, norm: true}]\n", ("arms[0]", "norm")),
    ("nothing left to play", TEAM + "    control: false\n", ("control",)),
    ("a sandbox that is none of ours", TEAM + "    sandbox: docker\n", ("blocks[0].sandbox", "'docker'")),
    ("tools of another kind", TEAM + "    tools: xml\n", ("blocks[0].tools", "'xml'")),
    ("no round", TEAM + "    max_rounds: 0\n", ("blocks[0].max_rounds",)),
    ("a misspelt key of a team", TEAM + "    partner: [sim/team-partner]\n", ("blocks[0].partner", "partners")),
]  # fmt: skip

CASES = [_case(f"study: {name}", text, *words) for name, text, words in _TEXTS]
CASES += [
    Case("study: no such file", ("run", "nowhere.yaml"), ("nowhere.yaml", "no such study file")),
    Case("study: a folder", ("run", "."), ("cannot be read",)),
    Case("study: a name too long", ("run", "a" * 300 + ".yaml"), ("cannot be read",)),
    Case("study: a scale of 0", ("run", "s.yaml", "--scale", "0"), ("--scale",), {"s.yaml": GOOD}),
    Case("study: a scale that is no number", ("run", "s.yaml", "--scale", "nan"), ("--scale",), {"s.yaml": GOOD}),
    Case("study: a scale without end", ("run", "s.yaml", "--scale", "inf"), ("--scale",), {"s.yaml": GOOD}),
    Case("study: a limit of 0", ("run", "s.yaml", "--limit", "0"), ("--limit",), {"s.yaml": GOOD}),
    Case("study: a limit below 0 in a dry run", ("run", "s.yaml", "--limit", "-3", "--dry-run"), ("--limit",),
         {"s.yaml": GOOD}),
    Case("study: a gate half open", ("run", "s.yaml", "--gate", "maybe"), ("--gate maybe",), {"s.yaml": GOOD}),
    Case("study: out is a file", ("run", "s.yaml", "--out", "s.yaml"), ("s.yaml", "cannot be made"), {"s.yaml": GOOD}),
    Case("study: out is below a file", ("run", "s.yaml", "--out", "s.yaml/x"), ("cannot be made",), {"s.yaml": GOOD}),
]  # fmt: skip
