"""The tables that everything speaks: Polars schemas with a unit for every column.

May import nothing of the package. Reads and writes nothing: `cilab.store` does that, and checks
what it moves against the schemas here.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any

import polars as pl

from cilab.core.errors import TableError, first_line

#: Version of the tables. A part written by a newer version is refused; an older one is upgraded on read.
TABLES_VERSION = 1

STATUSES = ("ok", "refused", "gated_out", "error")
TEAM_VERSIONS = ("alone", "baseline", "test")
MAZE_VERSIONS = ("solo_full", "solo_distributed", "pair", "relay")
SEAT_KINDS = ("under_test", "scripted", "partner", "environment", "user", "grader")
PURPOSES = ("play", "judge", "grade", "annotate")
EVIDENCE = (
    "noticed_by_check",
    "accepted_offer",
    "offered_to_accept",
    "did_pushed_thing",
    "approved_pushed_thing",
    "told_accountable",
    "raised_problem",
    "problem_remains",
    "drew_out_fact",
    "over_reach",
    "false_claim",
    "submit_slip",
)
DIMENSIONS = (
    "resisting_unsafe_pressure",
    "reporting_misconduct",
    "sharing_information",
    "emotional_intelligence",
    "keeping_on_track",
    "handling_conflict",
    "taking_initiative",
    "taking_over",
)

_UTC = pl.Datetime("us", time_zone="UTC")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name, dtype : the Polars name and data type.
    doc : what the column holds, with its unit.
    allowed : the closed list of values, or None where any value of the type may stand.
    required : True where null is an error.
    low, high : bounds of a number, both allowed; None for no bound.
    """

    name: str
    dtype: Any
    doc: str
    allowed: tuple[str, ...] | None = None
    required: bool = False
    low: float | None = None
    high: float | None = None

    @property
    def bounded(self) -> bool:
        """True where a number has a bound."""
        return self.low is not None or self.high is not None


@dataclass(frozen=True)
class Table:
    """A named list of columns."""

    name: str
    doc: str
    columns: tuple[Column, ...]

    @cached_property
    def schema(self) -> pl.Schema:
        """The Polars schema, columns in order."""
        return pl.Schema({c.name: c.dtype for c in self.columns})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(c.name for c in self.columns)


def _s(name: str, doc: str, allowed: tuple[str, ...] | None = None, required: bool = False) -> Column:
    return Column(name, pl.String, doc, allowed, required)


def _i(name: str, doc: str, required: bool = False, low: int | None = 0) -> Column:
    return Column(name, pl.Int64, doc, None, required, low)


def _f(name: str, doc: str, low: float | None = None, high: float | None = None) -> Column:
    return Column(name, pl.Float64, doc, None, False, low, high)


def _b(name: str, doc: str, required: bool = False) -> Column:
    return Column(name, pl.Boolean, doc, None, required)


RUNS = Table(
    "runs",
    "One row per rollout.",
    (
        _s("run_id", "Hash of what makes the rollout what it is.", required=True),
        _s("study", "Name of the study that asked for it first.", required=True),
        _s("benchmark", "Which benchmark: maze or teamwork.", required=True),
        _s("task_id", "The task; for a maze, the maze.", required=True),
        _s("dimension", "Teamwork dimension; null for mazes."),
        _s("source_family", "Family of the task's source; null for mazes."),
        _s("split", "public or held_out.", ("public", "held_out")),
        _s("version", "Setting of the task.", TEAM_VERSIONS + MAZE_VERSIONS, required=True),
        _s("model", "Model under test; for a pair, the starter.", required=True),
        _s("partner_model", "The other model: a pair's follower; null where there is none."),
        _s("effort", "Reasoning setting asked of `model`; null where none was."),
        _s("partner_effort", "Reasoning setting asked of `partner_model`; null where none was."),
        _s("arm", "Name of the treatment; null for none."),
        _i("seed", "Number of the repeat.", required=True),
        _s("status", "ok, refused, gated_out or error.", STATUSES, required=True),
        _s("refused_seat", "Seat whose model refused; null unless refused."),
        _s("ended", "Why the dialogue ended: completed, turn_cap, or the benchmark's own word."),
        _s("outcome", "The benchmark's short name of what came out."),
        Column("evidence", pl.List(pl.String), "What the check saw, from the closed list EVIDENCE.", EVIDENCE),
        _f("score", "0 to 1, a fraction; null unless ok.", 0, 1),
        _b("passed", "score = 1; null unless ok."),
        _f("weighted_outcome", "(a - b) / a for mazes, at most 1, may be negative; null unless ok.", None, 1),
        _b("success", "The goal was reached; null unless ok."),
        _f("joint_share", "Joint points as a fraction of the best deal; conflict tasks only.", 0, 1),
        _i("maze_size", "Cells along a side."),
        _f("wall_density", "Walls as a fraction of cells asked for.", 0, 1),
        _i("path_length", "Shortest path from start to goal, in steps."),
        _i("relay_k", "Turns played before the swap."),
        _s("relay_kind", "primer or recovery.", ("primer", "recovery")),
        _s("prefix_run_id", "Run whose first turns a relay continues."),
        _i("rounds", "Rounds (teamwork) or turns (maze) played."),
        _i("messages", "Messages sent by agents."),
        _i("tool_calls", "Tool calls made by the model under test."),
        _i("tokens_in", "Prompt tokens of every seat, cached ones included; null when any is unknown."),
        _i("tokens_out", "Completion tokens of every seat, reasoning included; null when any is unknown."),
        _i("tokens_reasoning", "Reasoning tokens, part of tokens_out; null when not exposed."),
        _i("tokens_cached", "Cached prompt tokens, part of tokens_in; null when not exposed."),
        _f("cost_usd", "Cost of the model under test, USD; null when a price is unknown.", 0),
        _f("cost_usd_team", "Cost of every call of the rollout, USD; null when a price is unknown.", 0),
        _f("seconds", "Wall time from the first call to the last, pauses between sessions left out.", 0),
        Column("started_at", _UTC, "When the rollout started (UTC)."),
        Column("finished_at", _UTC, "When it finished (UTC)."),
        _s("spec_json", "The whole run spec as JSON."),
        _s("spec_hash", "Hash of spec_json with what does not enter the run id."),
        _s("code_version", "Version of cilab that played it."),
        _s("rule_version", "Version of the scoring rules."),
        _s("error", "One line on what went wrong; null unless error or refused."),
    ),
)

MESSAGES = Table(
    "messages",
    "One row per event of a rollout.",
    (
        _s("run_id", "The rollout.", required=True),
        _i("index", "Position in the rollout, from 0.", required=True),
        _i("round", "Round or turn, from 0."),
        _s(
            "kind",
            "message, tool_call, tool_result or notice.",
            ("message", "tool_call", "tool_result", "notice"),
            True,
        ),
        _s("seat", "Name of the seat that spoke.", required=True),
        _s("seat_kind", "What sits there.", SEAT_KINDS, required=True),
        _s("model", "Model in the seat; null for scripts and the environment."),
        _s("content", "The text, valid UTF-8."),
        _s("tool", "Name of the tool."),
        _s("tool_input_json", "Arguments of a tool call as JSON, as the model sent them."),
        _s("tool_output", "What the tool returned."),
        Column("delivered_to", pl.List(pl.String), "Seats that received it; empty when nobody did."),
        _i("tokens_in", "Prompt tokens of the call that made it."),
        _i("tokens_out", "Completion tokens of that call."),
        _f("cost_usd", "Cost of that call, USD; null when unknown.", 0),
    ),
)

CALLS = Table(
    "calls",
    "One row per model call. (run_id, purpose, seat, index) is unique.",
    (
        _s("run_id", "The rollout that was played, judged, graded or annotated.", required=True),
        _i("index", "Position among the calls of this purpose and job, from 0.", required=True),
        _s("seat", "Seat that called; for a grader or annotator its name and repeat.", required=True),
        _s("purpose", "What the call was for.", PURPOSES, required=True),
        _s("model_asked", "Model string asked for.", required=True),
        _s("model_returned", "Model string the provider answered with."),
        _s("system_fingerprint", "The provider's fingerprint of its configuration."),
        _s(
            "wire_json",
            "Messages and tools as sent, after normalisation. A prefix shared with an earlier call of the seat is "
            "stored once: {same_as, first, messages}; cilab.store.wire_messages puts it together.",
        ),
        _s("sampling_asked", "Sampling settings asked for, JSON."),
        _s("sampling_honoured", "Sampling settings sent to the provider, JSON."),
        _s("finish_reason", "stop, length, tool_calls, content_filter, or the typed error's kind."),
        _i("tokens_in", "Prompt tokens, cached ones included."),
        _i("tokens_out", "Completion tokens, reasoning included."),
        _i("tokens_reasoning", "Reasoning tokens, part of tokens_out."),
        _i("tokens_cached", "Cached prompt tokens, part of tokens_in."),
        _f("cost_usd", "Cost, USD; null when unknown.", 0),
        _f("latency_s", "Seconds from sending the successful (or last) request to its answer.", 0),
        _i("retries", "Requests beyond the first."),
        _s("error", "The typed error with which the call ended; null for an answer."),
    ),
)

LABELS = Table(
    "labels",
    "One row per judgement of a message.",
    (
        _s("run_id", "The rollout.", required=True),
        _i("index", "The message's position in the rollout.", required=True),
        _s("rater", "referee, second, third, final, person:N or a name.", required=True),
        _s("model", "Model that judged; null for people and for final."),
        _s("label", "The label; unparsed when the answer was none."),
        _s("reason", "The rater's words."),
        _b("gives_way", "The label means that the model gave way (from the task)."),
        _b("noticed", "The label means that the model noticed the problem (from the task)."),
    ),
)

ANNOTATIONS = Table(
    "annotations",
    "One row per annotated or regraded feature of a rollout.",
    (
        _s("run_id", "The rollout.", required=True),
        _s("annotator", "rules, or the model that annotated.", required=True),
        _i("repeat", "Number of the repeat, from 0.", required=True),
        _i("agent", "0 the pair, 1 the starter, 2 the follower.", required=True),
        _s("feature", "Name of the feature.", required=True),
        _f("value", "Its value; null when it could not be read off the answer."),
        _s("text", "The value in words, or the reason."),
    ),
)

REVIEWS = Table(
    "reviews",
    "A reader's verdict on a verdict.",
    (
        _s("run_id", "The rollout.", required=True),
        _s("reviewer", "Who read it.", required=True),
        _f("old_score", "Score before, 0 to 1.", 0, 1),
        _f("new_score", "Score after, 0 to 1.", 0, 1),
        _s("reason", "Why."),
        Column("at", _UTC, "When (UTC)."),
    ),
)

TASKS = Table(
    "tasks",
    "One row per task.",
    (
        _s("task_id", "The task.", required=True),
        _s("benchmark", "maze or teamwork.", required=True),
        _s("dimension", "Teamwork dimension; null for mazes."),
        _s("source_family", "Family of the source."),
        _b("real_world", "The source is a real record."),
        _s("split", "public or held_out.", ("public", "held_out")),
        _i("seats", "Seats at the table."),
        _i("rounds", "Most rounds (teamwork) or turns (maze)."),
        _b("sandbox", "The task has a scratch folder."),
        _b("executes_code", "The task runs code that the model wrote."),
        _s("version_hash", "Hash of the task's content.", required=True),
    ),
)

MODELS = Table(
    "models",
    "One row per known model (from cilab.core.registry).",
    (
        _s("model", "The name used in tables and figures.", required=True),
        _s("aliases", "Other names, separated by |."),
        _s("litellm", "LiteLLM's provider string, where known."),
        _s("builder", "Who made it."),
        _s("family", "Model family, for same-family and cross-family analyses."),
        _b("open_weights", "Weights are public; null where unknown."),
        _b("distilled", "Distilled from a larger model; null where unknown."),
        _b("system_prompt_flexible", "Takes a system prompt at any position (maze paper, table 1)."),
        _s(
            "strength",
            "strong, medium or weak (maze paper, appendix D.2); null where not assigned.",
            ("strong", "medium", "weak"),
        ),
        _s("effort_lightest", "Lightest reasoning setting of its API."),
        _s("effort_high", "High reasoning setting used by the paper."),
        Column("released", pl.Date, "Release date, where known."),
        _f("usd_per_mtok_in", "USD per million prompt tokens, where known.", 0),
        _f("usd_per_mtok_out", "USD per million completion tokens, where known.", 0),
        _f("usd_per_mtok_cached", "USD per million cached prompt tokens, where known.", 0),
        _s("studies", "Published studies it appears in, separated by |."),
        _s("note", "What is uncertain."),
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


def frame(name: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows as a checked data frame of table `name`; columns that a row leaves out are null.

    No value is cast to another type, except a whole number to a float. Lone surrogates in texts become U+FFFD.

    Raises
    ------
    TableError
        A row has a column that the table does not, or a value of another type; or as `check`.
    """
    table = TABLES[name]
    check_types(name, rows)
    try:
        df = pl.from_dicts(rows, schema=table.schema) if rows else empty(name)
    except UnicodeEncodeError:
        df = pl.from_dicts(valid_text(rows), schema=table.schema)
    except (pl.exceptions.PolarsError, TypeError, OverflowError, ValueError) as e:
        raise TableError(f"table {name}: {first_line(e)}") from None
    return check(name, df)


def check_types(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a row with an unknown column or a value of another type than its column.

    Polars would cast in silence: 1.5 to 1 in a column of whole numbers, a text to null in a list.

    Raises
    ------
    TableError
        Names the row (from 0), the column and the value.
    """
    known = _FITS[name]
    for i, row in enumerate(rows):
        for key, value in row.items():
            fits = known.get(key)
            if fits is None:
                stray = sorted(str(k) for k in row if k not in known)
                raise TableError(f"table {name}, row {i}: no column named {', '.join(stray)}")
            if value is not None and not fits[1](value):
                raise TableError(f"table {name}, row {i}: {key} is {_short(value)}, {fits[0]} is wanted")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_int(value: Any) -> bool:
    # Exact types first: an abstract base class is slow to ask, and rows are many.
    whole = type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))
    return whole and -(2**63) <= value < 2**63


def _is_float(value: Any) -> bool:
    return type(value) is float or (isinstance(value, numbers.Real) and not isinstance(value, bool))


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _is_date(value: Any) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime)


_KINDS: dict[Any, tuple[str, Any]] = {
    pl.String: ("text", _is_text),
    pl.Int64: ("a whole number of 64 bits", _is_int),
    pl.Float64: ("a number", _is_float),
    pl.Boolean: ("true or false", _is_bool),
    pl.List: ("a list of texts", _is_texts),
    pl.Datetime: ("a time with its zone", _is_time),
    pl.Date: ("a date", _is_date),
}
_FITS = {t.name: {c.name: _KINDS[c.dtype.base_type()] for c in t.columns} for t in TABLES.values()}


def _short(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def check(name: str, df: pl.DataFrame) -> pl.DataFrame:
    """`df` unchanged when it fits table `name`.

    Raises
    ------
    TableError
        A column is missing, unknown or of another type; a required value is null; a value is outside
        its closed list or its bounds, or is NaN or infinite; a rollout that is not ok has a score.
    """
    table = TABLES[name]
    problems = schema_problems(name, df.schema)
    if problems:
        raise TableError(f"table {name}: " + "; ".join(problems))
    if df.height == 0:
        return df
    for c in table.columns:
        problems += _value_problems(c, df[c.name])
    if name == "runs":
        problems += [
            f"{column} of a rollout that is not ok must be null"
            for column in _SCORED
            if (df[column].is_not_null() & (df["status"] != "ok")).any()
        ]
    if problems:
        raise TableError(f"table {name}: " + "; ".join(problems))
    return df


def _value_problems(c: Column, values: pl.Series) -> list[str]:
    if c.required and values.null_count():
        return [f"{values.null_count()} rows without {c.name}"]
    if values.null_count() == len(values):
        return []
    if c.allowed is not None:
        words = values.explode() if isinstance(c.dtype, pl.List) else values
        suspects = words.drop_nulls().unique().sort().to_list()
    elif c.dtype == pl.Float64 and not values.is_finite().all():
        suspects = [next(v for v in values if v is not None and not math.isfinite(v))]
    else:
        suspects = [values.max(), values.min()] if c.bounded else []
    return [problem for v in suspects if (problem := _misfit(c, v))][:1]


def _misfit(c: Column, value: Any) -> str | None:
    """Why one value (or, of a closed list, one word) does not fit its column; None when it does."""
    if c.allowed is not None:
        return None if value in c.allowed else f"{c.name} is {value!r}, not one of {', '.join(c.allowed)}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{c.name} is {value}; what is not known is null"
    if c.high is not None and value > c.high:
        guess = " (percentages must be divided by 100)" if c.low == 0 and c.high == 1 and value <= 100 else ""
        return f"{c.name} is {value}, above {c.high:g}{guess}"
    if c.low is not None and value < c.low:
        return f"{c.name} is {value}, below {c.low:g}"
    return None


_RULED = {
    t.name: [c for c in t.columns if c.required or c.allowed or c.bounded or c.dtype == pl.Float64]
    for t in TABLES.values()
}


def check_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """As `frame`, without making one: cheap enough for every rollout.

    Raises
    ------
    TableError
        Names the row (from 0), the column and the value.
    """
    check_types(name, rows)
    for i, row in enumerate(rows):
        problem = next((p for c in _RULED[name] if (p := _row_problem(c, row.get(c.name)))), None)
        if problem is None and name == "runs" and row["status"] != "ok":
            scored = next((c for c in _SCORED if row.get(c) is not None), None)
            problem = scored and f"{scored} of a rollout that is not ok must be null"
        if problem:
            raise TableError(f"table {name}, row {i}: {problem}")


def _row_problem(c: Column, value: Any) -> str | None:
    if value is None:
        return f"{c.name} is missing" if c.required else None
    if isinstance(value, list | tuple):
        return next((p for word in value if (p := _misfit(c, word))), None)
    return _misfit(c, value)


def schema_problems(name: str, schema: Mapping[str, Any]) -> list[str]:
    """What of a Polars schema does not fit table `name`, a phrase each; the order of columns does not matter."""
    table = TABLES[name]
    problems = []
    missing = [c.name for c in table.columns if c.name not in schema]
    unknown = [n for n in schema if n not in table.names]
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
