"""The outputs are what they were when they were frozen; `python -m tests.frozen.remake` freezes them anew.

A failure here names the frame and the column. Numbers may differ by 1e-9 of their size, texts not at all.
"""

from __future__ import annotations

import json
import math
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import cilab
from tests.frozen import outputs

FOLDER = outputs.ROOT / "tests" / "golden" / "frozen"
KEYS = [path.stem for path in sorted(FOLDER.glob("*.txt")) if path.stem != "help"]


@cache
def frozen() -> dict[str, Any]:
    return json.loads((FOLDER / "records.json").read_text())


def differences(was: Any, now: Any, where: str = "") -> list[str]:
    """Where two records differ, a line each."""
    if isinstance(was, dict) and isinstance(now, dict):
        gone = [f"{where}.{key}: {'new' if key in now else 'gone'}" for key in sorted(was.keys() ^ now.keys())]
        if list(was) != list(now) and not gone:
            gone = [f"{where}: in another order: {list(now)}"]
        return gone + [d for key in was if key in now for d in differences(was[key], now[key], f"{where}.{key}")]
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        return [d for i, (a, b) in enumerate(zip(was, now, strict=True)) for d in differences(a, b, f"{where}[{i}]")]
    if isinstance(was, float) and isinstance(now, float):
        same = math.isclose(was, now, rel_tol=1e-9, abs_tol=1e-9)
    else:
        same = was == now and type(was) is type(now)
    return [] if same else [f"{where}: was {was}, is {now}"]


@pytest.mark.parametrize("key", KEYS)
def test_an_estimator_gives_the_frames_the_text_the_html_and_the_reasons_that_it_gave(key: str) -> None:
    now, text = outputs.call(key)
    assert differences(frozen()["calls"][key], json.loads(json.dumps(now)), key) == []
    assert text.splitlines() == (FOLDER / f"{key}.txt").read_text().splitlines()


def test_every_estimator_of_the_face_is_frozen() -> None:
    assert (
        {key.partition(".")[0] for key in KEYS}
        == set(cilab.stats.ESTIMATORS)
        == {key.partition(".")[0] for key in frozen()["calls"]}
    )


def test_the_ledger_computes_the_numbers_that_it_computed() -> None:
    assert differences(frozen()["ledger"], json.loads(json.dumps(outputs.ledger())), "ledger") == []


@pytest.mark.parametrize("name", outputs.PLANS)
def test_a_study_file_plans_the_rollouts_that_it_planned(name: str) -> None:
    if name == "teamwork_local" and not shutil.which("bwrap"):
        pytest.skip("its tasks run code: bubblewrap is not installed")
    assert outputs.plan(name) == frozen()["plans"][name]


def test_a_simulated_study_is_played_as_it_was(tmp_path: Path) -> None:
    assert differences(frozen()["played"], json.loads(json.dumps(outputs.played(tmp_path))), "played") == []


def test_the_help_of_every_verb_is_what_it_was() -> None:
    assert outputs.helps().splitlines() == (FOLDER / "help.txt").read_text().splitlines()


@pytest.mark.study
def test_every_report_on_simulated_data_has_the_bytes_that_it_had(tmp_path: Path) -> None:
    """Four minutes; remade by `python -m tests.frozen.remake reports`."""
    assert differences(json.loads((FOLDER / "reports.json").read_text()), outputs.reports(tmp_path), "reports") == []


def test_the_public_names_are_what_they_were() -> None:
    assert differences(frozen()["names"], outputs.names(), "names") == []


def test_a_changed_value_order_word_or_column_is_a_difference() -> None:
    was = {"t": {"height": 2, "x": [0, 3.0, 4.0], "name": [0, "a1"]}}
    assert differences(was, was) == []
    assert differences(was, {"t": {"height": 2, "x": [0, 3.0 + 1e-11, 4.0], "name": [0, "a1"]}}) == []
    for now in (
        {"t": {"height": 2, "x": [0, 3.0, 4.1], "name": [0, "a1"]}},
        {"t": {"height": 2, "x": [0, 3.0, 4.0], "name": [0, "a2"]}},
        {"t": {"height": 2, "name": [0, "a1"], "x": [0, 3.0, 4.0]}},
        {"t": {"height": 2, "x": [0, 3.0, 4.0]}},
        {"t": {"height": 2, "x": [0, 3, 4.0], "name": [0, "a1"]}},
    ):
        assert len(differences(was, now)) == 1
