"""The benchmark's own result files: transcripts by dimension, task, model and version, and `final_results.json`.

May import `cilab.core` and this folder's parts. Tolerant about what the description of the layout
does not say: what a file says of itself counts before what its place says, the folders above the dimension (a pilot, a
study and its arm) are the arm, and everything that our tables have no column for is kept as extra.

The layout
    `results/transcripts/[<study>/<arm>/]<dimension>/<task>/<model>/<version>_seed<k>.json`, versions solo, control and
    manipulation; `results/final_results.json` with the tasks that a provider refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from cilab.core.tables import frame
from cilab.datasets.importers.cells import text_hash
from cilab.datasets.importers.coverage import coverage_notes
from cilab.datasets.importers.reading import clean
from cilab.datasets.importers.report import Imported, ImportFailed, Tally, short
from cilab.teamwork.terms import DIMENSIONS, EVIDENCE, VERSIONS

BENCHMARK = "teamwork"
RULE_VERSION = "release"
#: Their words for the versions, and ours.
VERSION_OF = {"solo": "alone", "control": "baseline", "manipulation": "test"} | {v: v for v in VERSIONS}
#: Dimensions that the public site names otherwise.
DIMENSION_NAMES = {
    "whistleblowing": "reporting_misconduct",
    "sharing_and_seeking_information": "sharing_information",
    "keeping_the_team_on_track": "keeping_on_track",
} | {d: d for d in DIMENSIONS}
SEAT_KINDS = {
    "evaluated": "under_test",
    "under_test": "under_test",
    "scripted": "scripted",
    "partner": "partner",
    "environment": "environment",
    "user": "user",
}
FINAL = "final_results.json"
_FILE = re.compile(r"(?P<version>[A-Za-z_]+?)_seed(?P<seed>\d+)$")
#: Parts of a run that have a place in our tables.
_PLACED = {
    "scenario",
    "evaluated_model",
    "evaluated_seat",
    "seats",
    "messages",
    "tool_calls",
    "rounds_run",
    "ended",
    "score",
    "seed",
    "effort",
    "arm",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """What a file's place says: null where it does not."""

    version: str | None
    seed: int | None
    model: str | None
    task: str | None
    dimension: str | None
    arm: str | None


def import_release(path: str | os.PathLike[str], *, name: str = "release") -> Imported:
    """Import a tree of the benchmark's result files.

    Parameters
    ----------
    path : the `results` folder, one above it, or its `transcripts`.
    name : name of the data set.

    Returns
    -------
    Imported
        runs (one a transcript, and one with status refused per task that a provider refused), messages with tool calls
        before the message of their round, labels where messages carry them, tasks. `score` is 1 for a pass and 0 for a
        fail, as the files say; halves in conflict are not in them.

    Raises
    ------
    ImportFailed
        There is no such folder, or no transcript in it.
    """
    root = Path(path)
    if not root.is_dir():
        raise ImportFailed(f"{root}: no such folder. Give the folder that holds results/transcripts and {FINAL}.")
    base = _base(root)
    finals = [f for f in sorted(base.rglob(FINAL)) if f.is_file()]
    files = [f for f in sorted(base.rglob("*.json")) if f.name != FINAL]
    if not files:
        raise ImportFailed(f"{root}: holds no transcript (*.json). Give the folder that holds results/transcripts.")
    tally = Tally(root)
    summaries = [(f, s) for f in finals if (s := _load(f, base, tally)) is not None]
    models = {_folder_name(str(m)): str(m) for _, s in summaries for m in _list(s, "models")}
    rows: dict[str, list[dict[str, Any]]] = {"runs": [], "messages": [], "labels": [], "tasks": []}
    seen: dict[str, str] = {}
    for file in files:
        tally.saw("transcripts > runs")
        run = _load(file, base, tally)
        if run is not None:
            _add_run(run, file.relative_to(base), models, name, seen, rows, tally)
    for file, summary in summaries:
        _add_refusals(summary, file.relative_to(base), name, seen, rows, tally)
    if not rows["runs"]:
        raise ImportFailed(f"{root}: none of {len(files)} JSON files is a transcript. {tally.text_of_first_drop()}")
    tables = {table: frame(table, made) for table, made in rows.items() if made}
    if "tasks" in tables:
        tables["tasks"] = tables["tasks"].unique("task_id", keep="first", maintain_order=True)
    for note in coverage_notes(tables["runs"].filter(pl.col("status") == "ok")):
        tally.note(note)
    tally.note(
        "Scores are passes and fails as the files say; a held-firm conflict (half a point in the paper) is a fail."
    )
    return tally.finish(name, tables)


def _base(root: Path) -> Path:
    """The folder that paths are told from: `results` where there is one."""
    for candidate in (root / "results", root):
        if (candidate / "transcripts").is_dir():
            return candidate
    return root


def _load(file: Path, base: Path, tally: Tally) -> dict[str, Any] | None:
    where = str(file.relative_to(base))
    try:
        value = json.loads(file.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        tally.find("repaired", "runs", "bytes that are no UTF-8 replaced by U+FFFD", 1, [where])
        value = _json_or_none(file.read_text(encoding="utf-8-sig", errors="replace"))
    except json.JSONDecodeError:
        value = None
    if isinstance(value, dict):
        return clean(value, tally, "runs", where)
    reason = "the file is empty" if file.stat().st_size == 0 else "no JSON object (cut off?)"
    tally.find("dropped", "runs", reason, 1, [where])
    tally.keep_row(
        "runs", file.read_text(encoding="utf-8", errors="replace"), source=where, reason=f"dropped: {reason}"
    )
    return None


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else []


# -- one run -------------------------------------------------------------------------------------------------


def _add_run(
    run: dict[str, Any],
    where: Path,
    models: Mapping[str, str],
    name: str,
    seen: dict[str, str],
    rows: dict[str, list[dict[str, Any]]],
    tally: Tally,
) -> None:
    place = read_place(where)
    row = _run_row(run, place, where, models, name, tally)
    if row is None:
        return
    if row["run_id"] in seen:
        reason = f"the same run as {seen[row['run_id']]}"
        tally.find("doubled", "runs", "the same task, model, version, arm and seed again", 1, [str(where)])
        tally.keep_row("runs", run, run_id=row["run_id"], source=str(where), reason=f"doubled: {reason}")
        return
    seen[row["run_id"]] = str(where)
    events, labels, left = _events(run, row, where, tally)
    row["messages"] = sum(e["kind"] == "message" and e["seat_kind"] != "environment" for e in events)
    row["tool_calls"] = sum(e["kind"] == "tool_call" for e in events)
    rows["runs"].append(row)
    rows["messages"] += events
    rows["labels"] += labels
    rows["tasks"].append(_task_row(run, row))
    extra = {k: v for k, v in run.items() if k not in _PLACED}
    extra |= left
    extra["path"] = str(where)
    tally.keep_row("runs", extra, run_id=row["run_id"], source=str(where))


def read_place(where: Path) -> _Place:
    """What the place of a transcript says; deeper trees have a study and an arm above the dimension."""
    match = _FILE.match(where.stem)
    folders = [p for p in where.parts[:-1] if p != "transcripts"]
    model, task = (folders[-1] if folders else None), (folders[-2] if len(folders) > 1 else None)
    # The dimension is the last known name; where none is known, the third folder from the end.
    known = [i for i, p in enumerate(folders) if p in DIMENSION_NAMES]
    at = known[-1] if known else len(folders) - 3
    above = folders[: max(at, 0)]
    return _Place(
        version=match["version"] if match else None,
        seed=int(match["seed"]) if match else None,
        model=model,
        task=task,
        dimension=folders[at] if at >= 0 else None,
        arm="/".join(above) or None,
    )


def _run_row(
    run: Mapping[str, Any], place: _Place, where: Path, models: Mapping[str, str], name: str, tally: Tally
) -> dict[str, Any] | None:
    scenario = str(run.get("scenario") or "")
    dimension = place.dimension or scenario.partition("/")[0] or None
    task = place.task or scenario.rpartition("/")[2] or None
    if "/" in scenario:
        dimension, _, task = scenario.partition("/")
    version = str(run.get("version") or place.version or "")
    model = run.get("evaluated_model") or models.get(place.model or "", place.model)
    problem = None
    if version not in VERSION_OF:
        problem = f"version {version or 'not said'!r}, not one of {', '.join(VERSION_OF)}"
    elif not task or not model:
        problem = f"no {'task' if not task else 'model'} in the file or its place"
    if problem:
        tally.find("dropped", "runs", problem, 1, [str(where)])
        tally.keep_row("runs", dict(run), source=str(where), reason=f"dropped: {problem}")
        return None
    if place.model and run.get("evaluated_model") and _folder_name(str(model)) != place.model:
        shown = [f"{where}: {model}"]
        tally.find("repaired", "runs", "the model is not the one that the folder names; the file counts", 1, shown)
    known = DIMENSION_NAMES.get(dimension or "")
    if dimension and known is None:
        tally.note(f"Dimension {dimension} is none of the benchmark's eight; kept under its own name.")
    arm = run.get("arm") or place.arm
    seed = run.get("seed", place.seed)
    row = {
        "study": name,
        "benchmark": BENCHMARK,
        "task_id": str(task),
        "dimension": known or dimension,
        "version": VERSION_OF[version],
        "model": str(model),
        "effort": _text(run.get("effort") or run.get("reasoning_effort")),
        "arm": _text(arm),
        "seed": int(seed) if str(seed).isdigit() else 0,
        "rounds": run["rounds_run"] if isinstance(run.get("rounds_run"), int) else None,
        "ended": _text(run.get("ended")),
        "rule_version": RULE_VERSION,
        **_outcome(run.get("score"), where, tally),
    }
    key = ("dimension", "task_id", "version", "model", "effort", "arm", "seed")
    row["run_id"] = text_hash([BENCHMARK, *(row[k] for k in key)])
    return row


def _outcome(score: Any, where: Path, tally: Tally) -> dict[str, Any]:
    """status, score, passed, outcome, evidence and joint share of a run."""
    if not isinstance(score, Mapping):
        score = {} if score is None else {"pass": score}
    details = score.get("details") if isinstance(score.get("details"), Mapping) else {}
    value = _fraction(score.get("score", score.get("value", score.get("pass"))))
    outcome = _text(score.get("outcome"))
    words = re.split(r"[^A-Za-z_]+", outcome or "")
    evidence = [e for e in EVIDENCE if e in words or details.get(e) is True]
    if details.get("caved") is True and "accepted_offer" not in evidence:
        evidence.append("accepted_offer")
    joint, best = details.get("joint"), details.get("best")
    share = joint / best if _is_number(joint) and _is_number(best) and 0 <= joint <= best and best > 0 else None
    found = {"outcome": outcome, "evidence": evidence, "joint_share": share}
    if value is None:
        tally.find("repaired", "runs", "no verdict in the file: status error", 1, [str(where)])
        return found | {"status": "error", "error": "no score in the file"}
    return found | {"status": "ok", "score": value, "passed": value == 1}


def _fraction(value: Any) -> float | None:
    if isinstance(value, str):
        value = {"true": True, "pass": True, "false": False, "fail": False}.get(value.lower())
    if isinstance(value, bool):
        return float(value)
    return float(value) if _is_number(value) and 0 <= value <= 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _folder_name(model: str) -> str:
    """A model's name as its folder: `together:moonshotai/Kimi-K3` is `together_moonshotai__Kimi-K3`."""
    return model.replace("/", "__").replace(":", "_")


def _task_row(run: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    seats = _list(run, "seats")
    return {
        "task_id": row["task_id"],
        "benchmark": BENCHMARK,
        "dimension": row["dimension"],
        "seats": None,
        "sandbox": bool(run.get("sandbox") or run.get("tool_calls")),
        # The tree holds no task files: the name is all that the hash can stand on.
        "version_hash": text_hash([row["dimension"], row["task_id"], "release"]),
    } | ({"seats": len(seats)} if row["version"] == "test" and seats else {})


# -- messages -------------------------------------------------------------------------------------------------


def _events(
    run: Mapping[str, Any], row: Mapping[str, Any], where: Path, tally: Tally
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """(messages, labels, what is left). Tool calls stand before the evaluated seat's message of their round."""
    seats = {s.get("name"): s for s in _list(run, "seats") if isinstance(s, Mapping)}
    tested = run.get("evaluated_seat") or next(
        (n for n, s in seats.items() if s.get("kind") == "evaluated"), "evaluated"
    )
    waiting: dict[Any, list[Mapping[str, Any]]] = {}
    for call in _list(run, "tool_calls"):
        if isinstance(call, Mapping):
            waiting.setdefault(call.get("round"), []).append(call)
    events: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    left: dict[str, Any] = {}

    def add(event: dict[str, Any]) -> None:
        events.append({"run_id": row["run_id"], "index": len(events)} | event)

    messages = [m for m in _list(run, "messages") if isinstance(m, Mapping)]
    for number, message in enumerate(messages):
        seat = str(message.get("seat") or message.get("name") or "unknown")
        kind = _seat_kind(message.get("kind") or seats.get(seat, {}).get("kind"), seat, tested, where, tally)
        if kind == "under_test":
            for call in waiting.pop(message.get("round"), []):
                for event in _tool_events(call, str(tested), row["model"]):
                    add(event)
        labels += _labels(message.get("labels"), row["run_id"], len(events), where, tally)
        rest = {k: v for k, v in message.items() if k not in ("round", "seat", "text", "kind", "labels")}
        if rest:
            tally.keep_row("messages", rest, run_id=row["run_id"], index=len(events), source=str(where))
        add(
            {
                "round": _round(message.get("round")),
                "kind": "notice" if kind == "environment" else "message",
                "seat": seat,
                "seat_kind": kind,
                "model": row["model"] if kind == "under_test" else _text(seats.get(seat, {}).get("model")),
                "content": _text(message.get("text", message.get("content"))) or "",
            }
        )
        if number + 1 == len(messages) or messages[number + 1].get("round") != message.get("round"):
            # The evaluated seat called tools in a round and said nothing.
            for call in waiting.pop(message.get("round"), []):
                for event in _tool_events(call, str(tested), row["model"]):
                    add(event)
    for calls in waiting.values():
        what = "tool calls of a round without messages, put at the end"
        tally.find("repaired", "messages", what, len(calls), [str(where)])
        for call in calls:
            for event in _tool_events(call, str(tested), row["model"]):
                add(event)
    stray = [m for m in _list(run, "messages") if not isinstance(m, Mapping)]
    if stray:
        left["messages_not_placed"] = stray
    left["seats"] = _list(run, "seats")
    left["evaluated_seat"] = run.get("evaluated_seat")
    if isinstance(run.get("score"), Mapping):
        left["score"] = run["score"]
    left["tool_calls_extra"] = [x for c in _list(run, "tool_calls") if isinstance(c, Mapping) and (x := _call_rest(c))]
    return events, labels, {k: v for k, v in left.items() if v}


def _tool_events(call: Mapping[str, Any], seat: str, model: str) -> Iterator[dict[str, Any]]:
    """A call and, where the file has it, the head of its result."""
    base = {"round": _round(call.get("round")), "tool": str(call.get("name"))}
    given = call.get("input")
    text = given if isinstance(given, str) else json.dumps(given if given is not None else {}, ensure_ascii=False)
    yield base | {"kind": "tool_call", "seat": seat, "seat_kind": "under_test", "model": model, "tool_input_json": text}
    result = call.get("result_head", call.get("result"))
    if result is not None:
        yield base | {
            "kind": "tool_result",
            "seat": str(call.get("name")),
            "seat_kind": "environment",
            "tool_output": _text(result),
        }


def _call_rest(call: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in call.items() if k not in ("round", "name", "input", "result_head", "result")}


def _round(value: Any) -> int | None:
    """Their rounds count from 1, ours from 0."""
    return max(value - 1, 0) if isinstance(value, int) and not isinstance(value, bool) else None


def _seat_kind(kind: Any, seat: str, tested: Any, where: Path, tally: Tally) -> str:
    if kind in SEAT_KINDS:
        return SEAT_KINDS[kind]
    guess = "under_test" if seat == tested else "partner"
    tally.find("repaired", "messages", f"seat kind {short(kind)!r} read as {guess}", 1, [str(where)])
    return guess


def _labels(found: Any, run_id: str, index: int, where: Path, tally: Tally) -> list[dict[str, Any]]:
    """Labels on a message: rater -> label (a word, or an object with label, reason, model), or a list of objects."""
    if not found:
        return []
    pairs: Sequence[tuple[Any, Any]]
    if isinstance(found, Mapping):
        pairs = list(found.items())
    elif isinstance(found, list):
        pairs = [(x.get("rater"), x) if isinstance(x, Mapping) else (None, x) for x in found]
    else:
        pairs = [("final", found)]
    out = []
    for rater, label in pairs:
        given = label if isinstance(label, Mapping) else {"label": label}
        if not rater or given.get("label") is None:
            tally.find("dropped", "labels", "a label without a rater, or without a word", 1, [str(where)])
            tally.keep_row(
                "labels", {rater: label}, run_id=run_id, index=index, source=str(where), reason="dropped: incomplete"
            )
            continue
        flags = {k: given[k] for k in ("gives_way", "noticed") if isinstance(given.get(k), bool)}
        row = {"run_id": run_id, "index": index, "rater": str(rater), "label": _text(given["label"])}
        out.append(row | {"reason": _text(given.get("reason")), "model": _text(given.get("model"))} | flags)
    return out


# -- refusals -------------------------------------------------------------------------------------------------


def _add_refusals(
    summary: Mapping[str, Any],
    where: Path,
    name: str,
    seen: dict[str, str],
    rows: dict[str, list[dict[str, Any]]],
    tally: Tally,
) -> None:
    """A run with status refused for each task that a provider refused; the rest of the summary is kept as extra."""
    refused = _list(summary, "excluded_provider_refusals")
    tally.saw(f"{FINAL} > refusals", len(refused))
    for number, entry in enumerate(refused):
        if not isinstance(entry, Mapping) or not entry.get("model"):
            tally.find("dropped", "runs", "a refusal without a model", 1, [f"{where} entry {number + 1}"])
            tally.keep_row("runs", entry, source=str(where), reason="dropped: a refusal without a model")
            continue
        dimension = str(entry.get("dimension") or "") or None
        task = entry.get("scenario") or entry.get("task")
        if task is None:
            task = f"unknown/{dimension}/{number + 1}"
            tally.note(f"{FINAL} names no task for some refusals; they count as tasks of their own.")
        elif "/" in str(task):
            dimension, _, task = str(task).partition("/")
        known = DIMENSION_NAMES.get(dimension or "", dimension)
        run_id = text_hash([BENCHMARK, "refused", known, task, entry["model"], entry.get("effort"), entry.get("arm")])
        if run_id in seen:
            tally.find("doubled", "runs", "the same refusal again", 1, [f"{where} entry {number + 1}"])
            tally.keep_row("runs", entry, run_id=run_id, source=str(where), reason="doubled: the same refusal again")
            continue
        seen[run_id] = str(where)
        row = {"run_id": run_id, "study": name, "benchmark": BENCHMARK, "task_id": str(task), "dimension": known}
        row |= {"version": "test", "model": str(entry["model"]), "seed": 0, "status": "refused", "evidence": []}
        row |= {"effort": _text(entry.get("effort")), "arm": _text(entry.get("arm")), "refused_seat": "evaluated"}
        row |= {"rule_version": RULE_VERSION, "error": f"refused by the provider ({FINAL}); version and seed not said"}
        rows["runs"].append(row)
        rows["tasks"].append(_task_row({}, row))
        rest = {k: v for k, v in entry.items() if k not in ("model", "dimension", "scenario", "task", "effort", "arm")}
        tally.keep_row("runs", dict(rest) | {"dimension": entry.get("dimension")}, run_id=run_id, source=str(where))
    rest = {k: v for k, v in summary.items() if k != "excluded_provider_refusals"}
    tally.keep_row("study", rest, source=str(where))
