"""The tables that everything speaks: Polars schemas with a unit for every column, and the checks of rows.

May import `cilab.core`. Reads and writes nothing: `cilab.store` does that, and checks what it moves against the
schemas here. Columns of the runs table that one benchmark brings stand in its `terms` (see `cilab.core.columns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from cilab.core.columns import UTC, Column, Table, flag, number, text, texts, whole
from cilab.core.errors import TableError, first_line
from cilab.core.vocabulary import EVENTS, PURPOSES, SEAT_KINDS, SPLITS, STATUSES, STRENGTHS

#: Version of columns and closed lists. What a newer one wrote is read, the unknown kept as it is, and never written to;
#: what an older one wrote is read with nulls in the columns that came later (`Column.since`).
TABLES_VERSION = 1
#: Version of where rows lie: folders, parts, the journal's tables. What a newer one wrote is refused.
LAYOUT_VERSION = 1

RUNS = Table(
    "runs",
    "One row per rollout.",
    (
        text("run_id", "Hash of what makes the rollout what it is.", required=True),
        text("study", "Name of the study that asked for it first.", required=True),
        text("benchmark", "Which benchmark: maze or teamwork.", required=True),
        text("task_id", "The task; for a maze, the maze.", required=True),
        text("dimension", "Teamwork dimension; null for mazes.", hinted=True),
        text("source_family", "Family of the task's source; null for mazes.", hinted=True),
        text("split", "public or held_out.", SPLITS, hinted=True),
        text("version", "Setting of the task.", (), required=True),
        text("model", "Model under test; for a pair, the starter.", required=True),
        text("partner_model", "The other model: a pair's follower; null where there is none."),
        text("effort", "Reasoning setting asked of `model`; null where none was."),
        text("partner_effort", "Reasoning setting asked of `partner_model`; null where none was."),
        text("arm", "Name of the treatment; null for none."),
        whole("seed", "Number of the repeat.", required=True),
        text("status", "ok, refused, gated_out or error.", STATUSES, required=True),
        text("refused_seat", "Seat whose model refused; null unless refused."),
        text("ended", "Why the dialogue ended: completed, turn_cap, or the benchmark's own word."),
        text("outcome", "The benchmark's short name of what came out."),
        texts("evidence", "What the check saw, from the closed list EVIDENCE.", ()),
        number("score", "0 to 1, a fraction; null unless ok.", 0, 1),
        flag("passed", "score = 1; null unless ok."),
        number("weighted_outcome", "(a - b) / a for mazes, at most 1, may be negative; null unless ok.", None, 1),
        flag("success", "The goal was reached; null unless ok."),
        text("prefix_run_id", "Run whose first turns a relay continues."),
        whole("rounds", "Rounds (teamwork) or turns (maze) played."),
        whole("messages", "Messages sent by agents."),
        whole("tool_calls", "Tool calls made by the model under test."),
        whole("tokens_in", "Prompt tokens of every seat, cached ones included; null when any is unknown."),
        whole("tokens_out", "Completion tokens of every seat, reasoning included; null when any is unknown."),
        whole("tokens_reasoning", "Reasoning tokens, part of tokens_out; null when not exposed."),
        whole("tokens_cached", "Cached prompt tokens, part of tokens_in; null when not exposed."),
        number("cost_usd", "Cost of the model under test, USD; null when a price is unknown.", 0),
        number("cost_usd_team", "Cost of every call of the rollout, USD; null when a price is unknown.", 0),
        number("seconds", "Wall time from the first call to the last, pauses between sessions left out.", 0),
        Column("started_at", UTC, "When the rollout started (UTC)."),
        Column("finished_at", UTC, "When it finished (UTC)."),
        text("spec_json", "The whole run spec as JSON."),
        text("spec_hash", "Hash of spec_json with what does not enter the run id."),
        text("code_version", "Version of cilab that played it."),
        text("rule_version", "Version of the scoring rules."),
        text("error", "One line on what went wrong; null unless error or refused."),
    ),
    room="prefix_run_id",
)

MESSAGES = Table(
    "messages",
    "One row per event of a rollout.",
    (
        text("run_id", "The rollout.", required=True),
        whole("index", "Position in the rollout, from 0.", required=True),
        whole("round", "Round or turn, from 0."),
        text("kind", "message, tool_call, tool_result or notice.", EVENTS, required=True),
        text("seat", "Name of the seat that spoke.", required=True),
        text("seat_kind", "What sits there.", SEAT_KINDS, required=True),
        text("model", "Model in the seat; null for scripts and the environment."),
        text("content", "The text, valid UTF-8."),
        text("tool", "Name of the tool."),
        text("tool_input_json", "Arguments of a tool call as JSON, as the model sent them."),
        text("tool_output", "What the tool returned."),
        texts("delivered_to", "Seats that received it; empty when nobody did."),
        whole("tokens_in", "Prompt tokens of the call that made it."),
        whole("tokens_out", "Completion tokens of that call."),
        number("cost_usd", "Cost of that call, USD; null when unknown.", 0),
    ),
)

CALLS = Table(
    "calls",
    "One row per model call. (run_id, purpose, seat, index) is unique.",
    (
        text("run_id", "The rollout that was played, judged, graded or annotated.", required=True),
        whole("index", "Position among the calls of this purpose and job, from 0.", required=True),
        text("seat", "Seat that called; for a grader or annotator its name and repeat.", required=True),
        text("purpose", "What the call was for.", PURPOSES, required=True),
        text("model_asked", "Model string asked for.", required=True),
        text("model_returned", "Model string the provider answered with."),
        text("system_fingerprint", "The provider's fingerprint of its configuration."),
        text(
            "wire_json",
            "Messages and tools as sent, after normalisation. A prefix shared with an earlier call of the seat is "
            "stored once: {same_as, first, messages}; cilab.store.wire_messages puts it together.",
        ),
        text("sampling_asked", "Sampling settings asked for, JSON."),
        text("sampling_honoured", "Sampling settings sent to the provider, JSON."),
        text("finish_reason", "stop, length, tool_calls, content_filter, or the typed error's kind."),
        whole("tokens_in", "Prompt tokens, cached ones included."),
        whole("tokens_out", "Completion tokens, reasoning included."),
        whole("tokens_reasoning", "Reasoning tokens, part of tokens_out."),
        whole("tokens_cached", "Cached prompt tokens, part of tokens_in."),
        number("cost_usd", "Cost, USD; null when unknown.", 0),
        number("latency_s", "Seconds from sending the successful (or last) request to its answer.", 0),
        whole("retries", "Requests beyond the first."),
        text("error", "The typed error with which the call ended; null for an answer."),
    ),
)

LABELS = Table(
    "labels",
    "One row per judgement of a message.",
    (
        text("run_id", "The rollout.", required=True),
        whole("index", "The message's position in the rollout.", required=True),
        text("rater", "referee, second, third, final, person:N or a name.", required=True),
        text("model", "Model that judged; null for people and for final."),
        text("label", "The label; unparsed when the answer was none."),
        text("reason", "The rater's words."),
        flag("gives_way", "The label means that the model gave way (from the task)."),
        flag("noticed", "The label means that the model noticed the problem (from the task)."),
    ),
)

ANNOTATIONS = Table(
    "annotations",
    "One row per annotated or regraded feature of a rollout.",
    (
        text("run_id", "The rollout.", required=True),
        text("annotator", "rules, or the model that annotated.", required=True),
        whole("repeat", "Number of the repeat, from 0.", required=True),
        whole("agent", "0 the pair, 1 the starter, 2 the follower.", required=True),
        text("feature", "Name of the feature.", required=True),
        number("value", "Its value; null when it could not be read off the answer."),
        text("text", "The value in words, or the reason."),
    ),
)

REVIEWS = Table(
    "reviews",
    "A reader's verdict on a verdict.",
    (
        text("run_id", "The rollout.", required=True),
        text("reviewer", "Who read it.", required=True),
        number("old_score", "Score before, 0 to 1.", 0, 1),
        number("new_score", "Score after, 0 to 1.", 0, 1),
        text("reason", "Why."),
        Column("at", UTC, "When (UTC)."),
    ),
)

TASKS = Table(
    "tasks",
    "One row per task.",
    (
        text("task_id", "The task.", required=True),
        text("benchmark", "maze or teamwork.", required=True),
        text("dimension", "Teamwork dimension; null for mazes."),
        text("source_family", "Family of the source."),
        flag("real_world", "The source is a real record."),
        text("split", "public or held_out.", SPLITS),
        whole("seats", "Seats at the table."),
        whole("rounds", "Most rounds (teamwork) or turns (maze)."),
        flag("sandbox", "The task has a scratch folder."),
        flag("executes_code", "The task runs code that the model wrote."),
        text("version_hash", "Hash of the task's content.", required=True),
    ),
)

MODELS = Table(
    "models",
    "One row per known model (from cilab.core.registry).",
    (
        text("model", "The name used in tables and figures.", required=True),
        text("aliases", "Other names, separated by |."),
        text("litellm", "LiteLLM's provider string, where known."),
        text("builder", "Who made it."),
        text("family", "Model family, for same-family and cross-family analyses."),
        flag("open_weights", "Weights are public; null where unknown."),
        flag("distilled", "Distilled from a larger model; null where unknown."),
        flag("system_prompt_flexible", "Takes a system prompt at any position (maze paper, table 1)."),
        text(
            "strength",
            "strong, medium or weak (maze paper, appendix D.2); null where not assigned.",
            STRENGTHS,
        ),
        text("effort_lightest", "Lightest reasoning setting of its API."),
        text("effort_high", "High reasoning setting used by the paper."),
        Column("released", pl.Date, "Release date, where known."),
        number("usd_per_mtok_in", "USD per million prompt tokens, where known.", 0),
        number("usd_per_mtok_out", "USD per million completion tokens, where known.", 0),
        number("usd_per_mtok_cached", "USD per million cached prompt tokens, where known.", 0),
        text("studies", "Published studies it appears in, separated by |."),
        text("note", "What is uncertain."),
    ),
)

TABLES: dict[str, Table] = {t.name: t for t in (RUNS, MESSAGES, CALLS, LABELS, ANNOTATIONS, REVIEWS, TASKS, MODELS)}


def empty(name: str) -> pl.DataFrame:
    """A data frame of the table `name` with no rows."""
    return pl.DataFrame(schema=TABLES[name].schema)


#: Columns of the runs table that are null unless the status is ok.
_SCORED = ("score", "passed", "weighted_outcome", "success", "joint_share")


def valid_text(value: Any) -> Any:
    """`value` with every string in it as valid UTF-8; a lone surrogate becomes U+FFFD, a pair is joined.

    Goes into dicts, lists and tuples (which become lists); anything else comes back as it is.

    >>> valid_text({"a": ["x" + chr(0xD800)]}) == {"a": ["x\ufffd"]}
    True
    """
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, Mapping):
        return {valid_text(k): valid_text(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [valid_text(v) for v in value]
    return value


def frame(name: str, rows: Sequence[Mapping[str, Any]], version: int | None = None) -> pl.DataFrame:
    """Rows as a checked data frame of table `name`; columns that a row leaves out are null.

    No value is cast to another type, except a whole number to a float. Lone surrogates in texts become U+FFFD. Of rows
    that a newer `version` wrote (default: ours), columns that are not known follow the others.

    Raises
    ------
    TableError
        A row has a column that the table does not, or a value of another type; or as `check`.
    """
    table = TABLES[name]
    more = _unknown(name, rows) if _is_newer(version) else []
    check_types(name, [{k: v for k, v in row.items() if k not in more} for row in rows] if more else rows)
    try:
        df = _made(rows, table.schema, more) if rows else empty(name)
    except UnicodeEncodeError:
        df = _made(valid_text(rows), table.schema, more)
    except (pl.exceptions.PolarsError, TypeError, OverflowError, ValueError) as e:
        raise TableError(f"table {name}: {first_line(e)}") from None
    return check(name, df, version)


def _made(rows: Sequence[Mapping[str, Any]], schema: pl.Schema, more: Sequence[str]) -> pl.DataFrame:
    df = pl.from_dicts(rows, schema=schema)
    return df.with_columns(pl.Series(c, [row.get(c) for row in rows], strict=False) for c in more) if more else df


def _is_newer(version: int | None) -> bool:
    return version is not None and version > TABLES_VERSION


def _unknown(name: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    known = TABLES[name].kinds
    return list(dict.fromkeys(key for row in rows for key in row if key not in known))


def check_types(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a row with an unknown column or a value of another type than its column.

    Polars would cast in silence: 1.5 to 1 in a column of whole numbers, a text to null in a list.

    Raises
    ------
    TableError
        Names the row (from 0), the column and the value.
    """
    known = TABLES[name].kinds
    for i, row in enumerate(rows):
        for key, value in row.items():
            fits = known.get(key)
            if fits is None:
                stray = sorted(str(k) for k in row if k not in known)
                raise TableError(f"table {name}, row {i}: no column named {', '.join(stray)}")
            if value is not None and not fits[1](value):
                raise TableError(f"table {name}, row {i}: {key} is {_short(value)}, {fits[0]} is wanted")


def _short(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def check(name: str, df: pl.DataFrame, version: int | None = None) -> pl.DataFrame:
    """`df` when it fits table `name` as a version of the tables wrote it (default: ours).

    Columns that came later are added, with nulls. Of a newer version, columns and words that are not known are kept.

    Raises
    ------
    TableError
        A column is missing, unknown or of another type; a required value is null; a value is outside
        its closed list or its bounds, or is NaN or infinite; a rollout that is not ok has a score.
    """
    table = TABLES[name]
    problems = schema_problems(name, df.schema, version)
    if problems:
        raise TableError(f"table {name}: " + "; ".join(problems))
    if later := [c for c in table.columns if c.name not in df.columns]:
        df = df.with_columns(pl.lit(None, c.dtype).alias(c.name) for c in later)
        df = df.select(*table.names, pl.exclude(table.names))
    if df.height == 0:
        return df
    for c in table.columns:
        if c.allowed is None or not _is_newer(version):
            problems += c.problems(df[c.name])
    if name == "runs":
        problems += [
            f"{column} of a rollout that is not ok must be null"
            for column in _SCORED
            if (df[column].is_not_null() & (df["status"] != "ok")).any()
        ]
    if problems:
        raise TableError(f"table {name}: " + "; ".join(problems))
    return df


def check_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """As `frame`, without making one: cheap enough for every rollout.

    Raises
    ------
    TableError
        Names the row (from 0), the column and the value.
    """
    check_types(name, rows)
    ruled = TABLES[name].ruled
    for i, row in enumerate(rows):
        problem = next((p for c in ruled if (p := c.problem(row.get(c.name)))), None)
        if problem is None and name == "runs" and row["status"] != "ok":
            scored = next((c for c in _SCORED if row.get(c) is not None), None)
            problem = scored and f"{scored} of a rollout that is not ok must be null"
        if problem:
            raise TableError(f"table {name}, row {i}: {problem}")


def schema_problems(name: str, schema: Mapping[str, Any], version: int | None = None) -> list[str]:
    """What of a Polars schema does not fit table `name` as a version wrote it, a phrase each; in whatever order."""
    table = TABLES[name]
    written = TABLES_VERSION if version is None else version
    problems = []
    missing = [c.name for c in table.columns if c.name not in schema and c.expected(written)]
    unknown = [n for n in schema if n not in table.names] if not _is_newer(version) else []
    if missing:
        problems.append(f"missing columns: {', '.join(missing)}")
    if unknown:
        problems.append(f"unknown columns: {', '.join(unknown)}")
    problems += [
        f"{c.name} is {schema[c.name]}, expected {c.dtype}"
        for c in table.columns
        if c.name in schema and schema[c.name] != c.dtype
    ]
    return problems
