"""Types: mypy finds no error that is not known, none in the rooms that everything stands on; editors see the face."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import subprocess
import sys
from collections import Counter

import jedi
import pytest

import cilab
from tests.house import ROOT

_spec = importlib.util.spec_from_file_location("check_types", ROOT / "tools" / "check_types.py")
check_types = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_types)

#: Rooms in which every error is mended.
STRICT = ("cilab/core/", "cilab/results/", "cilab/store/")


@pytest.fixture(scope="session")
def found():
    """What mypy finds, once a session."""
    return check_types.errors()


# mypy's cache lies in the venv. Without it a run takes 12 s of processor time, with it less than one.
@pytest.mark.slow
def test_mypy_finds_what_the_baseline_knows_and_nothing_else(found):
    assert "\n".join(check_types.problems(found, check_types.known())) == ""


@pytest.mark.slow
def test_core_results_and_store_have_no_error(found):
    assert [text for file, _, text in found if file.startswith(STRICT)] == []
    assert [file for file, _ in check_types.known() if file.startswith(STRICT)] == []


def test_a_new_error_is_told_with_its_line_and_an_error_that_is_gone_with_the_way_to_shrink():
    found = [("a.py", "arg-type", "a.py:3: wrong [arg-type]"), ("a.py", "index", "a.py:9: not here [index]")]
    assert check_types.problems(found, {("a.py", "arg-type"): 1, ("a.py", "index"): 1}) == []
    new = check_types.problems(found, {("a.py", "arg-type"): 1})
    assert new == [
        "a.py: 1 more [index] than tests/mypy_baseline.txt knows; one of these is new:",
        "    a.py:9: not here [index]",
    ]
    gone = check_types.problems(found, {("a.py", "arg-type"): 3, ("a.py", "index"): 1})
    assert gone[0] == "a.py: 2 fewer [arg-type] than the baseline knows"
    assert "tools/check_types.py --shrink" in gone[1]


def test_the_baseline_only_shrinks(tmp_path, monkeypatch):
    monkeypatch.setattr(check_types, "BASELINE", tmp_path / "baseline.txt")
    check_types.shrink([("a.py", "index", ""), ("a.py", "index", ""), ("b.py", "misc", "")])
    assert check_types.known() == {("a.py", "index"): 2, ("b.py", "misc"): 1}
    check_types.shrink([("a.py", "index", ""), ("c.py", "misc", "")])
    assert check_types.known() == Counter({("a.py", "index"): 1})


# -- what an editor sees --------------------------------------------------------------------------------------


def names_for_editors(module):
    """Public name -> where it comes from, by the `if TYPE_CHECKING:` of a module that loads its names at first use."""
    (block,) = (
        node
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    out = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            # `import x as x`: by this, and only by this, a type checker knows the name to be public.
            out |= {alias.name: node.module for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            out[ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])] = None
    return out


def imported(source, name):
    """What `from source import name` gives."""
    try:
        return getattr(importlib.import_module(source), name)
    except AttributeError:
        return importlib.import_module(f"{source}.{name}")


@pytest.mark.parametrize("name", ["cilab.stats", "cilab.plots", "cilab.datasets"])
def test_an_editor_is_given_every_public_name_from_the_module_that_it_is_loaded_from(name):
    module = importlib.import_module(name)
    given = names_for_editors(module)
    assert sorted(given) == sorted(n for n in module.__all__ if n not in ("ESTIMATORS", "METHODS"))
    for public, source in given.items():
        if source is not None:
            assert imported(source, public) is getattr(module, public)


def test_an_editor_is_given_every_name_of_the_face():
    given = names_for_editors(cilab)
    # Its own: another test may have put a loaded name there.
    defined = {n for n in cilab.__all__ if getattr(vars(cilab).get(n), "__module__", None) == "cilab"}
    assert set(given) == set(cilab.__all__) - defined | set(cilab._MODULES)
    for public, source in given.items():
        if source is not None:
            assert imported(source, public) is getattr(cilab, public)


@pytest.mark.parametrize("name", [*cilab.stats.ESTIMATORS, *cilab.stats.METHODS])
def test_an_editor_shows_signature_and_docs_of_every_estimator_without_running_it(name):
    (shown,) = jedi.Script(f"import cilab\ncilab.{name}(").get_signatures()
    function = getattr(cilab, name)
    plain = inspect.signature(inspect.unwrap(function), follow_wrapped=False)
    named = [n for n, p in plain.parameters.items() if p.kind is not p.VAR_KEYWORD]
    assert [p.name for p in shown.params if p.kind is not inspect.Parameter.VAR_KEYWORD] == named
    # What comes through `**scope` an editor knows as the typed dictionary; a notebook's kernel opens it, see below.
    assert ("Unpack[Scope]" in shown.to_string()) == (len(named) < len(plain.parameters))
    assert function.__doc__.splitlines()[0] in shown.docstring(raw=True)


def test_a_notebook_shows_every_argument_and_the_docs():
    (shown,) = jedi.Interpreter("cilab.leaderboard(", [{"cilab": cilab}]).get_signatures()
    arguments = [p.name for p in shown.params]
    assert arguments[0] == "study" and {"seed", "ci_level", "version", "gate", "allow_partial"} <= set(arguments)

    from IPython.core.oinspect import Inspector

    # What a kernel answers when Shift+Tab asks it.
    told = Inspector(theme_name="linux").info(cilab.leaderboard)
    for argument in ("study", "seed", "ci_level", "version", "gate", "allow_partial"):
        assert f"{argument}:" in told["definition"]
    assert told["definition"].endswith("-> 'Leaderboard'") and "Overall score of every row" in told["docstring"]


@pytest.mark.slow
def test_a_type_checker_knows_what_the_face_takes_and_gives(tmp_path):
    asked = tmp_path / "asked.py"
    asked.write_text("""\
import cilab
study = cilab.open("x")
reveal_type(cilab.leaderboard(study, gate="off", seed=1))
reveal_type(cilab.plots.gap)
cilab.leaderboard(study, seed="one")
cilab.leaderboard(study, gate="closed")
cilab.leaderboard(study, gat="off")
""")
    command = [sys.executable, "-m", "mypy", "--hide-error-context", "--output", "json", asked]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    lines = [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]
    # By name: out of its cache mypy tells the folder of an earlier run.
    about = {line["line"]: line["message"] for line in lines if line["file"].endswith(asked.name)}
    assert about[3] == 'Revealed type is "cilab.stats.teamwork.scores.Leaderboard"', told
    assert about[4].startswith('Revealed type is "def (result: cilab.stats.maze.gap.GapResult, *, ax: ')
    assert about[5] == 'Argument "seed" to "leaderboard" has incompatible type "str"; expected "int"'
    assert about[6].startswith('Argument "gate" to "leaderboard" has incompatible type')
    assert about[7].startswith('Unexpected keyword argument "gat" for "leaderboard"')
