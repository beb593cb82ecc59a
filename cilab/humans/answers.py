"""People's answers from forms: labels of messages, and reviews of verdicts.

May import `cilab.core`, `cilab.humans.samples` and parts of `cilab.datasets.importers`. An answer is matched to a run
(and, for a label, to a message of it) of an opened study; one that fits none is reported and kept as extra, never
guessed.

Forms
    A CSV file (or any other that `reading` reads) with the columns `run_id, index, rater, label, reason` for labels,
    and `run_id, reviewer, old_score, new_score, reason` (`at` may follow) for reviews. Other columns, like the message
    that the form shows, are ignored; a column `labels` with the allowed words, separated by |, is held to.
    A notebook: every answer is one cell whose metadata has `cilab: {run_id: ..., index: ...}`; its lines are
    `label: ...`, `reason: ...`, `rater: ...` (or `new_score: ...`, `reviewer: ...`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cilab.core.errors import nearest
from cilab.core.tables import empty, frame
from cilab.datasets.importers.guess import columns_by_name, header_guess
from cilab.datasets.importers.reading import clean, read_rows
from cilab.datasets.importers.report import Imported, ImportFailed, Tally, short
from cilab.teamwork.terms import RATERS

_UNPARSED = "unparsed"
Row = dict[str, Any]


def import_labels(
    path: str | os.PathLike[str],
    study: Any,
    *,
    rater: str | None = None,
    labels: Sequence[str] | None = None,
    on_bad: str = "drop",
) -> Imported:
    """Labels that people gave to messages.

    Parameters
    ----------
    path : a filled-in form, CSV or notebook.
    study : the opened study (or data set) that the form was drawn from.
    rater : who answered, where the form does not say, e.g. `person:1`.
    labels : the allowed labels; default the form's own list, else any word.
    on_bad : `drop` (default) reports answers that cannot stand and keeps the others; `refuse` raises at the first.

    Returns
    -------
    Imported
        A data set with the labels table. `gives_way` and `noticed` are those of the same label in the same task, where
        a judge of the study has given it; else null.

    Raises
    ------
    ImportFailed
        The form has no such columns, or (`refuse`) an answer cannot stand.
    """
    form = _Form(Path(path), study, "labels", ("run_id", "index", "label"), on_bad)
    known = _messages_of(study, form.run_ids)
    old = study.labels.filter(pl.col("run_id").is_in(form.run_ids)).collect()
    there = set(old.select("run_id", "index", "rater").iter_rows())
    flags = _flags(study, form.tasks)
    made: list[Row] = []
    for number, row in enumerate(form.rows, 1):
        answer = form.words(row, "label")
        if answer is None:
            form.unanswered += 1
            continue
        who = form.words(row, "rater") or rater
        index = _whole(row.get("index"))
        run_id = form.run_of(number, row)
        if run_id is None:
            continue
        allowed = list(labels or ()) or [w.strip() for w in (row.get("labels") or "").split("|") if w.strip()]
        label = _listed(answer, allowed)
        if index is None or (run_id, index) not in known:
            form.bad(number, row, f"run {run_id} has no message {short(row.get('index'))}", "no such message")
        elif not who:
            form.bad(number, row, "nobody is named as the rater; say rater='person:1'", "no rater")
        elif who in RATERS:  # a person cannot answer under a judge's name
            form.bad(number, row, f"rater {who!r} is a judge's name; say rater='person:1'", "a judge's name as rater")
        elif label is None:
            hint = nearest(answer, allowed)
            message = f"label {answer!r} is not in the list {', '.join(allowed)}.{hint}"
            form.bad(number, row, message, "a label outside its list")
        elif (run_id, index, who) in there:
            form.double(number, row, "this rater has already labelled this message")
        else:
            there.add((run_id, index, who))
            if label != row.get("label"):
                form.tally.find("repaired", "labels", "blanks or capitals of a label", 1, [form.at(number, answer)])
            flag = flags.get((form.tasks.get(run_id), label), {})
            ids = {"run_id": run_id, "index": index, "rater": who, "label": label}
            made.append(ids | {"reason": form.words(row, "reason")} | flag)
    return form.finish("labels", made)


def import_reviews(
    path: str | os.PathLike[str], study: Any, *, reviewer: str | None = None, on_bad: str = "drop"
) -> Imported:
    """Verdicts of people on the verdicts of checks.

    Parameters
    ----------
    path : a filled-in form, CSV or notebook.
    study : the opened study (or data set) that the form was drawn from.
    reviewer : who read, where the form does not say.
    on_bad : as in `import_labels`.

    Returns
    -------
    Imported
        A data set with the reviews table. Where the form has no old score it is the run's; where it has another than
        the run's, the form's counts and the difference is reported.

    Raises
    ------
    ImportFailed
        The form has no such columns, or (`refuse`) an answer cannot stand.
    """
    form = _Form(Path(path), study, "reviews", ("run_id", "new_score"), on_bad)
    there = {_review_key(r) for r in study.reviews.filter(pl.col("run_id").is_in(form.run_ids)).collect().to_dicts()}
    made: list[Row] = []
    for number, row in enumerate(form.rows, 1):
        answer = form.words(row, "new_score")
        if answer is None:
            form.unanswered += 1
            continue
        run_id = form.run_of(number, row)
        if run_id is None:
            continue
        who = form.words(row, "reviewer") or reviewer
        new, old = _score(answer), _score(form.words(row, "old_score"))
        if new is None:
            form.bad(number, row, f"new_score {answer!r} {_score_guess(answer)}", "a score outside 0 to 1")
            continue
        if old is None and form.words(row, "old_score") is not None:
            text = row["old_score"]
            form.bad(number, row, f"old_score {text!r} {_score_guess(text)}", "a score outside 0 to 1")
            continue
        if not who:
            form.bad(number, row, "nobody is named as the reviewer; say reviewer='...'", "no reviewer")
            continue
        scored = form.scores.get(run_id)
        if old is not None and scored is not None and old != scored:
            form.tally.note(
                f"{form.at(number, '')}the form says old_score {old:g}, the run {scored:g}; the form's counts."
            )
        review = {"run_id": run_id, "reviewer": who, "old_score": scored if old is None else old, "new_score": new}
        review |= {"reason": form.words(row, "reason"), "at": form.time(number, row)}
        if _review_key(review) in there:
            form.double(number, row, "the same review again")
            continue
        there.add(_review_key(review))
        made.append(review)
    return form.finish("reviews", made)


class _Form:
    """A filled-in form, the runs it speaks of, and what was found wrong."""

    def __init__(self, path: Path, study: Any, table: str, needed: Sequence[str], on_bad: str) -> None:
        if on_bad not in ("drop", "refuse"):
            raise ImportFailed(f"on_bad is {on_bad!r}; say 'drop' or 'refuse'")
        if not hasattr(study, "runs"):
            raise ImportFailed("answers are matched to a study: give it, e.g. study=cilab.open('data/studies/NAME')")
        self.path, self.study, self.table, self.on_bad = path, study, table, on_bad
        self.tally = Tally(path)
        self.unanswered = 0
        self.rows = self._read(needed)
        self.run_ids = sorted({r["run_id"].strip() for r in self.rows if r.get("run_id")})
        wanted = ("run_id", "task_id", "score")
        runs = study.runs.filter(pl.col("run_id").is_in(self.run_ids)).select(wanted).collect()
        self.tasks = dict(runs.select("run_id", "task_id").iter_rows())
        self.scores = dict(runs.select("run_id", "score").iter_rows())

    def _read(self, needed: Sequence[str]) -> list[Row]:
        if self.path.suffix == ".ipynb":
            rows = _cells(self.path, self.tally)
            self.tally.saw(f"{self.path.name} > {self.table}", len(rows))
            return rows
        df = read_rows(self.path, self.tally)
        df = df.rename({c: c.strip().lower() for c in df.columns})
        found = columns_by_name(df.columns, self.table, set(), set()) if self.table == "labels" else {}
        lacking = [c for c in needed if c not in df.columns and c not in found]
        if lacking:
            guess = header_guess(df, self.path, None) or f"There: {', '.join(short(c, 30) for c in df.columns[:12])}."
            raise ImportFailed(
                f"{self.path}: a form for {self.table} has columns {', '.join(needed)}; no {lacking[0]}. {guess}"
            )
        df = df.rename({theirs: ours for ours, theirs in found.items() if theirs != ours and ours not in df.columns})
        self.tally.saw(f"{self.path.name} > {self.table}", df.height)
        texts = df.select(pl.col(c).cast(pl.String) for c in df.columns)
        return texts.to_dicts()

    def words(self, row: Row, column: str) -> str | None:
        """A cell without its outer blanks; None where it is empty."""
        return (row.get(column) or "").strip() or None

    def at(self, number: int, value: str) -> str:
        return f"{self.path.name} row {number}: {short(value)}"

    def run_of(self, number: int, row: Row) -> str | None:
        """The run that the row names, or None after having reported that there is none."""
        run_id = self.words(row, "run_id")
        if run_id in self.tasks:
            return run_id
        if run_id is None:
            self.bad(number, row, "names no run", "no run_id")
            return None
        known = self._known_ids()
        self.bad(number, row, f"no run {run_id!r} in this study.{nearest(run_id, known)}", "no such run in the study")
        return None

    def _known_ids(self) -> list[str]:
        if not hasattr(self, "_ids"):
            self._ids: list[str] = self.study.runs.select("run_id").collect()["run_id"].to_list()
        return self._ids

    def time(self, number: int, row: Row) -> Any:
        text = self.words(row, "at")
        if text is None:
            return None
        found = pl.Series([text]).str.to_datetime(time_zone="UTC", time_unit="us", strict=False)[0]
        if found is None:
            self.tally.find("repaired", self.table, "at: is no time, left out", 1, [self.at(number, text)])
        return found

    def bad(self, number: int, row: Row, message: str, reason: str) -> None:
        if self.on_bad == "refuse":
            raise ImportFailed(f"{self.path}: row {number}: {message}")
        self.tally.find("dropped", self.table, reason, 1, [f"{self.path.name} row {number}: {message}"])
        self._keep(row, f"dropped: {reason}")

    def double(self, number: int, row: Row, reason: str) -> None:
        self.tally.find("doubled", self.table, reason, 1, [self.at(number, row.get("run_id") or "")])
        self._keep(row, f"doubled: {reason}")

    def _keep(self, row: Row, reason: str) -> None:
        kept = {k: v for k, v in row.items() if v is not None}
        self.tally.keep_row(self.table, kept, run_id=row.get("run_id"), source=self.path.name, reason=reason)

    def finish(self, table: str, made: list[Row]) -> Imported:
        """The data set; its report says how many rows of the form have no answer."""
        if self.unanswered:
            self.tally.note(f"{self.unanswered} of {len(self.rows)} rows of the form have no answer.")
        return self.tally.finish(self.path.stem, {table: frame(table, made) if made else empty(table)})


def _cells(path: Path, tally: Tally) -> list[Row]:
    """The answers of a notebook: cells whose metadata names a run."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as e:
        raise ImportFailed(f"{path}: is no readable notebook ({type(e).__name__})") from None
    rows: list[Row] = []
    for cell in cells:
        about = cell.get("metadata", {}).get("cilab") if isinstance(cell, dict) else None
        if not isinstance(about, dict) or "run_id" not in about:
            continue
        source = cell.get("source", "")
        lines = (source if isinstance(source, str) else "".join(source)).splitlines()
        said = {k.strip().lower(): v.strip() for k, colon, v in (line.partition(":") for line in lines) if colon}
        row = {k: str(v) for k, v in about.items() if v is not None} | {k: v for k, v in said.items() if v}
        rows.append(clean(row, tally, path.name, f"cell of run {about['run_id']}"))
    if not rows:
        raise ImportFailed(f"{path}: no cell of the notebook is an answer (metadata cilab: {{run_id: ...}}).")
    return rows


def _messages_of(study: Any, run_ids: list[str]) -> set[tuple[str, int]]:
    wanted = study.messages.filter(pl.col("run_id").is_in(run_ids)).select("run_id", "index").collect()
    return set(wanted.iter_rows())


def _flags(study: Any, tasks: dict[str, str]) -> dict[tuple[str | None, str], Row]:
    """(task, label) -> flags of that label, from the judges' labels of the same tasks."""
    task_of = study.runs.filter(pl.col("task_id").is_in(sorted(set(tasks.values())))).select("run_id", "task_id")
    flagged = study.labels.filter(pl.col("gives_way").is_not_null() | pl.col("noticed").is_not_null())
    rows = flagged.join(task_of, on="run_id").select("task_id", "label", "gives_way", "noticed").unique().collect()
    out: dict[tuple[str | None, str], Row] = {}
    for task, label, gives_way, noticed in rows.iter_rows():
        new = {"gives_way": gives_way, "noticed": noticed}
        # Two answers for one label of a task: no flag is better than a wrong one.
        out[(task, label)] = new if out.get((task, label), new) == new else {}
    return out


def _listed(answer: str, allowed: list[str]) -> str | None:
    """The label as the list writes it; None where it is not in the list. Without a list any word is a label."""
    if not allowed or answer == _UNPARSED:
        return answer
    by_lower = {a.lower(): a for a in allowed}
    return by_lower.get(answer.lower())


def _whole(value: Any) -> int | None:
    text = str(value or "").strip().removesuffix(".0")
    return int(text) if text.isdigit() else None


def _score(text: str | None) -> float | None:
    if text is None:
        return None
    word = {"pass": 1.0, "true": 1.0, "fail": 0.0, "false": 0.0}.get(text.lower())
    if word is not None:
        return word
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None


def _score_guess(text: str) -> str:
    if text.endswith("%") or (text.replace(".", "", 1).isdigit() and 1 < float(text) <= 100):
        return "looks like a percentage; scores are fractions, 0 to 1"
    return "is no score from 0 to 1"


def _review_key(review: Row) -> tuple[Any, ...]:
    return tuple(review.get(k) for k in ("run_id", "reviewer", "new_score", "reason"))
