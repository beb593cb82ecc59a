"""`cilab quickstart` in an empty folder: what it leaves, and that a second call plays nothing."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

import cilab

MODELS = {"sim/strong", "sim/medium", "sim/weak", "local/smollm2"}


@pytest.mark.slow
def test_quickstart_leaves_data_and_a_report_and_a_second_call_plays_nothing(shell, root, rows, whole, snapshot):
    began = time.monotonic()
    first = shell.run("quickstart", "--no-open")
    first_s = time.monotonic() - began
    assert first.code == 0, first.err
    said = dict(line.split(maxsplit=1) for line in first.out.splitlines())
    folder = shell.folder / said["data"]
    html = Path(said["report"])
    assert (html, said["data"]) == (shell.folder.resolve() / "reports" / "maze_gap.html", "data/studies/quickstart")

    study = root / "studies" / "quickstart.yaml"
    assert (folder / "study.yaml").read_text() == study.read_text()
    whole(folder, shell.run("run", study, "--dry-run", "--json").json["run_ids"])
    runs = rows(folder, "runs")
    assert set(runs["model"]) == MODELS
    assert set(runs["status"]) == {"ok"}
    assert runs["weighted_outcome"].null_count() == 0
    assert set(runs["study"]) == {"quickstart (simulated)"}
    outcome = dict(
        runs.filter(pl.col("version") == "pair", pl.col("model") == pl.col("partner_model"))
        .group_by("model").agg(pl.col("weighted_outcome").mean()).iter_rows()
    )  # fmt: skip
    assert outcome["sim/strong"] > outcome["sim/medium"] > outcome["sim/weak"]
    real = rows(folder, "calls").filter(pl.col("model_asked") == "local/smollm2")
    assert real.height > 0
    assert real["tokens_out"].min() > 0
    assert real["latency_s"].min() > 0.01
    status = cilab.status(folder)
    assert (status["missing"], status["usd"], status["unpriced_runs"]) == (0, 0.0, 0)

    text = html.read_text()
    assert "simulated" in text.lower()
    assert str(root) not in text
    figures = {p.suffix: p for p in (shell.folder / "figures").iterdir()}
    assert {".png", ".svg", ".pdf"} <= set(figures)
    assert Image.open(figures[".png"]).width > 600

    data, report = snapshot(folder / "tables"), html.read_bytes()
    began = time.monotonic()
    second = shell.run("quickstart", "--no-open")
    second_s = time.monotonic() - began
    print(f"quickstart {first_s:.0f} s, again {second_s:.0f} s")
    assert (second.code, second.out) == (0, first.out)
    assert [line for line in second.lines if ", 0 calls, " in line]
    assert snapshot(folder / "tables") == data
    assert html.read_bytes() == report  # the same data give the same bytes
    assert second_s < first_s / 2
