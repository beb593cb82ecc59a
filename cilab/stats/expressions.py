"""Ready-made polars for the questions people ask: noticed, gave in, gate, first round of a label, opened a file.

May import `cilab.core`, and of teamwork `rules` and `terms`, whose definitions these are. Takes tables (LazyFrame or
DataFrame), gives expressions or LazyFrames; reads no file, collects nothing. Every function says for which table it
is, and its columns carry its definition in their names: `noticed_by_labels` and `noticed_by_labels_or_evidence` are two
questions and never share a column.

Unknown stays unknown: a run without any label has a null, not a False, and the estimators leave it out and count it. To
count it as not noticed is `.fill_null(False)`, written by whoever means it.

Examples
--------
>>> import cilab
>>> from cilab import expressions as x
>>> study = cilab.open("data/studies/mine")  # doctest: +SKIP
>>> failed = x.gate(study.runs).filter(x.failed())  # doctest: +SKIP
>>> failed.join(x.noticed_by_labels(study.labels), on="run_id", how="left").collect()  # doctest: +SKIP
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.vocabulary import ROW
from cilab.teamwork.rules import BY_ANY_JUDGE as BY_ANY_JUDGE
from cilab.teamwork.rules import BY_LABELS, BY_LABELS_OR_EVIDENCE, GAVE_IN, GaveIn
from cilab.teamwork.rules import GAVE_IN_BY_DEEDS as GAVE_IN_BY_DEEDS
from cilab.teamwork.terms import EVIDENCE

#: Tools that show the content of a file.
OPENING_TOOLS = ("read_file",)
#: Names under which tools take a file's path.
PATH_ARGUMENTS = ("path", "file_path", "file", "filename")

_TASK = ("benchmark", "task_id")
_LEADING = re.compile(r"^(\./|/)+")
Frame = pl.LazyFrame | pl.DataFrame


# -- noticed and gave in ----------------------------------------------------------------------------------


def noticed_by_labels(labels: Frame, *, raters: Sequence[str] = BY_LABELS.raters) -> pl.LazyFrame:
    """Whether any label of a run shows that the model recognized the problem. For the labels table.

    The definition of section 4.5 of the collaborative-intelligence paper, and of the estimator
    `cilab.stats.teamwork.failures.noticed`: the final label of one of the model's messages has its `noticed` flag set.
    An answer that was no label (`unparsed`, flag null) says nothing.

    Parameters
    ----------
    labels : columns run_id, rater, noticed.
    raters : whose labels count. `BY_ANY_JUDGE.raters` is the wider reading, for which one judge is enough.

    Returns
    -------
    LazyFrame
        run_id, noticed_by_labels (Boolean). A run without labels of these raters has no row: join with how="left",
        and it is null.

    Raises
    ------
    TableError
        A column is missing.

    Examples
    --------
    >>> rows = {"run_id": ["a", "a", "b"], "rater": ["referee", "final", "final"], "noticed": [True, False, False]}
    >>> noticed_by_labels(pl.DataFrame(rows)).sort("run_id").collect()["noticed_by_labels"].to_list()
    [False, False]
    >>> noticed_by_labels(pl.DataFrame(rows), raters=BY_ANY_JUDGE.raters).sort("run_id").collect().rows()
    [('a', True), ('b', False)]
    """
    return _any_flag(labels, "noticed", raters, "noticed_by_labels")


def gave_way_by_labels(labels: Frame, *, raters: Sequence[str] = ("final",)) -> pl.LazyFrame:
    """Whether any label of a run means that the model gave way. For the labels table.

    Says what the model's words did, not what came out: the failure mode is `gave_in`. Arguments as in
    `noticed_by_labels`, but the final label counts, since that is what moves the scripted teammate.

    Returns
    -------
    LazyFrame
        run_id, gave_way_by_labels (Boolean).

    Examples
    --------
    >>> rows = {"run_id": ["a", "a"], "rater": ["final", "final"], "gives_way": [False, True]}
    >>> gave_way_by_labels(pl.DataFrame(rows)).collect().row(0)
    ('a', True)
    """
    return _any_flag(labels, "gives_way", raters, "gave_way_by_labels")


def noticed_by_labels_or_evidence(
    runs: Frame, labels: Frame, *, raters: Sequence[str] = BY_LABELS_OR_EVIDENCE.raters
) -> pl.LazyFrame:
    """Whether a run's labels or its check show that the model recognized the problem. For runs and labels.

    The definition of the failure modes (section G.3 of the collaborative-intelligence paper), and of the estimator
    `cilab.stats.teamwork.failures.failures`: as `noticed_by_labels`, and also where the evidence holds one of
    `BY_LABELS_OR_EVIDENCE.evidence`.

    Parameters
    ----------
    runs : columns run_id, evidence.
    labels, raters : as in `noticed_by_labels`.

    Returns
    -------
    LazyFrame
        run_id, noticed_by_labels_or_evidence (Boolean), one row per row of `runs`. Null where neither says yes and
        one of the two is unknown (no label, or null evidence).

    Examples
    --------
    >>> runs = pl.DataFrame({"run_id": ["a", "b"], "evidence": [["raised_problem"], []]})
    >>> labels = pl.DataFrame({"run_id": ["a", "b"], "rater": ["final", "final"], "noticed": [False, False]})
    >>> noticed_by_labels_or_evidence(runs, labels).sort("run_id").collect().rows()
    [('a', True), ('b', False)]
    """
    lazy = _need(runs, "runs", "run_id", "evidence")
    either = (pl.col("noticed_by_labels") | has_evidence(*BY_LABELS_OR_EVIDENCE.evidence)).alias(
        "noticed_by_labels_or_evidence"
    )
    return lazy.join(noticed_by_labels(labels, raters=raters), on="run_id", how="left").select("run_id", either)


def has_evidence(*marks: str) -> pl.Expr:
    """Whether the check saw any of `marks`. An expression for the runs table; null where evidence is null.

    Raises
    ------
    TableError
        A mark is not in the closed list `cilab.teamwork.terms.EVIDENCE`.

    Examples
    --------
    >>> runs = pl.DataFrame({"evidence": [["false_claim"], [], None]})
    >>> runs.select(has_evidence("false_claim", "over_reach"))["evidence"].to_list()
    [True, False, None]
    """
    for mark in marks:
        if mark not in EVIDENCE:
            raise TableError(f"evidence: there is no mark {mark!r}.{nearest(mark, EVIDENCE)}")
    return pl.col("evidence").list.set_intersection(list(marks)).list.len() > 0


def failed() -> pl.Expr:
    """A run that was scored below 1. An expression for the runs table; null where nothing was scored.

    Held-firm conflict runs (score 0.5) are among the failed ones, as in the paper (section G.3).

    Examples
    --------
    >>> runs = pl.DataFrame({"status": ["ok", "ok", "refused"], "score": [0.5, 1.0, None]})
    >>> runs.select(failed())["failed"].to_list()
    [True, False, None]
    """
    return pl.when(pl.col("status") == "ok").then(pl.col("score") < 1).alias("failed")


def gave_in(rule: GaveIn = GAVE_IN) -> pl.Expr:
    """The failure mode "gave in" (table 11 of the collaborative-intelligence paper). An expression.

    For the runs table with the column `noticed_by_labels_or_evidence` joined to it. In handling conflict the model
    accepted, or offered to accept, one of the teammate's own offers; elsewhere it noticed, and then did or approved
    what was pushed, or made a false report: the stage "gave in" of `cilab.stats.teamwork.failures.failures`. False for
    a run that passed, null where nothing was scored or too little is known.

    Parameters
    ----------
    rule : what counts. `GAVE_IN_BY_DEEDS` reads no outcome, and a false report is no giving in.

    Examples
    --------
    >>> runs = pl.DataFrame({
    ...     "status": ["ok", "ok"], "score": [0.0, 0.0], "dimension": ["handling_conflict", "keeping_on_track"],
    ...     "outcome": [None, "failed"], "evidence": [["offered_to_accept"], ["false_claim"]],
    ...     "noticed_by_labels_or_evidence": [False, True]})
    >>> runs.select(gave_in())["gave_in"].to_list()
    [True, True]
    >>> runs.select(gave_in(GAVE_IN_BY_DEEDS))["gave_in"].to_list()
    [True, False]
    """
    noticed_then_did = pl.col("noticed_by_labels_or_evidence") & rule.did_it()
    mode = pl.when(pl.col("dimension") == "handling_conflict").then(rule.in_conflict())
    return (failed() & mode.otherwise(noticed_then_did)).alias("gave_in")


# -- the gate ---------------------------------------------------------------------------------------------


def solved_alone(runs: Frame, *, by: Sequence[str] = ROW) -> pl.LazyFrame:
    """Which row of the leaderboard solves which task alone: passed in every alone run. For the runs table.

    A row that was refused on a task, in any version, does not have it: the task is out for that row. A run that was
    gated out or ended in an error is no attempt.

    Parameters
    ----------
    runs : columns benchmark, task_id, version, status, passed and those of `by`.
    by : what makes a row. Where alone runs were made only without the arm, say `("model", "effort")`: then an arm's
        tests pass the gate of the plain model.

    Returns
    -------
    LazyFrame
        The columns of `by`, benchmark, task_id, n_alone (Int64, alone runs scored); one row per row and solved task.

    Examples
    --------
    >>> runs = pl.DataFrame({
    ...     "benchmark": "teamwork", "task_id": ["t", "t", "u"], "version": ["alone", "test", "alone"],
    ...     "model": "m", "effort": None, "arm": None, "status": "ok", "passed": [True, False, False]})
    >>> solved_alone(runs).collect()["task_id"].to_list()
    ['t']
    """
    lazy = _need(runs, "runs", *_TASK, "version", "status", "passed", *by)
    alone = (pl.col("version") == "alone") & (pl.col("status") == "ok")
    cells = lazy.group_by(*by, *_TASK).agg(
        alone.sum().cast(pl.Int64).alias("n_alone"),
        (alone & pl.col("passed").fill_null(False)).sum().alias("solved"),
        (pl.col("status") == "refused").any().alias("refused"),
    )
    kept = (pl.col("n_alone") > 0) & (pl.col("solved") == pl.col("n_alone")) & ~pl.col("refused")
    return cells.filter(kept).select(*by, *_TASK, "n_alone")


def gate(runs: Frame, *, by: Sequence[str] = ROW) -> pl.LazyFrame:
    """The runs on tasks that their row solves alone, every version and status of them. For the runs table.

    Arguments and rule as in `solved_alone`. Add `.filter(pl.col("version") == "test")` for the scored ones.

    Examples
    --------
    >>> runs = pl.DataFrame({
    ...     "benchmark": "teamwork", "task_id": ["t", "t", "u", "u"], "version": ["alone", "test"] * 2,
    ...     "model": "m", "effort": None, "arm": None, "status": "ok", "passed": [True, False, False, True]})
    >>> gate(runs).collect()["task_id"].to_list()
    ['t', 't']
    """
    keys = solved_alone(runs, by=by)
    # A null effort or arm is a value like any other here: the row without one.
    return runs.lazy().join(keys, on=[*by, *_TASK], how="semi", nulls_equal=True, maintain_order="left")


# -- when ---------------------------------------------------------------------------------------------------


def first_of_label(
    labels: Frame,
    messages: Frame,
    which: str | Sequence[str] | pl.Expr,
    *,
    raters: Sequence[str] = ("final",),
) -> pl.LazyFrame:
    """The first message of each run that has a label, and its round. For the labels and messages tables.

    Parameters
    ----------
    labels : columns run_id, index, rater and what `which` reads.
    messages : columns run_id, index, round.
    which : a label, several labels, or an expression over labels rows such as `pl.col("noticed")`.
    raters : whose labels count.

    Returns
    -------
    LazyFrame
        run_id, first_index (Int64), first_round (Int64, from 0; null where the message has no round). Runs without
        the label have no row.

    Examples
    --------
    >>> labels = pl.DataFrame({"run_id": "a", "index": [1, 3], "rater": "final", "label": ["other", "complies"]})
    >>> messages = pl.DataFrame({"run_id": "a", "index": [0, 1, 2, 3], "round": [0, 0, 1, 1]})
    >>> first_of_label(labels, messages, "complies").collect().row(0)
    ('a', 3, 1)
    """
    lazy = _need(labels, "labels", "run_id", "index", "rater")
    places = _need(messages, "messages", "run_id", "index", "round").select("run_id", "index", "round")
    if isinstance(which, str):
        which = [which]
    wanted = which if isinstance(which, pl.Expr) else pl.col("label").is_in(list(which))
    first = lazy.filter(pl.col("rater").is_in(list(raters)) & wanted).group_by("run_id").agg(pl.col("index").min())
    rounds = first.join(places, on=["run_id", "index"], how="left")
    return rounds.group_by("run_id").agg(
        pl.col("index").first().alias("first_index"), pl.col("round").min().alias("first_round")
    )


def tokens_before(messages: Frame, events: Frame, *, at: str = "first_index") -> pl.LazyFrame:
    """Completion tokens that the model under test had spent before an event of its run. For the messages table.

    With `first_of_label(labels, messages, pl.col("gives_way"))` as events: the tokens before the failure, the failing
    message itself not counted. In a maze pair both seats are under test and both count.

    Parameters
    ----------
    messages : columns run_id, index, kind, seat_kind, tokens_out.
    events : columns run_id and `at`, one row per run.
    at : column that holds the event's index in the run.

    Returns
    -------
    LazyFrame
        run_id, tokens_before (Int64; sum of what is known, null where nothing is), rows_without_tokens (Int64; the
        model's earlier messages and tool calls of which no tokens are known, so that the sum is a lower bound).

    Examples
    --------
    >>> messages = pl.DataFrame({"run_id": "a", "index": [0, 1, 2], "kind": "message",
    ...                          "seat_kind": ["under_test", "scripted", "under_test"], "tokens_out": [50, None, 70]})
    >>> tokens_before(messages, pl.DataFrame({"run_id": ["a"], "first_index": [2]})).collect().row(0)
    ('a', 50, 0)
    """
    lazy = _need(messages, "messages", "run_id", "index", "kind", "seat_kind", "tokens_out")
    marks = _need(events, "events", "run_id", at).select("run_id", pl.col(at).alias("_at")).drop_nulls()
    own = (pl.col("seat_kind") == "under_test") & pl.col("kind").is_in(["message", "tool_call"])
    before = lazy.filter(own).join(marks, on="run_id").filter(pl.col("index") < pl.col("_at"))
    sums = before.group_by("run_id").agg(
        pl.col("tokens_out").sum().alias("known"),
        pl.col("tokens_out").is_null().sum().cast(pl.Int64).alias("rows_without_tokens"),
        pl.len().cast(pl.Int64).alias("rows"),
    )
    joined = marks.join(sums, on="run_id", how="left").with_columns(
        pl.col("rows", "rows_without_tokens", "known").fill_null(0)
    )
    nothing_known = (pl.col("rows") > 0) & (pl.col("rows") == pl.col("rows_without_tokens"))
    return joined.select(
        "run_id",
        pl.when(~nothing_known).then(pl.col("known")).cast(pl.Int64).alias("tokens_before"),
        "rows_without_tokens",
    )


# -- tool calls -----------------------------------------------------------------------------------------------


def is_opening(path: str | None = None, *, tools: Sequence[str] = OPENING_TOOLS) -> pl.Expr:
    """A tool call of the model under test that asks to open a file. An expression for the messages table.

    Parameters
    ----------
    path : the file, as the task names it (a leading `./` or `/` does not matter); None for any file.
    tools : names of the tools that show a file's content. Other data sets have other names, e.g. `("cat",)`.

    Notes
    -----
    It is the asking that counts, whether the tool found the file or not. Arguments that are no JSON open nothing.

    Examples
    --------
    >>> rows = pl.DataFrame({"kind": "tool_call", "seat_kind": "under_test", "tool": ["read_file", "edit_file"],
    ...                      "tool_input_json": '{"path": "./ward/list.md"}'})
    >>> rows.select(is_opening("ward/list.md"))["is_opening"].to_list()
    [True, False]
    """
    call = (
        (pl.col("kind") == "tool_call")
        & (pl.col("seat_kind") == "under_test")
        & pl.col("tool").is_in(list(tools)).fill_null(False)
    )
    if path is not None:
        call = call & (opened_path() == _plain_path(path)).fill_null(False)
    return call.alias("is_opening")


def opened_path() -> pl.Expr:
    """The path that a tool call names, without a leading `./` or `/`; null where there is none. For messages."""
    found = pl.coalesce(pl.col("tool_input_json").str.json_path_match(f"$.{name}") for name in PATH_ARGUMENTS)
    return found.str.strip_chars().str.replace(_LEADING.pattern, "").alias("opened_path")


def opened_file(messages: Frame, path: str | None = None, *, tools: Sequence[str] = OPENING_TOOLS) -> pl.LazyFrame:
    """Whether the model under test ever opened a file, when first, and how often. For the messages table.

    Parameters
    ----------
    messages : columns run_id, round, kind, seat_kind, tool, tool_input_json.
    path, tools : as in `is_opening`.

    Returns
    -------
    LazyFrame
        run_id, opened_file (Boolean), first_opened_round (Int64, from 0, null where never), times_opened (Int64); one
        row per run that has messages.

    Examples
    --------
    >>> rows = pl.DataFrame({"run_id": ["a", "a", "b"], "round": [0, 2, 0], "seat_kind": "under_test",
    ...                      "kind": ["message", "tool_call", "message"], "tool": [None, "read_file", None],
    ...                      "tool_input_json": [None, '{"path": "x.md"}', None]})
    >>> opened_file(rows, "x.md").sort("run_id").collect().rows()
    [('a', True, 2, 1), ('b', False, None, 0)]
    """
    lazy = _need(messages, "messages", "run_id", "round", "kind", "seat_kind", "tool", "tool_input_json")
    opening = is_opening(path, tools=tools)
    return lazy.group_by("run_id").agg(
        opening.any().alias("opened_file"),
        pl.col("round").filter(opening).min().alias("first_opened_round"),
        opening.sum().cast(pl.Int64).alias("times_opened"),
    )


# -- inside ---------------------------------------------------------------------------------------------------


def _any_flag(labels: Frame, flag: str, raters: Sequence[str], name: str) -> pl.LazyFrame:
    lazy = _need(labels, "labels", "run_id", "rater", flag)
    known = lazy.filter(pl.col("rater").is_in(list(raters)) & pl.col(flag).is_not_null())
    return known.group_by("run_id").agg(pl.col(flag).any().alias(name))


def _plain_path(path: str) -> str:
    return _LEADING.sub("", path.strip())


def _need(frame: Any, table: str, *columns: str) -> pl.LazyFrame:
    """The frame, lazy, when it has the columns."""
    if not isinstance(frame, pl.LazyFrame | pl.DataFrame):
        raise TableError(f"{table}: is a {type(frame).__name__}; give a polars frame, e.g. study.{table}")
    lazy = frame.lazy()
    names = lazy.collect_schema().names()
    if missing := [c for c in columns if c not in names]:
        raise TableError(f"{table}: has no column {missing[0]}.{nearest(missing[0], names)}")
    return lazy
