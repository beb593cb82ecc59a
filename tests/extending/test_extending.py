"""Packages of others: a third benchmark and an importer that pip installs, in fresh processes, with nothing patched.

`words/`, `diary/` and `broken/` beside this file are whole projects, as somebody else would write them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
STUDY = """\
name: guessing
blocks:
  - benchmark: words
    models: [sim/words-good, sim/words-poor]
"""
MAZES = "name: mazes\nblocks:\n  - benchmark: maze\n    models: [sim/strong]\n    mazes: {count: 1}\n"
BROKEN = "name: broken\nblocks:\n  - benchmark: broken\n"
#: How a package that does not load is named.
WHY = (
    "broken of cilab-broken (cilab_broken:{}) does not load (RuntimeError: its licence ran out). "
    "Mend or uninstall that package; everything else works."
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the three packages installed; all tests run beside the one that does not load."""
    folder = tmp_path_factory.mktemp("installed")
    # Copies: building leaves files beside the sources.
    sources = [shutil.copytree(HERE / name, folder / "src" / name) for name in ("words", "diary", "broken")]
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    pip = [sys.executable, "-m", "pip", "install", *offline, "--target", folder / "site", *sources]
    ended = subprocess.run(list(map(str, pip)), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder / "site"


class Shell:
    """`cilab` in a process of its own, which finds the packages of a folder."""

    def __init__(self, folder: Path, site: Path):
        self.folder = folder
        self.env = {k: v for k, v in os.environ.items() if not k.endswith(("_API_KEY", "_API_BASE", "_TOKEN"))}
        also = [path for path in (self.env.get("PYTHONPATH"),) if path]  # the extra `inspect`, where it lies apart
        self.env |= {"PYTHONPATH": os.pathsep.join([str(site), *also]), "NO_COLOR": "1"}

    def __call__(self, *args: Any, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cilab", *map(str, args)]
        done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def answer(self, sql: str, data: str) -> list[dict[str, Any]]:
        return json.loads(self("query", sql, "--data", data, "--format", "json").stdout)


@pytest.fixture(scope="module")
def shell(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    folder = tmp_path_factory.mktemp("work")
    for name, text in (("guessing", STUDY), ("mazes", MAZES), ("broken", BROKEN)):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return Shell(folder, site)


@pytest.fixture(scope="module")
def data(shell: Shell) -> str:
    """The played study: two rollouts first, the others by the same command again."""
    first = json.loads(shell("run", "guessing.yaml", "--out", "guessed", "--limit", 2, "--json").stdout)
    assert (first["planned"], first["finished"]) == (2, 2)
    rest = json.loads(shell("run", "guessing.yaml", "--out", "guessed", "--json").stdout)
    assert (rest["planned"], rest["finished"], rest["this_session"]["ok"], rest["this_session"]["calls"]) == (
        6,
        6,
        4,
        8,
    )
    return "guessed"


# -- a benchmark ------------------------------------------------------------------------------------------


def test_a_dry_run_forecasts_the_plan_of_a_benchmark_of_another_package(shell):
    forecast = json.loads(shell("run", "guessing.yaml", "--out", "none", "--dry-run", "--json").stdout)
    assert len(forecast["run_ids"]) == 6 and forecast["calls"] == [12.0, 12.0, 12.0]
    assert not (shell.folder / "none").exists()


def test_its_study_is_played_resumed_counted_and_asked(shell, data):
    assert json.loads(shell("status", data, "--json").stdout)["by_status"] == {"ok": 6}
    sql = "SELECT model, sum(score) AS won, count(*) AS n FROM runs GROUP BY model ORDER BY model"
    assert shell.answer(sql, data) == [
        {"model": "sim/words-good", "won": 3.0, "n": 3},
        {"model": "sim/words-poor", "won": 0.0, "n": 3},
    ]
    assert shell.answer("SELECT count(*) AS n FROM messages", data) == [{"n": 12}]
    sql = "SELECT DISTINCT version, word_letters AS n FROM runs WHERE task_id = 'kite'"
    assert shell.answer(sql, data) == [{"version": "guessing", "n": 4}]


def test_its_study_stays_readable_where_it_is_not_installed(shell, data):
    without = Shell(shell.folder, shell.folder)
    assert without.answer("SELECT sum(score) AS won FROM runs", data) == [{"won": 3.0}]
    run_id = shell.answer("SELECT run_id FROM runs WHERE task_id = 'anvil' AND passed", data)[0]["run_id"]
    assert "A smith works on it." in without("show", run_id, "--data", data).stdout


def test_a_run_is_shown_with_what_its_view_says(shell, data):
    run_id = shell.answer("SELECT run_id FROM runs WHERE task_id = 'anvil' AND passed", data)[0]["run_id"]
    text = shell("show", run_id, "--data", data).stdout
    assert (
        "was it guessed guessed · word letters 5" in text
        and "A smith works on it." in text
        and "turn 1" in text
        and "round 1" not in text
    )
    page = shell.folder / "run.html"
    shell("show", run_id, "--data", data, "--html", page)
    assert "<dt>word letters</dt><dd>5</dd>" in page.read_text(encoding="utf-8")


def test_its_runs_are_regraded_by_its_own_look(shell, data):
    shell("regrade", data, "--with", "rules")
    sql = (
        "SELECT DISTINCT task_id, value FROM annotations JOIN runs USING (run_id) WHERE feature = 'letters' ORDER BY 2"
    )
    found = [(row["task_id"], row["value"]) for row in shell.answer(sql, data)]
    assert found == [("kite", 4.0), ("anvil", 5.0), ("lighthouse", 10.0)]


def test_a_report_on_its_runs_says_what_these_do_not_give(shell, data):
    ended = shell("report", "ask", "--data", data, code=1)
    assert ended.stderr == "not computed: runs: nothing to score; left out: 6 of another version\n"
    assert data in Path(ended.stdout.strip()).read_text(encoding="utf-8")
    line = shell("report", "start_here", "--data", data, code=2).stderr
    assert line.count("\n") == 1 and "runs: nothing to score; left out: 6 of another version" in line


def test_all_reports_are_those_of_the_benchmarks_that_it_has_runs_of(shell, data):
    broken, *others = shell("report", "all", "--data", data).stderr.splitlines()
    assert "cilab-broken" in broken and all(line.startswith("left out ") for line in others)
    assert {"left out leaderboard: needs teamwork runs; guessed has none"} < set(others)
    assert {"left out maze_gap: needs maze runs; guessed has none"} < set(others)


@pytest.mark.skipif(importlib.util.find_spec("inspect_ai") is None, reason="needs the extra inspect")
def test_its_runs_are_exported_and_come_back(shell, data):
    shell("export", "inspect", data, "--out", "logs")
    shell("import", "inspect", "logs", "--out", "again")
    sql = "SELECT count(*) AS n, sum(score) AS won FROM runs WHERE benchmark = 'words' AND version = 'guessing'"
    assert shell.answer(sql, "again") == [{"n": 6, "won": 3.0}]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("benchmark: words", "benchmark: wrods", "known: broken, maze, teamwork, words. Did you mean words?"),
        ("sim/words-poor", "sim/words-por", "sim/words-por: is words-good or words-poor."),
        ("models: [", "model: [", "blocks[0].model: unknown key."),
    ],
)
def test_a_slip_in_its_study_is_one_line(shell, old, new, words):
    (shell.folder / "slip.yaml").write_text(STUDY.replace(old, new), encoding="utf-8")
    line = shell("run", "slip.yaml", code=2).stderr
    assert line.count("\n") == 1 and words in line


# -- an importer ------------------------------------------------------------------------------------------


def test_an_importer_of_another_package_is_found_says_what_it_dropped_and_its_runs_are_asked(shell):
    (shell.folder / "diary.txt").write_text("t1 gpt yes\nt2 gpt no\nhm\n", encoding="utf-8")
    said = shell("import", "diary", "diary.txt", "--out", "diary", "-o", "name=mine").stdout
    assert (
        "3 rows of diary.txt" in said and "dropped   1 in runs: a line of other than three words (e.g. line 3)" in said
    )
    assert shell.answer("SELECT study, sum(score) AS won FROM runs GROUP BY study", "diary") == [
        {"study": "mine", "won": 1.0}
    ]
    code = "import cilab; print(cilab.datasets.import_diary('diary.txt').dataset.runs.collect().height)"
    python = subprocess.run(
        [sys.executable, "-c", code], cwd=shell.folder, env=shell.env, capture_output=True, text=True
    )
    assert python.stdout == "2\n"


def test_an_unknown_kind_is_told_with_every_importer_that_is_there(shell):
    line = shell("import", "diry", "diary.txt", "--out", "none", code=2).stderr
    assert line == (
        "cilab: no importer named diry; there are broken, diary, inspect, labels, release, reviews, table. "
        "Did you mean diary?\n"
    )


# -- a package that does not load -------------------------------------------------------------------------


def test_beside_a_package_that_does_not_load_everything_else_works_and_json_stays_json(shell):
    ended = shell("run", "mazes.yaml", "--out", "mazes", "--json")
    assert json.loads(ended.stdout)["finished"] == 3 and "broken" not in ended.stderr
    run_id = shell.answer("SELECT run_id FROM runs ORDER BY run_id", "mazes")[0]["run_id"]
    assert shell("show", run_id, "--data", "mazes").stderr == ""


def test_where_every_benchmark_is_asked_it_is_named_in_one_line(shell, data):
    lines = shell("relabel", data, "--with", "sim/words-good", code=2).stderr.splitlines()
    assert lines == [
        f"cilab: cilab.benchmarks: {WHY.format('BENCHMARK')}",
        "cilab: guessed: holds no finished teamwork run with judged messages.",
    ]


def test_where_it_is_needed_it_is_an_error_of_one_line(shell):
    line = shell("run", "broken.yaml", code=2).stderr
    assert line == f"cilab: broken.yaml: blocks[0].benchmark: cilab.benchmarks: {WHY.format('BENCHMARK')}\n"
    line = shell("import", "broken", "x", "--out", "y", code=2).stderr
    assert line == f"cilab: cilab.importers: {WHY.format('import_broken')}\n"
