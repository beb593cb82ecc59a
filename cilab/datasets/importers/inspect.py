"""Inspect AI logs (`.eval`, `.json`) into our tables, and our runs into `.eval` logs that its viewer opens.

May import `cilab.core` and this folder's parts; `inspect_ai` (the extra `inspect`) inside functions
only. Reads and writes logs through that package alone, so that a new version of the format is its business.

How they correspond
    A sample in an epoch is a run: task name = benchmark, sample id = task_id, epoch - 1 = seed. The first scorer (or
    the one that is named) is the score; the value of every scorer is an annotation. An assistant message is one event,
    each of its tool calls another, all of one round. What has no column here (targets, metadata, ids, usage by model,
    the log's header, and unless told otherwise the events) is kept as extra, and goes back into the log on export.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from cilab.core.errors import first_line
from cilab.core.tables import RUNS, frame
from cilab.datasets.importers.cells import text_hash
from cilab.datasets.importers.coverage import coverage_notes
from cilab.datasets.importers.reading import clean
from cilab.datasets.importers.report import EXTRA_SCHEMA, Imported, ImportFailed, Tally, read_extra
from cilab.teamwork.terms import VERSIONS

_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
#: Where our own values stand in the metadata of samples and messages that we export.
_OURS = "cilab"
_SEAT = ("seat", "seat_kind", "kind", "round", "model", "delivered_to")
_LABEL = ("rater", "model", "label", "reason", "gives_way", "noticed")
_ROLES = {"system": ("system", "environment"), "user": ("user", "user"), "assistant": ("assistant", "under_test")}
Row = dict[str, Any]


def _inspect() -> Any:
    try:
        import inspect_ai.log as log
    except ImportError:
        raise ImportFailed(
            "Inspect logs need the package inspect_ai; install it with: pip install 'cilab[inspect]'"
        ) from None
    return log


# -- in -------------------------------------------------------------------------------------------------------


def import_inspect(
    path: str | os.PathLike[str],
    *,
    name: str = "inspect",
    scorer: str | None = None,
    version: str = "alone",
    events: bool = True,
) -> Imported:
    """Import one Inspect log, or all logs of a folder.

    Parameters
    ----------
    path : a `.eval` or `.json` log, or a folder (searched with its subfolders).
    name : name of the data set.
    scorer : whose value is the score; default each log's first scorer. C, I, P and N are 1, 0, 0.5 and 0.
    version : our version of the runs (`alone`, `baseline`, `test`) where the log was not exported by cilab.
    events : keep the samples' event lists as extra. They are the largest part of a log.

    Returns
    -------
    Imported
        runs, messages, and an annotation for the value of every scorer. A sample with an error, or without a score
        from 0 to 1, has status `error`; one whose last answer a provider's filter stopped has status `refused`.

    Raises
    ------
    ImportFailed
        `inspect_ai` is not installed, or there is no log.
    """
    log = _inspect()
    root = Path(path)
    if version not in VERSIONS:
        raise ImportFailed(f"version {version!r} is not one of {', '.join(VERSIONS)}")
    files = [root] if root.is_file() else sorted(f for s in ("*.eval", "*.json") for f in root.rglob(s))
    if not files:
        raise ImportFailed(f"{root}: {'holds no .eval or .json log' if root.is_dir() else 'no such file or folder'}.")
    tally = Tally(root)
    rows: dict[str, list[Row]] = {"runs": [], "messages": [], "labels": [], "annotations": []}
    seen: set[str] = set()
    for file in files:
        tally.saw("logs")
        try:
            header, samples = _open(log, file)
            for sample in samples:
                tally.saw("samples > runs")
                _add_sample(sample, header, file.name, (name, scorer, version, events), seen, rows, tally)
        except (ValueError, OSError, KeyError, EOFError, NotImplementedError) as e:
            _not_a_log(file, e, len(files), tally)
            continue
        tally.keep_row("study", _header(header), source=file.name)
    if not rows["runs"]:
        raise ImportFailed(f"{root}: none of {len(files)} files holds a sample. {tally.text_of_first_drop()}")
    tables = {table: frame(table, made) for table, made in rows.items() if made}
    for note in coverage_notes(tables["runs"]):
        tally.note(note)
    if not events:
        tally.note("The samples' events were left out (events=False); they are in the logs.")
    return tally.finish(name, tables)


def _open(log: Any, file: Path) -> tuple[Any, Iterator[Any]]:
    """The log's header and its samples, one at a time where the format allows."""
    if file.suffix == ".eval":
        header = log.read_eval_log(file, header_only=True)
        return header, log.read_eval_log_samples(file, all_samples_required=False, resolve_attachments="full")
    whole = log.read_eval_log(file, resolve_attachments="full")
    return whole, iter(whole.samples or [])


def _not_a_log(file: Path, error: Exception, files: int, tally: Tally) -> None:
    reason = first_line(error)[:120]
    if files == 1:
        raise ImportFailed(f"{file}: is no whole Inspect log ({reason})") from None
    tally.find("dropped", "runs", "a file that is no whole Inspect log", 1, [f"{file.name}: {reason}"])
    tally.keep_row("study", {"path": str(file)}, source=file.name, reason=f"dropped: no whole Inspect log ({reason})")


def _header(header: Any) -> Row:
    return header.model_dump(mode="json", exclude={"samples", "reductions", "location", "etag"}, exclude_none=True)


def _add_sample(
    sample: Any,
    header: Any,
    source: str,
    options: tuple[str, str | None, str, bool],
    seen: set[str],
    rows: dict[str, list[Row]],
    tally: Tally,
) -> None:
    name, scorer, version, events = options
    where = f"{source} sample {sample.id} epoch {sample.epoch}"
    row = _run_row(sample, header, name, version, tally, where)
    ours = (sample.metadata or {}).get(_OURS)
    if isinstance(ours, Mapping) and "run_id" in ours:
        row |= _revived(ours)
    else:
        row |= _verdict(sample, scorer or _first_scorer(header, sample), tally, where)
    left = sample.model_dump(
        mode="json", exclude={"messages"} | (set() if events else {"events", "events_data"}), exclude_none=True
    )
    left["messages_extra"] = []
    if row["run_id"] in seen:
        tally.find("doubled", "runs", "the same sample again", 1, [where])
        left["messages"] = [m.model_dump(mode="json", exclude_none=True) for m in sample.messages]
        tally.keep_row(
            "runs",
            clean(left, tally, "runs", where),
            run_id=row["run_id"],
            source=source,
            reason="doubled: the same sample again",
        )
        return
    seen.add(row["run_id"])
    made, labels, left["messages_extra"] = _message_rows(sample, row["run_id"], tally, where)
    if _OURS not in (sample.metadata or {}):
        row["messages"] = sum(m["kind"] == "message" and m["seat_kind"] == "under_test" for m in made)
        row["tool_calls"] = sum(m["kind"] == "tool_call" for m in made)
    rows["runs"].append(clean(row, tally, "runs", where))
    rows["messages"] += made
    rows["labels"] += labels
    rows["annotations"] += _annotations(sample, row["run_id"], tally, where)
    tally.keep_row("runs", clean(left, tally, "runs", where), run_id=row["run_id"], source=source)


def _run_row(sample: Any, header: Any, name: str, version: str, tally: Tally, where: str) -> Row:
    spec = header.eval
    config = spec.model_generate_config
    usage = list((sample.model_usage or {}).values())
    own = (sample.model_usage or {}).get(spec.model)
    return {
        "run_id": sample.uuid or text_hash([spec.eval_id, sample.id, sample.epoch]),
        "study": name,
        "benchmark": spec.task,
        "task_id": str(sample.id),
        "version": version,
        "model": spec.model,
        "effort": getattr(config, "reasoning_effort", None),
        "seed": sample.epoch - 1,
        "ended": sample.limit.type if sample.limit else (sample.output.stop_reason if sample.output.choices else None),
        "rounds": sum(m.role == "assistant" for m in sample.messages),
        "tokens_in": sum(_all_in(u) for u in usage) if usage else None,
        "tokens_out": sum(u.output_tokens for u in usage) if usage else None,
        "tokens_reasoning": _sum_known([u.reasoning_tokens for u in usage]),
        "tokens_cached": _sum_known([u.input_tokens_cache_read for u in usage]),
        "cost_usd": own.total_cost if own else None,
        "cost_usd_team": _sum_known([u.total_cost for u in usage], every=True),
        "seconds": sample.working_time if sample.working_time is not None else sample.total_time,
        "started_at": _time(sample.started_at),
        "finished_at": _time(sample.completed_at),
        "code_version": f"inspect_ai {(spec.packages or {}).get('inspect_ai', 'unknown')}",
    }


def _all_in(usage: Any) -> int:
    return usage.input_tokens + (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)


def _sum_known(values: list[Any], every: bool = False) -> Any:
    known = [v for v in values if v is not None]
    return sum(known) if known and (not every or len(known) == len(values)) else None


def _time(text: Any) -> datetime | None:
    if text is None:
        return None
    when = datetime.fromisoformat(str(text))
    return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)


def _revived(ours: Mapping[str, Any]) -> Row:
    """The run's columns as they were exported."""
    known = {name: ours.get(name) for name in RUNS.names}
    for column in ("started_at", "finished_at"):
        known[column] = _time(known.get(column))
    return known


def _first_scorer(header: Any, sample: Any) -> str | None:
    names = [s.name for s in (header.eval.scorers or [])] + list(sample.scores or {})
    return next((n for n in names if n in (sample.scores or {})), None)


def _verdict(sample: Any, scorer: str | None, tally: Tally, where: str) -> Row:
    """status, score, passed, outcome and error of a sample."""
    if sample.error is not None:
        return {
            "status": "error",
            "error": sample.error.message.splitlines()[0][:300] if sample.error.message else "error",
        }
    if sample.output.choices and sample.output.stop_reason == "content_filter":
        return {"status": "refused", "refused_seat": "assistant", "error": "stopped by the provider's content filter"}
    score = (sample.scores or {}).get(scorer) if scorer else None
    value = _number(score.value) if score is not None else None
    if value is None or not 0 <= value <= 1:
        reason = "no score in the log" if score is None else "the score is no number from 0 to 1"
        tally.find("repaired", "runs", f"{reason}: status error", 1, [where])
        return {"status": "error", "error": reason}
    answer = score.answer if isinstance(score.answer, str) else None
    return {"status": "ok", "score": value, "passed": value == 1, "outcome": answer[:200] if answer else None}


def _number(value: Any) -> float | None:
    """A scorer's value as a number; None where it is none (a list, an object, words)."""
    if isinstance(value, bool | int | float):
        return float(value)
    if isinstance(value, str):
        if value in _LETTERS:
            return _LETTERS[value]
        word = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}.get(value.lower())
        try:
            return word if word is not None else float(value)
        except ValueError:
            return None
    return None


def _annotations(sample: Any, run_id: str, tally: Tally, where: str) -> list[Row]:
    """The value of every scorer; a scorer with several values is one annotation for each."""
    out = []
    for scorer, score in (sample.scores or {}).items():
        if scorer == _OURS:
            continue  # our own score, exported: it is the run's score again
        parts = score.value if isinstance(score.value, Mapping) else {scorer: score.value}
        for feature, value in parts.items():
            number = _number(value)
            words = None if number is not None and not isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            row = {"run_id": run_id, "annotator": scorer, "repeat": 0, "agent": 0, "feature": str(feature)}
            out.append(clean(row | {"value": number, "text": words}, tally, "annotations", where))
    return out


def _message_rows(sample: Any, run_id: str, tally: Tally, where: str) -> tuple[list[Row], list[Row], list[Row]]:
    """(events, labels, what each message has besides, with the index of its first event)."""
    rows: list[Row] = []
    labels: list[Row] = []
    rest: list[Row] = []
    turn = -1
    for message in sample.messages:
        turn += message.role == "assistant"
        left = message.model_dump(mode="json", exclude={"role", "tool_calls", "function"}, exclude_none=True)
        if isinstance(message.content, str):
            left.pop("content")
        calls = list(getattr(message, "tool_calls", None) or [])
        if calls:
            left["calls"] = [c if isinstance(c, dict) else _call_rest(c) for c in calls]
        rest.append({"index": len(rows), "role": message.role} | left)
        ours = (message.metadata or {}).get(_OURS)
        for label in ours.get("labels", []) if isinstance(ours, Mapping) else []:
            labels.append({k: label.get(k) for k in _LABEL} | {"run_id": run_id, "index": len(rows)})
        for event in _events(message, calls, max(turn, 0)):
            event |= {"run_id": run_id, "index": len(rows)}
            if isinstance(ours, Mapping):
                event |= {k: v for k, v in ours.items() if k in _SEAT and k != "kind"}
                if event["kind"] in ("message", "notice") and ours.get("kind") in ("message", "notice"):
                    event["kind"] = ours["kind"]
            rows.append(clean(event, tally, "messages", where))
    return rows, labels, clean(rest, tally, "messages", where)


def _events(message: Any, calls: list[Any], turn: int) -> Iterator[Row]:
    text = message.text
    if message.role == "tool":
        tool = message.function or "tool"
        base = {"round": turn, "kind": "tool_result", "seat": tool, "seat_kind": "environment", "tool": tool}
        yield base | {"tool_output": text}
        return
    seat, kind = _ROLES[message.role]
    base = {"round": turn, "seat": seat, "seat_kind": kind, "model": getattr(message, "model", None)}
    if text or not calls:
        yield base | {"kind": "notice" if message.role == "system" else "message", "content": text}
    for call in calls:
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        yield base | {"kind": "tool_call", "tool": call.function, "tool_input_json": arguments}


def _call_rest(call: Any) -> Row:
    from pydantic_core import to_jsonable_python

    raw = to_jsonable_python(call, exclude_none=True)
    return {k: v for k, v in raw.items() if k not in ("function", "arguments")}


# -- out ------------------------------------------------------------------------------------------------------


def export_inspect(study: Any, out: str | os.PathLike[str]) -> list[Path]:
    """Write a study's runs as Inspect `.eval` logs, one for each benchmark, version, model, effort and arm.

    Parameters
    ----------
    study : an opened study, a data set, or what an importer returned. Runs that came from Inspect logs go back into a
        log each, with what the import had kept as extra.
    out : folder for the logs; made where it is not there.

    Returns
    -------
    list of Path
        The logs, in the order of their names. Runs that were never played (`gated_out`) are left out.

    Raises
    ------
    ImportFailed
        `inspect_ai` is not installed, there are no runs, or a log of that name is there already.
    """
    log = _inspect()
    extra = _extra_of(study)
    tables = getattr(study, "dataset", study)
    runs = tables.runs.filter(pl.col("status") != "gated_out").sort("task_id", "seed", "run_id").collect()
    if runs.height == 0:
        raise ImportFailed("there are no runs to export")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, group in _groups(runs, extra):
        target = folder / f"{name}.eval"
        if target.exists():
            raise ImportFailed(f"{target}: is there already; choose another folder")
        ids = group["run_id"].to_list()
        messages = tables.messages.filter(pl.col("run_id").is_in(ids)).sort("run_id", "index").collect()
        labels = tables.labels.filter(pl.col("run_id").is_in(ids)).collect()
        made = _log(log, group, messages, labels, extra, tables)
        log.write_eval_log(made, target, format="eval")
        written.append(target)
    return sorted(written)


def _extra_of(study: Any) -> pl.DataFrame:
    """Extra rows of an import: those in memory, or those beside the study's tables."""
    if isinstance(getattr(study, "extra", None), pl.DataFrame):
        return study.extra
    path = getattr(study, "path", None)
    return pl.DataFrame(schema=EXTRA_SCHEMA) if path is None else read_extra(path).collect()


def _groups(runs: pl.DataFrame, extra: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """(name of the log, its runs): runs of an imported log together, the others by what a leaderboard tells apart."""
    logs = extra.filter(pl.col("extra_json").str.contains('"eval":{', literal=True) & (pl.col("table") == "study"))
    from_log = extra.filter(
        (pl.col("table") == "runs") & pl.col("reason").is_null() & pl.col("source").is_in(logs["source"].to_list())
    )
    source = from_log.select("run_id", pl.col("source").alias("log")).unique("run_id")
    told = runs.join(source, on="run_id", how="left", maintain_order="left")
    for (log,), group in told.filter(pl.col("log").is_not_null()).group_by("log", maintain_order=True):
        yield Path(str(log)).stem, group
    columns = ("benchmark", "version", "model", "partner_model", "effort", "arm")
    for key, group in told.filter(pl.col("log").is_null()).group_by(*columns, maintain_order=True):
        words = [_file_word(str(k)) for k in key if k is not None]
        yield f"{'_'.join(words)}_{text_hash(key)[:6]}", group


def _file_word(text: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "-" for c in text)[:60]


def _log(
    log: Any, runs: pl.DataFrame, messages: pl.DataFrame, labels: pl.DataFrame, extra: pl.DataFrame, study: Any
) -> Any:
    kept = dict(
        extra.filter((pl.col("table") == "runs") & pl.col("reason").is_null())
        .select("run_id", "extra_json")
        .iter_rows()
    )
    by_run = {k[0]: g.to_dicts() for k, g in messages.group_by("run_id", maintain_order=True)}
    by_label = {k[0]: g.to_dicts() for k, g in labels.group_by("run_id", maintain_order=True)}
    source = runs["log"][0]
    headers = extra.filter((pl.col("table") == "study") & (pl.col("source") == source)) if source else extra.clear()
    header = json.loads(headers["extra_json"][0]) if headers.height else None
    samples = [
        _sample(log, run, by_run.get(run["run_id"], []), by_label.get(run["run_id"], []), _kept(kept, run, source))
        for run in runs.drop("log").iter_rows(named=True)
    ]
    if header is None:
        header = _new_header(runs, str(getattr(study, "name", "study")))
    return log.EvalLog.model_validate(header | {"samples": samples})


def _kept(kept: Mapping[str, str], run: Row, source: str | None) -> Row:
    """What the import of this run had kept, if it came from a log."""
    return json.loads(kept[run["run_id"]]) if source is not None and run["run_id"] in kept else {}


def _new_header(runs: pl.DataFrame, study: str) -> Row:
    first = runs.row(0, named=True)
    ok = runs.filter(pl.col("score").is_not_null())
    when = runs["finished_at"].max() or datetime(1970, 1, 1, tzinfo=UTC)
    identity = text_hash(runs["run_id"].to_list())
    config = {"reasoning_effort": first["effort"]} if first["effort"] in _EFFORTS else {}
    mean = {"mean": {"name": "mean", "value": ok["score"].mean()}} if ok.height else {}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": identity,
            "run_id": identity,
            "created": when.isoformat(),
            "task": first["benchmark"],
            "task_id": f"{first['benchmark']}-{first['version']}",
            "model": first["model"],
            "dataset": {
                "name": study,
                "samples": runs["task_id"].n_unique(),
                "sample_ids": sorted(runs["task_id"].unique().to_list()),
            },
            "config": {"epochs": int(runs["seed"].max()) + 1},
            "model_generate_config": config,
            "metadata": {k: first[k] for k in ("version", "partner_model", "effort", "arm") if first[k] is not None},
        },
        "results": {
            "total_samples": runs.height,
            "completed_samples": int((runs["status"] == "ok").sum()),
            "scores": [{"name": _OURS, "scorer": _OURS, "params": {}, "metrics": mean}],
        },
    }


_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def _sample(log: Any, run: Row, rows: list[Row], labels: list[Row], kept: Row) -> Any:
    sample = {k: v for k, v in kept.items() if k != "messages_extra"}
    messages = _messages(rows, labels, kept.get("messages_extra"))
    if not kept:
        answer = next((m["content"] for m in reversed(messages) if m["role"] == "assistant"), "")
        mine = {k: (v.isoformat() if isinstance(v, datetime) else v) for k, v in run.items() if v is not None}
        sample = {
            "id": run["task_id"],
            "epoch": run["seed"] + 1,
            "input": next((m["content"] for m in messages if m["role"] == "user"), run["task_id"]),
            "target": "",
            "output": {
                "model": run["model"],
                "choices": [{"message": {"role": "assistant", "content": answer}, "stop_reason": "stop"}],
            },
            "metadata": {_OURS: mine},
            "uuid": run["run_id"],
            "total_time": run["seconds"],
            "started_at": mine.get("started_at"),
            "completed_at": mine.get("finished_at"),
        }
        if run["score"] is not None:
            why = ", ".join(run["evidence"] or []) or None
            sample["scores"] = {_OURS: {"value": run["score"], "answer": run["outcome"], "explanation": why}}
        if run["tokens_in"] is not None and run["tokens_out"] is not None:
            cached = run["tokens_cached"] or 0
            usage = {"input_tokens": run["tokens_in"] - cached, "output_tokens": run["tokens_out"]}
            usage |= {
                "total_tokens": run["tokens_in"] + run["tokens_out"],
                "input_tokens_cache_read": run["tokens_cached"],
            }
            sample["model_usage"] = {run["model"]: usage | {"reasoning_tokens": run["tokens_reasoning"]}}
        if run["status"] in ("error", "refused"):
            text = run["error"] or run["status"]
            sample["error"] = {"message": text, "traceback": "", "traceback_ansi": ""}
    return log.EvalSample.model_validate(sample | {"messages": messages})


def _messages(rows: list[Row], labels: list[Row], rest: list[Row] | None) -> list[Row]:
    """Events as messages: a call joins the assistant message of its seat and round that is still open."""
    starts = None if rest is None else {r["index"]: r for r in rest}
    said: dict[int, list[Row]] = {}
    for label in labels:
        said.setdefault(label["index"], []).append({k: label[k] for k in _LABEL if label[k] is not None})
    out: list[Row] = []
    open_key: tuple[Any, Any] | None = None
    for row in rows:
        if row["kind"] == "tool_result":
            out.append(_tool_message(row, out, plain=starts is None))
            open_key = None
        else:
            joins = row["kind"] == "tool_call" and open_key == (row["seat"], row["round"])
            if starts is not None:
                joins = row["index"] not in starts
            if not joins:
                out.append(_new_message(row, said.get(row["index"]), plain=starts is None))
            if row["kind"] == "tool_call":
                out[-1].setdefault("tool_calls", []).append(_call(row))
            open_key = (row["seat"], row["round"]) if out[-1]["role"] == "assistant" else None
            if row["kind"] == "tool_call" and row["tool_output"] is not None:
                out.append(_tool_message(row, out, plain=starts is None))
                open_key = None
        if starts is not None and row["index"] in starts:
            out[-1]["__rest"] = starts[row["index"]]
    return [_restored(m) for m in out]


def _new_message(row: Row, labels: list[Row] | None, plain: bool) -> Row:
    by_kind = {"under_test": "assistant", "environment": "system" if row["seat"] == "system" else "user"}
    role = by_kind.get(row["seat_kind"], "user")
    message: Row = {"role": role, "content": row["content"] or ""}
    if role == "assistant" and row["model"]:
        message["model"] = row["model"]
    if plain:
        message["metadata"] = {_OURS: _seat(row) | ({"labels": labels} if labels else {})}
    return message


def _seat(row: Row) -> Row:
    return {k: row[k] for k in _SEAT if row[k] is not None}


def _call(row: Row) -> Row:
    try:
        arguments = json.loads(row["tool_input_json"] or "{}")
    except json.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        arguments = {"input": row["tool_input_json"]}
    return {"id": f"call_{row['index']}", "function": row["tool"] or "tool", "arguments": arguments}


def _tool_message(row: Row, before: list[Row], plain: bool) -> Row:
    """A tool's answer, tied to the last call of that tool without one."""
    answered = {m.get("tool_call_id") for m in before if m["role"] == "tool"}
    calls = [c for m in before for c in m.get("tool_calls", [])]
    call = next((c for c in calls if c["function"] == row["tool"] and c["id"] not in answered), None)
    message = {"role": "tool", "content": row["tool_output"] or "", "function": row["tool"]}
    if plain and row["kind"] == "tool_result":
        message["metadata"] = {_OURS: _seat(row)}
    return message | ({"tool_call_id": call["id"]} if call else {})


def _restored(message: Row) -> Row:
    """The message with what its import had kept put back."""
    rest = message.pop("__rest", None)
    if rest is None:
        return message
    for call, kept in zip(message.get("tool_calls", []), rest.get("calls", []), strict=False):
        call |= kept
    return message | {k: v for k, v in rest.items() if k not in ("index", "role", "calls")} | {"role": rest["role"]}
