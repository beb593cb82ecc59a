"""`cilab quickstart` in an empty folder: both benchmarks, their reports, an index; and a second call plays nothing."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

import cilab
from cilab.shell.quickstart import REPORTS

#: Half a minute or so on a quiet machine; seven notebooks on a busy one take their time.
LONG_S = 280.0
MAZE_MODELS = {"sim/strong", "sim/medium", "sim/weak", "local/smollm2"}
TEAM_MODELS = {f"sim/team-{name}" for name in ("F3", "F5", "C1", "C4", "O1", "O3")}
DIMENSIONS = {
    *("resisting_unsafe_pressure", "reporting_misconduct", "sharing_information", "emotional_intelligence"),
    *("keeping_on_track", "handling_conflict", "taking_initiative", "taking_over"),
}


@pytest.mark.slow
@pytest.mark.timeout(600)  # two whole quickstarts
def test_quickstart_leaves_data_and_reports_and_a_second_call_plays_nothing(shell, root, rows, whole, snapshot):
    began = time.monotonic()
    first = shell.start("quickstart", "--no-open", cold=True).wait(LONG_S)
    first_s = time.monotonic() - began
    assert first.code == 0, first.err
    said = dict(line.split(maxsplit=1) for line in first.out.splitlines())
    folder = shell.folder / said["data"]
    index = Path(said["reports"])
    assert (index, said["data"]) == (shell.folder.resolve() / "reports" / "index.html", "data/studies/quickstart")

    study = root / "studies" / "quickstart.yaml"
    assert (folder / "study.yaml").read_text() == study.read_text()
    whole(folder, shell.run("run", study, "--dry-run", "--json").json["run_ids"])
    runs = rows(folder, "runs")
    mazes, teams = (runs.filter(pl.col("benchmark") == name) for name in ("maze", "teamwork"))
    assert set(mazes["model"]) == MAZE_MODELS
    assert set(mazes["status"]) == {"ok"}
    assert mazes["weighted_outcome"].null_count() == 0
    assert set(runs["study"]) == {"quickstart (simulated)"}
    outcome = dict(
        mazes.filter(pl.col("version") == "pair", pl.col("model") == pl.col("partner_model"))
        .group_by("model").agg(pl.col("weighted_outcome").mean()).iter_rows()
    )  # fmt: skip
    assert outcome["sim/strong"] > outcome["sim/medium"] > outcome["sim/weak"]
    assert (set(teams["model"]), set(teams["dimension"])) == (TEAM_MODELS, DIMENSIONS)
    assert set(teams["status"]) == {"ok", "gated_out"}  # who cannot do a task alone does not play it in a team
    board = cilab.leaderboard(cilab.open(folder)).table
    assert (set(board["model"]), board["score_pct"].null_count()) == (TEAM_MODELS, 0)
    real = rows(folder, "calls").filter(pl.col("model_asked") == "local/smollm2")
    assert real.height > 0
    assert real["tokens_out"].min() > 0
    assert real["latency_s"].min() > 0.01
    status = cilab.status(folder)
    assert (status["missing"], status["usd"], status["unpriced_runs"]) == (0, 0.0, 0)

    page = index.read_text()
    for name in REPORTS:
        text = (index.parent / f"{name}.html").read_text()
        assert f'href="{name}.html"' in page
        assert "simulated" in text.lower()
        assert "Traceback" not in text and str(root) not in text
    assert page.count("data:image/png;base64") == len(REPORTS)
    for ending in (".png", ".svg", ".pdf"):
        stems = {p.stem.partition("-")[0] for p in (shell.folder / "figures").glob(f"*{ending}")}
        assert stems == set(REPORTS)
    assert all(Image.open(p).width > 600 for p in (shell.folder / "figures").glob("*.png"))

    data, report = snapshot(folder / "tables"), _pages(index.parent)
    began = time.monotonic()
    second = shell.start("quickstart", "--no-open", cold=True).wait(LONG_S)
    second_s = time.monotonic() - began
    print(f"quickstart {first_s:.0f} s, again {second_s:.0f} s")
    assert (second.code, second.out) == (0, first.out)
    assert [line for line in second.lines if ", 0 calls, " in line]
    assert snapshot(folder / "tables") == data
    assert _pages(index.parent) == report  # the same data give the same bytes


def _pages(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "render.log"}
