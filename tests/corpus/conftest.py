"""The played study that bad questions are asked of, and a folder of its own for each case."""

from __future__ import annotations

import os

import pytest
import yaml

from cilab.running.play import run_study
from tests.corpus.driver import contents

STUDY = {
    "name": "corpus_sim",
    "blocks": [
        {"benchmark": "maze", "versions": ["solo_full", "pair"], "models": ["sim/strong"], "mazes": {"count": 2}}
    ],
}


@pytest.fixture(scope="session")
def played(tmp_path_factory):
    """A small played study; it is the same, byte for byte, when all cases are over."""
    home = tmp_path_factory.mktemp("corpus")
    (home / "study.yaml").write_text(yaml.safe_dump(STUDY))
    run_study(home / "study.yaml", out=home / "out", show_progress=False)
    before = contents(home / "out")
    yield home / "out"
    assert contents(home / "out") == before


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, where the command runs; no keys in the environment."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_API_BASE", "_TOKEN")):
            monkeypatch.delenv(name)
    return folder
