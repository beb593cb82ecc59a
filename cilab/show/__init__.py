"""One run as a readable page: the verdict, the facts, and the transcript with each rater's labels on the messages.

May import `cilab.store` and `cilab.core`. It is what stands behind `.show` of a study and of a data set,
and asks them for their tables; calls no model, grades nothing, fetches nothing. A page needs no script and no network,
and every word of a run stands in it as text: what agents write is never markup here. What only one benchmark's runs
have, its `view` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from cilab.core import plugins
from cilab.core.errors import StoreError
from cilab.core.vocabulary import is_simulated
from cilab.show.page import Page
from cilab.show.rows import View
from cilab.show.words import is_told, number, visible
from cilab.teamwork.terms import RATERS

#: Columns that benchmarks bring and every page says in its own place.
_SAID = ("version", "evidence", "joint_share")
_TABLES = ("runs", "messages", "labels", "calls", "annotations", "reviews", "tasks")


def show(study: Any, run_id: str) -> Page:
    """The page of one run.

    Parameters
    ----------
    study : an opened study or a data set: an object with the tables `.runs`, `.messages`, `.labels`, `.calls`,
        `.annotations`, `.reviews` and `.tasks` as LazyFrames; every table but `runs` may be empty.
    run_id : the run's id, or as much of its beginning as no other run shares.

    Returns
    -------
    Page
        Shows itself in a notebook; `.text` for a terminal, `.save("run.html")` for a browser.

    Raises
    ------
    StoreError
        No run, or more than one, has an id that begins so; the nearest ids are named.

    Examples
    --------
    >>> import cilab
    >>> study = cilab.open("data/studies/mine")  # doctest: +SKIP
    >>> show(study, "q5np57f6").save("run.html")  # doctest: +SKIP
    """
    run_id = find_run(study, run_id)
    rows = _rows(study, run_id)
    notes = [f"{len(rows['runs'])} rows have this run id; the first is shown."] if len(rows["runs"]) > 1 else []
    run = rows["runs"][0]
    task = next((t for t in rows["tasks"] if t["benchmark"] == run["benchmark"]), {})
    page = Page(
        run=run,
        messages=tuple(rows["messages"]),
        labels=tuple(rows["labels"]),
        calls=tuple(rows["calls"]),
        annotations=tuple(rows["annotations"]),
        reviews=tuple(rows["reviews"]),
        task=task,
        simulated=_simulated(study, rows),
        notes=tuple(notes),
    )
    return _viewed(page)


def show_blind(study: Any, run_id: str, *, name: str, until: int | None = None) -> Page:
    """The page of a run for people who label or review it: no verdict, no label, no model, no cost.

    Parameters
    ----------
    study, run_id : as in `show`.
    name : what the page calls itself instead of the run id.
    until : index of the message to be labelled: the transcript ends with it, as it did for the judges. None: all.

    Returns
    -------
    Page
        A seat that is named like a model is called `agent 1`, `agent 2`, … instead. What the agents say about
        themselves stays. What nobody in the run was told is left out: the steps of the script, which hold the
        judges' votes, and a grader's words.

    Raises
    ------
    StoreError
        As in `show`.
    """
    page = show(study, run_id)
    kept = [m for m in page.messages if is_told(m) and (until is None or m["index"] <= until)]
    models = {v for v in (page.run["model"], page.run["partner_model"], *(m["model"] for m in page.messages)) if v}
    seats = sorted({m["seat"] for m in page.messages} & models)
    alias = {seat: f"agent {i}" for i, seat in enumerate(seats, 1)}
    run = {k: page.run[k] for k in ("benchmark", "task_id", "dimension")} | {"run_id": name}
    blind = Page(
        run=run,
        messages=tuple(_blinded(m, alias) for m in kept),
        task=page.task,
        simulated=page.simulated,
        notes=page.notes,
        marked=until,
        blind=True,
    )
    return _viewed(blind)


def _viewed(page: Page) -> Page:
    """The page with what its run's benchmark adds; of a benchmark that is not installed here, or fails, nothing."""
    benchmark = plugins.optional(plugins.BENCHMARKS, page.run["benchmark"])
    if benchmark is None:
        return page
    try:
        view = View() if benchmark.view is None else benchmark.view(page)
    except Exception as e:  # code of another package: the run is readable without it
        reason = (str(e).splitlines() or [""])[0]
        note = visible(f"The view of {page.run['benchmark']} failed ({type(e).__name__}: {reason}).")
        return replace(page, notes=(*page.notes, note))
    columns = plugins.optional(plugins.COLUMNS, page.run["benchmark"]) or ()
    rest = [c.name for c in columns if c.name not in (*view.facts, *_SAID) and page.run.get(c.name) is not None]
    plain = {name: (name.replace("_", " "), _plain(page.run[name])) for name in rest}
    return replace(page, view=replace(view, facts={**view.facts, **plain}))


def _plain(value: Any) -> str | None:
    return number(value) if isinstance(value, float) else str(value)


def _blinded(message: Mapping[str, Any], alias: Mapping[str, str]) -> dict[str, Any]:
    to = message["delivered_to"]
    return dict(message) | {
        "seat": alias.get(message["seat"], message["seat"]),
        "delivered_to": None if to is None else [alias.get(seat, seat) for seat in to],
        **dict.fromkeys(("model", "tokens_in", "tokens_out", "cost_usd")),
    }


def find_run(study: Any, run_id: str) -> str:
    """The id of the one run that is called `run_id` or whose id begins so.

    Raises
    ------
    StoreError
        There is none, or there are several; the message names ids that come near.
    """
    asked = str(run_id).strip()
    if study.runs.filter(pl.col("run_id") == asked).select(pl.len()).collect().item():
        return asked
    ids = study.runs.select(pl.col("run_id").unique().sort()).collect()["run_id"]
    shown = visible(asked)[:60]
    if not len(ids):
        raise StoreError(f"no run {shown!r}: the study holds no runs yet")
    same = ids.filter(ids.str.starts_with(asked)) if asked else ids.clear()
    if len(same) == 1:
        return same[0]
    if len(same):
        raise StoreError(f"{shown!r} begins {len(same)} run ids: {', '.join(same[:4])}, …; give more of it")
    near = _nearest_ids(asked, ids)
    raise StoreError(f"no run {shown!r} among {len(ids)}. The nearest ids: {', '.join(near)}")


def _nearest_ids(asked: str, ids: pl.Series, limit: int = 3, most: int = 4000) -> list[str]:
    """Nearest ids by difflib; those that share a beginning or an end are tried first where there are many."""
    import difflib

    if len(ids) > most:
        kin = ids.filter(ids.str.starts_with(asked[:2]) | ids.str.ends_with(asked[-2:])) if asked else ids.clear()
        ids = pl.concat([kin, ids]).unique(maintain_order=True)[:most]
    known = ids.to_list()
    return difflib.get_close_matches(asked[:200], known, n=limit, cutoff=0.4) or known[:limit]


def _rows(study: Any, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of every table that concern the run, in order."""
    run_tables = [t for t in _TABLES if t != "tasks" and getattr(study, t, None) is not None]
    frames = pl.collect_all([getattr(study, t).filter(pl.col("run_id") == run_id) for t in run_tables])
    rows: dict[str, list[dict[str, Any]]] = {t: [] for t in _TABLES}
    rows |= {t: df.to_dicts() for t, df in zip(run_tables, frames, strict=True)}
    rows["messages"].sort(key=lambda m: m["index"])
    rows["labels"].sort(key=lambda r: (r["index"], _rater_order(r["rater"]), r["rater"]))
    rows["annotations"].sort(key=lambda a: (a["annotator"], a["repeat"], a["agent"]))
    rows["calls"].sort(key=lambda c: (c["purpose"] != "play", c["purpose"], c["index"], c["seat"]))
    rows["tasks"] = study.tasks.filter(pl.col("task_id") == rows["runs"][0]["task_id"]).collect().to_dicts()
    return rows


def _rater_order(rater: str) -> int:
    return RATERS.index(rater) if rater in RATERS else len(RATERS)


def _simulated(study: Any, rows: Mapping[str, list[dict[str, Any]]]) -> bool:
    if getattr(study, "kind", None) == "simulated":
        return True
    run = rows["runs"][0]
    models = [run["model"], run["partner_model"], *(m["model"] for m in rows["messages"])]
    return any(is_simulated(m) for m in models if m)
