"""Forms for people to fill in, of a sample: CSV files and notebooks, and the way back to run ids.

May import `cilab.humans.samples`, `cilab.show`, `cilab.store` and `cilab.core`. Never reads answers into tables: that
is `cilab import labels|reviews`. A blind form holds no judge's label, no verdict and no model's name.

Forms
    A CSV file (UTF-8 with a mark, as spreadsheets want it) with the columns `run_id, index, rater, label, reason` for
    messages and `run_id, reviewer, new_score, reason` for runs, then what is to be read. And a notebook without outputs
    that shows each transcript and has one raw cell per item to write the answer into. Either is enough.
    Neither shows the steps of the script, which hold the judges' votes, nor a grader's words.

    The ids of cilab's own runs are hashes and tell nothing, so they stand in the form and it is read back as it is. Ids
    of imported runs may spell a model's name. Then items have hashed ids of their own, a key file is written beside the
    form, and `restore` puts the run ids back before the form is imported.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl

from cilab import store
from cilab.core.errors import nearest
from cilab.humans.samples import Sample, SampleError
from cilab.show import Page, show_blind
from cilab.show.words import visible
from cilab.teamwork.terms import RATERS

#: Most characters of a form's context: a spreadsheet's cell takes 32,767.
CONTEXT_CHARS = {"messages": 8_000, "runs": 30_000}
#: label -> definition, by task id or dimension, or under "*" for all.
Choices = Mapping[str, Mapping[str, str]]

_OPAQUE = re.compile(r"[a-z2-7]{24}")
_FORMULA = ("=", "+", "-", "@", "\t")


@dataclass(frozen=True)
class Form:
    """The files that `write_form` wrote.

    Attributes
    ----------
    csv, notebooks : one of each per rater; no notebooks for a data set in memory, which a notebook could not open.
    key : the file that says which item is which run; None where run ids stand in the form.
    """

    csv: tuple[Path, ...]
    notebooks: tuple[Path, ...]
    key: Path | None = None


def write_form(
    sample: Sample,
    out: str | os.PathLike[str],
    *,
    raters: Sequence[str] = ("person:1",),
    choices: Choices | None = None,
    study_path: str | os.PathLike[str] | None = None,
) -> Form:
    """Write the sample as forms to fill in, one CSV file and one notebook per rater.

    Parameters
    ----------
    sample : from `sample_messages` or `sample_runs`.
    out : the folder.
    raters : who answers, e.g. `person:1`; each gets the same items in the same order.
    choices : the labels to choose from with their definitions, by task id, by dimension, or under "*". They stand in
        the form; the import holds answers to them.
    study_path : where the notebook finds the study; default the sample's own folder.

    Returns
    -------
    Form

    Raises
    ------
    SampleError
        A file of that name is there already (people's answers are never overwritten), or a rater has a judge's name.
    """
    folder = Path(out)
    items = _items(sample, choices or {})
    prefix = "labels" if sample.kind == "messages" else "reviews"
    stems = {rater: f"{prefix}-{_file_word(rater)}" for rater in raters}
    _check_raters(raters, stems)
    key = None if _is_opaque(sample) else folder / f"{prefix}.key.csv"
    where = study_path or getattr(sample.study, "path", None)
    endings = [".csv"] if where is None else [".csv", ".ipynb"]
    wanted = [folder / f"{stem}{end}" for stem in stems.values() for end in endings]
    for path in [*wanted, *([key] if key else [])]:
        if path.exists():
            raise SampleError(f"{path}: is there already, perhaps with answers; choose another folder")
    for rater, stem in stems.items():
        store.write_text(folder / f"{stem}.csv", _csv_form(sample.kind, items, rater))
        if where is not None:
            notebook = _notebook(sample, items, rater, os.path.relpath(where, folder), key.name if key else None)
            store.write_text(folder / f"{stem}.ipynb", notebook)
    if key:
        rows = [
            (item["run_id"], run_id, item["index"]) for item, run_id in zip(items, sample.table["run_id"], strict=True)
        ]
        store.write_text(key, _csv(("item", "run_id", "index"), rows))
    by_end = {end: tuple(p for p in wanted if p.suffix == end) for end in (".csv", ".ipynb")}
    return Form(by_end[".csv"], by_end[".ipynb"], key)


def show_item(study: Any, run_id: str, index: int | None = None, *, key: str | os.PathLike[str] | None = None) -> Page:
    """The blind page of one item, as the notebook of a form shows it.

    Parameters
    ----------
    study : the opened study.
    run_id : what stands in the form: the run's id, or the item's where there is a key.
    index : the message to label; the transcript ends with it. None shows the whole run.
    key : the key file of the form.

    Raises
    ------
    SampleError
        The key does not know the item, or cannot be read.
    """
    real = _read_key(Path(key)) if key else {run_id: run_id}
    if run_id not in real:
        raise SampleError(f"{key}: knows no item {run_id!r}.{nearest(run_id, list(real))}")
    return show_blind(study, real[run_id], name=run_id, until=index)


def restore(form: str | os.PathLike[str], key: str | os.PathLike[str] | None = None) -> Path:
    """A filled-in form with run ids, ready for `cilab import labels|reviews`.

    Parameters
    ----------
    form : the form, CSV or notebook.
    key : its key file; default `labels.key.csv` or `reviews.key.csv` beside it.

    Returns
    -------
    Path
        `form` itself where there is no key, since it holds run ids then; else a copy `NAME.restored.csv` (or `.ipynb`)
        beside it. Rows of items that the key does not know are kept as they are.

    Raises
    ------
    SampleError
        The form or the key cannot be read.
    """
    path = Path(form)
    if key is None:
        beside = path.with_name(f"{path.name.split('-')[0]}.key.csv")
        key = beside if beside.exists() else None
    if key is None:
        return path
    real = _read_key(Path(key))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise SampleError(f"{path}: cannot be read ({e})") from None
    target = path.with_name(f"{path.stem}.restored{path.suffix}")
    store.write_text(target, _restored_notebook(text, real, path) if path.suffix == ".ipynb" else _restored(text, real))
    return target


def _restored(text: str, real: Mapping[str, str]) -> str:
    rows = list(csv.reader(io.StringIO(text, newline="")))
    at = rows[0].index("run_id") if rows and "run_id" in rows[0] else None
    if at is not None:
        rows = [[real.get(v, v) if i == at else v for i, v in enumerate(row)] for row in rows]
    return _csv(rows[0], rows[1:]) if rows else text


def _restored_notebook(text: str, real: Mapping[str, str], path: Path) -> str:
    try:
        notebook = json.loads(text)
        answers = [c["metadata"]["cilab"] for c in notebook["cells"] if "cilab" in c["metadata"]]
    except (ValueError, KeyError, TypeError) as e:
        raise SampleError(f"{path}: is no readable notebook ({type(e).__name__})") from None
    for about in answers:
        about["run_id"] = real.get(about.get("run_id"), about.get("run_id"))
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _read_key(path: Path) -> dict[str, str]:
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))
        return {row["item"]: row["run_id"] for row in rows}
    except (OSError, UnicodeDecodeError, KeyError) as e:
        raise SampleError(
            f"{path}: is no key file of a form ({type(e).__name__}); it has columns item, run_id"
        ) from None


# -- the items --------------------------------------------------------------------------------------------


def _items(sample: Sample, choices: Choices) -> list[dict[str, Any]]:
    """What a form shows of each item; nothing in it comes from a label, a verdict or a model's name."""
    part = _part(sample)
    opaque = _is_opaque(sample)
    items = []
    for row in sample.table.iter_rows(named=True):
        index = row["index"]
        name = row["run_id"] if opaque else _item_id(row["run_id"], index)
        page = show_blind(part, row["run_id"], name=name, until=index)
        said = next((m["content"] for m in page.messages if m["index"] == index), "") if index is not None else ""
        options = next((choices[k] for k in (row["task_id"], row["dimension"], "*") if k in choices), {})
        context = _tail(page.as_text(), CONTEXT_CHARS[sample.kind])
        items.append(
            {
                "run_id": name,
                "index": index,
                "task": row["task_id"],
                "context": context,
                "message": said,
                "options": options,
            }
        )
    return items


def _part(sample: Sample) -> Any:
    """The sampled runs' rows of every table, read once."""
    ids = sample.table["run_id"].unique().to_list()
    study, names = sample.study, ("runs", "messages", "labels", "calls", "annotations", "reviews")
    frames = pl.collect_all([getattr(study, t).filter(pl.col("run_id").is_in(ids)) for t in names])
    tables = {t: df.lazy() for t, df in zip(names, frames, strict=True)}
    return SimpleNamespace(**tables, tasks=study.tasks.collect().lazy(), kind=getattr(study, "kind", None))


def _is_opaque(sample: Sample) -> bool:
    """Whether the run ids are hashes, which tell a rater nothing."""
    return all(_OPAQUE.fullmatch(run_id) for run_id in sample.table["run_id"])


def _item_id(run_id: str, index: int | None) -> str:
    return "item-" + hashlib.blake2b(f"{run_id}|{index}".encode(), digest_size=6).hexdigest()


def _tail(text: str, most: int) -> str:
    """The end of a text, which is where the message stands; said where the beginning, in whole lines, is left out."""
    if len(text) <= most:
        return text
    at = len(text) - most
    at = text.find("\n", at, at + most // 2) + 1 or at
    return f"[… {at:,} characters before this]\n{text[at:]}"


def _check_raters(raters: Sequence[str], stems: Mapping[str, str]) -> None:
    if not raters or len(set(stems.values())) != len(raters):
        raise SampleError("raters: name each person once, e.g. person:1, person:2")
    for rater in raters:
        if rater in RATERS:
            raise SampleError(f"rater {rater!r} is a judge's name; say person:1")


def _file_word(rater: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", rater).strip("-.") or "person"


def _csv_form(kind: str, items: Sequence[Mapping[str, Any]], rater: str) -> str:
    if kind == "runs":
        header = ("run_id", "reviewer", "new_score", "reason", "task", "context")
        rows = [(i["run_id"], rater, "", "", i["task"], _cell(i["context"])) for i in items]
        return "\ufeff" + _csv(header, rows)
    header = ("run_id", "index", "rater", "label", "reason", "labels", "task", "message", "context")
    rows = [
        (
            i["run_id"],
            i["index"],
            rater,
            "",
            "",
            "|".join(i["options"]),
            i["task"],
            _cell(i["message"]),
            _cell(i["context"]),
        )
        for i in items
    ]
    return "\ufeff" + _csv(header, rows)


def _cell(text: str) -> str:
    """Text that a spreadsheet shows and does not compute."""
    shown = visible(text)[:32_000]
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


# -- the notebook -----------------------------------------------------------------------------------------

_HOW = {
    "messages": "Each item shows a conversation up to one message of the agent under test, marked at its end. Choose "
    "the label that fits this message and write it behind `label:` in the cell below it. A reason is welcome.",
    "runs": "Each item shows one run to its end. Write the score that it deserves, from 0 to 1, behind `new_score:` in "
    "the cell below it, and why behind `reason:`. The score that it has is left out on purpose.",
}


def _notebook(sample: Sample, items: Sequence[Mapping[str, Any]], rater: str, study: str, key: str | None) -> str:
    is_label = sample.kind == "messages"
    title, again = ("Messages to label", "labels") if is_label else ("Runs to review", "reviews")
    closing = f"Run all cells first. Save the notebook when you are done; `cilab import {again}` reads it."
    # By the name of the face: forms lie with people for weeks, and modules move.
    setup = f"import cilab\n\nshow_item = cilab.samples.show_item\nstudy = cilab.open({study!r})\nkey = {key!r}"
    cells = [
        _notebook_cell("markdown", "how", f"# {title}\n\n{_HOW[sample.kind]}\n\n{closing}"),
        _notebook_cell("code", "setup", setup),
    ]
    for i, item in enumerate(items, 1):
        options = "\n".join(f"- `{label}`: {text}" for label, text in item["options"].items())
        about = {"run_id": item["run_id"], ("rater" if is_label else "reviewer"): rater}
        about |= {"index": item["index"], "labels": "|".join(item["options"])} if is_label else {}
        answer = f"{'label' if is_label else 'new_score'}: \nreason: "
        call = f"show_item(study, {item['run_id']!r}, {item['index']!r}, key=key)"
        cells += [
            _notebook_cell("markdown", f"item-{i}", f"## {i} of {len(items)}\n\n{options}".rstrip()),
            _notebook_cell("code", f"show-{i}", call),
            _notebook_cell("raw", f"answer-{i}", answer, {"cilab": about}),
        ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _notebook_cell(kind: str, name: str, source: str, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A cell as JSON. Written by hand: importing nbformat takes seconds, for a checker of addresses inside it."""
    cell = {"cell_type": kind, "id": name, "metadata": dict(metadata or {}), "source": source.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
