"""What the package puts out, as small records that can be compared: the house may be rebuilt, its outputs stay.

Speaks to the package by its faces only (`cilab`, `cilab.datasets`, `cilab.claims`, the shell): modules may move.

A column of numbers is kept as the sum of its values and the sum of its values times weights that differ from line to
line: a changed value, order or sign shows, and rounding on another machine does not. Other columns and long texts are
kept as hashes. Versions of the code are left out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import cilab
from cilab import claims, datasets

#: The checkout that these tests stand in.
ROOT = Path(__file__).resolve().parents[2]
#: What depends on the clock or on the folder (a spec's hash covers where its task lies), and not on the code.
_PASSING = ("seconds", "latency_s", "started_at", "finished_at", "code_version", "spec_hash", "retries")
_MAZES = (
    *("gap", "ablation", "efficiency", "pairs", "relay"),
    *("disagreement", "grader_agreement", "grounding", "mediation"),
)
_FAST = {
    "grounding": {"annotator": "sim:annotator1"},
    "mediation": {"annotator": "sim:annotator1"},
    "item_quality": {"simulations": 20},
    "power": {"simulations": 20, "tasks_per_dimension": (4,), "seeds": (1,), "differences": (5.0,)},
    "lite": {"splits": 3},
    "lite_curve": {"splits": 3},
    "validity": {"splits": 4},
    "drift": {"by": "day"},
}
#: A small study of both benchmarks, by simulated agents: every kind of maze run, and teamwork with its gate.
STUDY = """\
name: frozen_sim
blocks:
  - benchmark: maze
    versions: [solo_full, solo_distributed, pair]
    models: [sim/strong, sim/weak]
    pairs: all
    mazes: {size: 6, density: 0.30, path: [7, 9], count: 3}
  - benchmark: maze
    versions: [relay]
    relay:
      - {strong: sim/strong, weak: sim/weak, k: [2, 6]}
    mazes: {size: 6, density: 0.30, path: [7, 9], count: 2}
  - benchmark: teamwork
    models: [sim/team-F3, sim/team-O3]
    tasks: [rup-retort-door, si-ward-fever, hc-microscope-week, ei-theatre-loss, to-double-check]
    judges: {referee: sim/team-judge-a, second: sim/team-judge-b, third: sim/team-judge-c}
    partners: [sim/team-partner]
"""


def digest(text: str) -> str:
    """16 hexadecimal digits of a text."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def timeless(text: str) -> str:
    """A text without the version of the code."""
    return text.replace(f"cilab {cilab.__version__}", "cilab VERSION")


def column(values: pl.Series) -> list[Any]:
    """`[nulls, sum, weighted sum]` of numbers, else `[nulls, hash]`."""
    if values.dtype.is_numeric() or values.dtype == pl.Boolean:
        there = np.nan_to_num(values.drop_nulls().cast(pl.Float64).to_numpy(), posinf=1e9, neginf=-1e9)
        weights = 1 + np.modf(np.arange(1, len(there) + 1) * 0.6180339887498949)[0]
        return [values.null_count(), float(there.sum()), float(there @ weights)]
    return [values.null_count(), digest(json.dumps(values.to_list(), default=str))]


def frame(table: pl.DataFrame) -> dict[str, Any]:
    """Height, and each column by name, in the order of the table."""
    return {"height": table.height} | {name: column(table[name]) for name in table.columns}


@cache
def _release() -> Any:
    return datasets.simulated_release()


@cache
def _mazes() -> Any:
    return datasets.simulated_mazes()


def new_model(release: Any, per_dimension: int) -> pl.DataFrame:
    """Alone runs and tests of the first tasks of each dimension, of a row of a release under another name."""
    tasks = release.tasks.sort("dimension", "task_id").group_by("dimension", maintain_order=True).head(per_dimension)
    mine = (pl.col("model") == "sim:C1") & pl.col("version").is_in(["alone", "test"])
    runs = release.runs.filter(mine).join(tasks.select("task_id"), on="task_id", how="semi").sort("run_id")
    columns = ("effort", "task_id", "dimension", "version", "seed", "status", "score")
    return runs.select(pl.lit("sim:new").alias("model"), *columns).collect()


def new_round(release: Any, per_dimension: int) -> pl.DataFrame:
    """Alone runs and tests of three rows of a release under other names; of each dimension's tasks two are renamed."""
    tasks = release.tasks.sort("dimension", "task_id").group_by("dimension", maintain_order=True).head(per_dimension)
    other = pl.int_range(pl.len()).over("dimension") >= per_dimension - 2
    new = pl.when(other).then(pl.lit("new-") + pl.col("task_id")).otherwise("task_id")
    tasks = tasks.select("task_id", new=new)
    mine = pl.col("model").is_in(["sim:C1", "sim:C2", "sim:C3"]) & pl.col("version").is_in(["alone", "test"])
    runs = release.runs.filter(mine).join(tasks, on="task_id").sort("run_id")
    names = pl.col("model").str.replace("sim:C", "sim:new")
    columns = ("effort", pl.col("new").alias("task_id"), "dimension", "version", "seed", "status", "score")
    return runs.select(names, *columns).collect()


@cache
def _mirrored() -> pl.DataFrame:
    """The release's runs as if every fourth task of a dimension were the mirror of a signal item, six of a family."""
    number = pl.col("task_id").str.slice(-2).cast(pl.Int64)
    return (
        _release()
        .runs.collect()
        .with_columns(
            item=pl.when(number % 4 == 0).then(pl.lit("mirror")).otherwise(pl.lit("signal")),
            family=pl.format("{}-{}", "dimension", number % 6),
        )
    )


def _options(name: str) -> dict[str, Any]:
    few = {"resamples": 200} if "resamples" in inspect.signature(getattr(cilab, name)).parameters else {}
    return few | _FAST.get(name, {})


def calls() -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """`(key, estimator, data, arguments)`: every estimator once, those of scores on other runs too."""
    models = sorted(_release().runs.select("model").unique().collect()["model"])
    more: dict[str, dict[str, Any]] = {
        "capability": {"measures": pl.DataFrame({"model": models, "index": [float(i) for i in range(len(models))]})},
        "compare": {"a": models[0], "b": models[1]},
        "corrected": {"of": "gives_way", "by": "dimension"},
        "people": {"table": datasets.published_table("people")},
    }
    more["lite_score"] = {"runs_of_new_model": new_model(_release(), 5)}
    more["equate"] = {"new": new_round(_release(), 6)}
    for name in sorted(cilab.stats.ESTIMATORS):
        data = _mirrored() if name == "discrimination" else _mazes() if name in _MAZES else _release()
        yield name, name, data, _options(name) | more.get(name, {})
    round_, hand = datasets.published_round("2026-10-09"), datasets.hand_worked_round()
    for name in ("leaderboard", "dimensions"):
        yield f"{name}.round", name, round_, {"resamples": 200}
        yield f"{name}.hand", name, hand, {"resamples": 200}
    yield "leaderboard.gate_off", "leaderboard", hand, {"resamples": 200, "gate": "off"}
    for name in ("compare", "differences"):  # the papers' intervals, by name
        yield f"{name}.percentile", name, _release(), {"resamples": 200, "interval": "percentile", **more.get(name, {})}
    yield "fill_in.percentile", "fill_in", _release(), {"resamples": 200, "interval": "percentile"}


def result(found: Any) -> dict[str, Any]:
    """Every frame of a result, what it left out and used, and its HTML."""
    frames = {
        field.name: frame(getattr(found, field.name))
        for field in dataclasses.fields(found)
        if isinstance(getattr(found, field.name), pl.DataFrame)
    }
    return {
        "frames": frames,
        "n_used": found.n_used,
        "left_out": dict(found.n_left_out),
        "html": digest(timeless(found._repr_html_())),
    }


def call(key: str) -> tuple[dict[str, Any], str]:
    """The record and the printed text of one call."""
    name, data, arguments = next((n, d, a) for k, n, d, a in calls() if k == key)
    found = getattr(cilab, name)(data, **arguments)
    return result(found), timeless(repr(found))


def ledger() -> dict[str, Any]:
    """The claims with their numbers. The functions that compute them may move, so their names are left out."""
    table = claims.ledger().table
    return frame(table.drop("function"))


def plan(name: str) -> list[Any]:
    """Of a study file that comes with the project: how many rollouts, and a hash of their ids in order."""
    ids = cilab.forecast(ROOT / "studies" / f"{name}.yaml").run_ids
    return [len(ids), digest("\n".join(ids))]


def played(folder: Path) -> dict[str, Any]:
    """The tables of a small simulated study, played here."""
    file = folder / "study.yaml"
    file.write_text(STUDY)
    cilab.run_study(file, out=folder / "out", show_progress=False)
    study = cilab.open(folder / "out")
    out = {}
    for name in ("runs", "messages", "calls", "labels", "annotations", "tasks"):
        table = study.table(name).collect().drop(_PASSING, strict=False)
        keys = [c for c in ("run_id", "purpose", "seat", "index", "task_id") if c in table.columns]
        out[name] = frame(table.sort(keys, maintain_order=True))
    return out


def helps(*verbs: str) -> str:
    """`--help` of the shell and of each of its verbs, 100 columns wide."""
    env = os.environ | {"NO_COLOR": "1", "COLUMNS": "100"}
    command = [sys.executable, "-m", "cilab", *verbs, "--help"]
    text = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    below = [line.split()[0] for line in text.partition("Commands:\n")[2].splitlines() if line[2:3].isalpha()]
    return "\n".join([text, *(helps(*verbs, verb) for verb in below)])


def reports(folder: Path) -> dict[str, str]:
    """A hash of every page and every SVG of `cilab report all` on the simulated sets, by its name.

    Pictures inside pages and the metadata of figures hold the parameters of the results, which may grow: left out.
    """
    command = [sys.executable, "-m", "cilab", "report", "all", "--out", str(folder)]
    subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    out = {}
    for path in sorted([*folder.rglob("*.html"), *folder.rglob("*.svg")]):
        text = re.sub(r"<metadata>.*?</metadata>", "", path.read_text(), flags=re.DOTALL)
        out[path.name] = digest(timeless(re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", text)))
    return out


def names() -> dict[str, list[str]]:
    """The public names of the faces."""
    return {
        "cilab": list(cilab.__all__),
        "datasets": list(datasets.__all__),
        "plots": list(cilab.plots.__all__),
        "claims": list(claims.__all__),
        "study": [n for n in dir(cilab.store.Study) if not n.startswith("_")],
    }


PLANS = ("maze_paper", "maze_sim", "my_first", "quickstart", "teamwork_local", "teamwork_paper", "teamwork_sim")
