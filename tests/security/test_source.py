"""What the package's source never does: unpickle, load YAML unsafely, evaluate text as code, or start a shell.

The modules are parsed, not imported. Each rule is held against a source that breaks it, so the test can fail.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cilab.core.errors import StudyError
from cilab.core.inputs import _loader, read_yaml

PACKAGE = Path(__file__).resolve().parents[2] / "cilab"
#: Modules that turn bytes into objects of any type.
UNPICKLERS = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "copyreg"}
#: Functions of other libraries that unpickle what they read.
LOADERS = {("joblib", "load"), ("torch", "load"), ("pandas", "read_pickle"), ("pd", "read_pickle")}
EVALUATORS = {"eval", "exec", "compile", "__import__"}
#: The one place that may call `yaml.load`: with a loader made from the safe one.
YAML_READER = "core/inputs.py"


def problems(source: str, name: str) -> Iterator[str]:
    """What a module does that it must not."""
    for node in ast.walk(ast.parse(source)):
        where = f"{name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (f"{where}: imports {m}" for m in modules if m.split(".")[0] in UNPICKLERS)
        elif isinstance(node, ast.Call):
            yield from (f"{where}: {what}" for what in _call(node, name))


def _call(node: ast.Call, name: str) -> Iterator[str]:
    keywords = {k.arg: k.value for k in node.keywords}
    if isinstance(node.func, ast.Name) and node.func.id in EVALUATORS:
        yield f"calls {node.func.id}"
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        called = (owner, node.func.attr)
        if called in LOADERS:
            yield f"calls {owner}.{node.func.attr}"
        if owner == "yaml" and "load" in node.func.attr and not node.func.attr.startswith("safe_"):
            loader = node.args[1] if len(node.args) > 1 else keywords.get("Loader")
            safe = isinstance(loader, ast.Call) and getattr(loader.func, "id", "") == "_loader"
            if not (name == YAML_READER and safe):
                yield f"calls yaml.{node.func.attr}"
        if called in {("os", "system"), ("os", "popen")}:
            yield f"calls os.{node.func.attr}"
    for key in ("allow_pickle", "shell"):
        value = keywords.get(key)
        if value is not None and not (isinstance(value, ast.Constant) and value.value is False):
            yield f"passes {key}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_module_unpickles_evaluates_text_or_starts_a_shell(path):
    assert list(problems(path.read_text(encoding="utf-8"), str(path.relative_to(PACKAGE)))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from marshal import loads",
        "import cloudpickle.compat",
        "import joblib\njoblib.load('x')",
        "import pandas as pd\npd.read_pickle('x')",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "import numpy as np\nnp.load('x', allow_pickle=wanted)",
        "import yaml\nyaml.load(text)",
        "import yaml\nyaml.load(text, yaml.Loader)",
        "import yaml\nyaml.full_load(text)",
        "import yaml\nyaml.unsafe_load_all(text)",
        "eval('1')",
        "exec(text)",
        "compile(text, 'x', 'exec')",
        "import os\nos.system('ls')",
        "import subprocess\nsubprocess.run('ls', shell=True)",
    ],
)
def test_a_source_that_breaks_a_rule_is_found(source):
    assert list(problems(source, "x.py"))


@pytest.mark.parametrize(
    "source",
    ["import yaml\nyaml.safe_load(text)", "import json\njson.loads(text)", "import numpy as np\nnp.load('x')"],
)
def test_a_source_that_keeps_the_rules_is_not(source):
    assert not list(problems(source, "x.py"))


def test_yaml_with_objects_of_python_is_refused_and_runs_nothing(tmp_path):
    assert issubclass(_loader(), yaml.SafeLoader)
    made = tmp_path / "made"
    for text in (
        f"!!python/object/apply:os.mkdir ['{made}']",
        f"a: !!python/object/new:os.mkdir ['{made}']",
        f"- !!python/object/apply:subprocess.call [['touch', '{made}']]",
        "a: !!python/name:os.system",
        "a: !!python/module:os",
    ):
        with pytest.raises(StudyError, match="no YAML"):
            read_yaml(text, "s.yaml", StudyError)
    assert not made.exists()
