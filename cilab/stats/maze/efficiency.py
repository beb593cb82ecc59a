"""Communication efficiency: tokens a message, messages a rollout, and how agents adapt to a terse or verbose partner.

May import `cilab.core` and `cilab.stats`. Reads the messages of a study beside its runs. Thinking is no message:
where reasoning tokens are known they are taken off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level
from cilab.results.estimator import estimator
from cilab.results.numbers import Interval, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.maze import rows as maze_rows
from cilab.stats.maze.rows import Density
from cilab.stats.methods.distributions import share_interval
from cilab.stats.methods.hypothesis_tests import paired_t
from cilab.stats.methods.means import difference, mean_interval, z_of

#: Bands of figure D.5, lower end in, upper end out; a negative outcome is a fail, 1 a success.
BANDS = (
    ("Fail", -math.inf, 0.25),
    ("Partial Fail", 0.25, 0.5),
    ("Partial Success", 0.5, 0.75),
    ("Success", 0.75, math.inf),
)
TURN_CAP = "turn_cap"
_NO_TOKENS = "without token counts of every message"

_MEAN = dict.fromkeys(("mean", "se", "lo", "hi"), pl.Float64)
_TOKENS = {"agent": pl.String, "setting": pl.String, "n": pl.Int64, **_MEAN, "per_solution": pl.Float64}
_BAND = {"agent": pl.String, "setting": pl.String, "band": pl.String, "n": pl.Int64, "median": pl.Float64, **_MEAN}
_ADAPTATION = {
    "agent": pl.String,
    "partners": pl.String,
    "n_partners": pl.Int64,
    "n": pl.Int64,
    "own": pl.Float64,
    **_MEAN,
    "change": pl.Float64,
    "change_lo": pl.Float64,
    "change_hi": pl.Float64,
}
_CAP = {
    "agent": pl.String,
    "setting": pl.String,
    "group": pl.String,
    "n": pl.Int64,
    "at_cap": pl.Int64,
    **dict.fromkeys(("share", "lo", "hi"), pl.Float64),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class EfficiencyResult(Result):
    """How many tokens and messages pairs of agents need.

    Attributes
    ----------
    table : tokens a message (figure D.4 a): one row per agent and setting (`homogeneous`, `heterogeneous`): `n`
        rollouts, and mean, standard error and interval over rollouts of the agent's median tokens a message;
        `per_solution`, the paper's efficiency: the mean over rollouts with an outcome from 0.75 on of the median
        tokens a message times the messages of the rollout.
    messages : messages a rollout by outcome band (figure D.5): one row per agent, setting and band: `n`, `median`,
        `mean, se, lo, hi`. A heterogeneous rollout counts for both of its agents.
    adaptation : figure D.4 b: per agent and kind of partner (`more efficient`, `less efficient`: partners that use
        fewer or more tokens with copies of themselves): tokens a message, and `change` from the agent's own
        homogeneous level.
    adaptation_overall : mean change over agents by kind of partner, with interval and paired t, and the difference.
    cap : rollouts that hit the turn limit, of all and of the failures (outcome below 0.25): counts and share with
        Wilson's interval. Row `all` is the whole.
    statements : what the numbers say, in sentences.
    """

    messages: pl.DataFrame
    adaptation: pl.DataFrame
    adaptation_overall: pl.DataFrame
    cap: pl.DataFrame
    statements: tuple[str, ...]

    figure: ClassVar[str | None] = "efficiency"
    title: ClassVar[str] = "Communication efficiency"

    def sheet(self) -> Sheet:
        """One line per agent: tokens a message alone with copies and with others, messages by band with copies."""
        tokens = {(r["agent"], r["setting"]): r for r in self.table.iter_rows(named=True)}
        bands = {(r["agent"], r["setting"], r["band"]): r for r in self.messages.iter_rows(named=True)}
        lines = []
        for agent in sorted({a for a, _ in tokens} | {a for a, _, _ in bands}):
            line = {"Agent": agent}
            for setting in ("homogeneous", "heterogeneous"):
                line[f"Tokens/message, {setting}"] = _mean(tokens.get((agent, setting)))
            for band, _, _ in BANDS:
                line[f"Messages, {band}"] = _mean(bands.get((agent, "homogeneous", band)))
            lines.append(line)
        return self.on_sheet(lines)

    def notes(self) -> list[str]:
        """What the numbers say, then what was used and left out."""
        return [*self.statements, *super().notes()]


def _mean(row: dict[str, Any] | None) -> str:
    """One decimal: tokens and messages are large."""
    return Interval.of(row, "mean", "lo", "hi").half()


@estimator
def efficiency(
    data: Any,
    *,
    maze_size: int | None = None,
    wall_density: Density = None,
    arm: str | None = None,
    ci_level: Level = CI_LEVEL,
) -> EfficiencyResult:
    """Tokens a message, messages a rollout, adaptation to the partner, and how often the turn limit ended a rollout.

    Parameters
    ----------
    data : an opened study or a data set with `runs` and `messages`.
    maze_size, wall_density, arm, ci_level : as in `cilab.stats.maze.pairs.pairs`.

    Returns
    -------
    EfficiencyResult
        Pairs only. A rollout in which a message of an agent has no token count is left out of that agent's tokens and
        counted (`n_left_out` names it when no token is known at all); its messages count.

    Raises
    ------
    TableError
        No pair in the data, or no messages.

    References
    ----------
    Collaboration-gap paper, appendix D.5, figures D.4 and D.5.
    """
    z = z_of(ci_level)
    found = maze_rows.read_maze_rows(
        data,
        outcome="weighted_outcome",
        versions=("pair",),
        what="rollout of a pair of agents in a maze",
        fixed={"maze_size": maze_size, "wall_density": wall_density, "arm": arm},
        optional=("messages", "ended"),
    )
    used = found.used.with_columns(
        pl.when(pl.col("first") == pl.col("second"))
        .then(pl.lit("homogeneous"))
        .otherwise(pl.lit("heterogeneous"))
        .alias("setting")
    )
    seats = _seats(used)
    tokens = _medians(data, seats)
    table = _tokens(tokens, z)
    adaptation = _adaptation(tokens, table, z)
    overall = _overall(adaptation, ci_level)
    messages, cap = _messages(seats, z), _caps(used, seats, ci_level)
    unknown = used.height - tokens["run_id"].n_unique()
    notes = [f"{unknown:,} rollouts are {_NO_TOKENS}; their messages count."] if unknown else []
    return EfficiencyResult(
        table=table,
        messages=messages,
        adaptation=adaptation,
        adaptation_overall=overall,
        cap=cap,
        statements=(*_statements(table, messages, overall, cap), *notes),
        n_used=used.height,
        n_left_out=found.left_out,
        provenance=found.provenance,
        parameters=found.kept,
        caption=f"Mean ± half the {percent(ci_level)} interval ({z:.2f} standard errors) over rollouts, of the agent's "
        f"median tokens a message and of the messages a rollout by outcome band, in {found.maze_words()}.",
    )


def _seats(used: pl.DataFrame) -> pl.DataFrame:
    """One row per rollout and agent's seat."""
    columns = ("run_id", "setting", "value", "messages", "ended")
    one = used.select(*columns, pl.lit("1").alias("seat"), agent=pl.col("first"), partner=pl.col("second"))
    two = used.select(*columns, pl.lit("2").alias("seat"), agent=pl.col("second"), partner=pl.col("first"))
    return pl.concat([one, two])


def _medians(data: Any, seats: pl.DataFrame) -> pl.DataFrame:
    """Median tokens a message of each rollout and agent; both seats of a homogeneous pair are one agent."""
    lazy = getattr(data, "messages", None)
    if not isinstance(lazy, pl.LazyFrame):
        raise TableError(f"messages: needs an opened study or a data set with messages, not {type(data).__name__}")
    ids = seats["run_id"].unique().to_list()
    said = (
        lazy.filter(pl.col("run_id").is_in(ids) & (pl.col("kind") == "message") & pl.col("seat").is_in(["1", "2"]))
        .select("run_id", "seat", "index", "tokens_out")
        .collect()
    )
    if said.is_empty():
        raise TableError("messages: none of these rollouts; efficiency needs the dialogues")
    said = _without_thinking(data, said, ids).join(seats, on=["run_id", "seat"])
    grouped = said.group_by("run_id", "agent", "setting").agg(
        pl.col("partner", "value", "messages").first(),
        pl.col("tokens").median(),
        pl.col("tokens").null_count().alias("unknown"),
    )
    return grouped.filter(pl.col("unknown") == 0).drop("unknown").sort("agent", "run_id")


def _without_thinking(data: Any, said: pl.DataFrame, ids: list[str]) -> pl.DataFrame:
    """`tokens` of each message without its reasoning tokens, where the calls say how many those were.

    The n-th last message of a seat is its n-th last answered call; the first ones of a relay have no call of their own.
    """
    calls = getattr(data, "calls", None)
    from_end = pl.col("index").rank("ordinal", descending=True).over("run_id", "seat").alias("from_end")
    said = said.with_columns(from_end, pl.lit(None, pl.Int64).alias("tokens_reasoning"))
    if isinstance(calls, pl.LazyFrame):
        wanted = pl.col("run_id").is_in(ids) & (pl.col("purpose") == "play") & pl.col("error").is_null()
        thought = calls.filter(wanted).select("run_id", "seat", "index", "tokens_reasoning").collect()
        thought = thought.with_columns(from_end).drop("index")
        said = said.drop("tokens_reasoning").join(thought, on=["run_id", "seat", "from_end"], how="left")
    visible = pl.col("tokens_out") - pl.col("tokens_reasoning").fill_null(0)
    return said.select("run_id", "seat", visible.cast(pl.Float64).alias("tokens"))


def _tokens(tokens: pl.DataFrame, z: float) -> pl.DataFrame:
    rows = []
    for (agent, setting), part in sorted(tokens.partition_by("agent", "setting", as_dict=True).items()):
        solved = part.filter(pl.col("value") >= BANDS[-1][1])
        product = (solved["tokens"] * solved["messages"]).drop_nulls().sort()
        numbers = mean_interval(part["tokens"].to_list(), z)
        rows.append({"agent": agent, "setting": setting, **numbers, "per_solution": product.mean()})
    return pl.DataFrame(rows, schema=_TOKENS)


def _adaptation(tokens: pl.DataFrame, table: pl.DataFrame, z: float) -> pl.DataFrame:
    """Tokens of each agent with partners that use fewer or more tokens than it does, each with copies of itself."""
    own = {r["agent"]: r for r in table.filter(pl.col("setting") == "homogeneous").iter_rows(named=True)}
    mixed = tokens.filter(pl.col("setting") == "heterogeneous")
    rows = []
    for (agent,), part in sorted(mixed.partition_by("agent", as_dict=True).items()):
        if agent not in own:
            continue
        level = own[agent]["mean"]
        partners_by_kind = {
            "more efficient": [p for p in sorted(part["partner"].unique()) if p in own and own[p]["mean"] < level],
            "less efficient": [p for p in sorted(part["partner"].unique()) if p in own and own[p]["mean"] > level],
        }
        for words, partners in partners_by_kind.items():
            if not partners:
                continue
            values = part.filter(pl.col("partner").is_in(partners))["tokens"].to_list()
            numbers = mean_interval(values, z)
            change = difference(numbers, own[agent], z)
            rows.append(
                {"agent": agent, "partners": words, "n_partners": len(partners), "own": level, **numbers}
                | {"change": change["diff"], "change_lo": change["lo"], "change_hi": change["hi"]}
            )
    return pl.DataFrame(rows, schema=_ADAPTATION)


def _overall(adaptation: pl.DataFrame, ci_level: float) -> pl.DataFrame:
    """The change over agents, each agent once."""
    change = {
        words: dict(adaptation.filter(pl.col("partners") == words).select("agent", "change").rows())
        for words in ("more efficient", "less efficient")
    }
    tests = {words: paired_t(list(values.values()), ci_level=ci_level) for words, values in change.items()}
    more, less = change.values()
    both = sorted(set(more) & set(less))
    tests["less - more efficient"] = paired_t([less[a] for a in both], [more[a] for a in both], ci_level=ci_level)
    rows = [
        {"partners": words, "n_agents": t.n, "change": t.estimate, "lo": t.lo, "hi": t.hi, "p": t.p, "reason": t.reason}
        for words, t in tests.items()
    ]
    numbers = dict.fromkeys(("change", "lo", "hi", "p"), pl.Float64)
    return pl.DataFrame(rows, schema={"partners": pl.String, "n_agents": pl.Int64, **numbers, "reason": pl.String})


def _messages(seats: pl.DataFrame, z: float) -> pl.DataFrame:
    """Messages a rollout; the two seats of a homogeneous rollout are one agent."""
    rollouts = seats.unique(["run_id", "agent"]).filter(pl.col("messages").is_not_null())
    rows = []
    for (agent, setting), part in sorted(rollouts.partition_by("agent", "setting", as_dict=True).items()):
        for band, low, high in BANDS:
            inside = part.filter((pl.col("value") >= low) & (pl.col("value") < high))["messages"]
            if inside.len():
                numbers = mean_interval(inside.cast(pl.Float64).to_list(), z)
                rows.append({"agent": agent, "setting": setting, "band": band, "median": inside.median(), **numbers})
    return pl.DataFrame(rows, schema=_BAND)


def _caps(used: pl.DataFrame, seats: pl.DataFrame, ci_level: float) -> pl.DataFrame:
    """Who hit the turn limit, of all rollouts and of the failures."""
    rows = []
    parts = [(("all", "all"), used)]
    parts += sorted(seats.unique(["run_id", "agent"]).partition_by("agent", "setting", as_dict=True).items())
    for (agent, setting), part in parts:
        known = part.filter(pl.col("ended").is_not_null())
        for group, rollouts in (("all rollouts", known), ("failures", known.filter(pl.col("value") < BANDS[0][2]))):
            hit = rollouts.filter(pl.col("ended") == TURN_CAP).height
            share = _share(hit, rollouts.height, ci_level)
            rows.append(
                {"agent": agent, "setting": setting, "group": group, "n": rollouts.height, "at_cap": hit, **share}
            )
    return pl.DataFrame(rows, schema=_CAP)


def _share(hits: int, n: int, ci_level: float) -> dict[str, float | None]:
    if n == 0:
        return {"share": None, "lo": None, "hi": None}
    lo, hi = share_interval(hits, n, ci_level, method="wilson")
    return {"share": hits / n, "lo": lo, "hi": hi}


def _statements(table: pl.DataFrame, messages: pl.DataFrame, overall: pl.DataFrame, cap: pl.DataFrame) -> list[str]:
    out = []
    own = table.filter(pl.col("setting") == "homogeneous")
    if own.height:
        short = own.filter(pl.col("mean") < 100).height
        out.append(f"{short} of {own.height} agents use under 100 tokens a message with copies of themselves.")
    same = (
        messages.filter(pl.col("setting") == "homogeneous")
        .group_by("agent")
        .agg((pl.col("mean") * pl.col("n")).sum() / pl.col("n").sum())
    )
    if same.height:
        inside = same.filter(pl.col("mean").is_between(20, 40)).height
        out.append(f"{inside} of {same.height} agents need 20 to 40 messages a rollout with copies of themselves.")
    gap = overall.row(by_predicate=pl.col("partners") == "less - more efficient", named=True)
    if gap["change"] is not None:
        p = "" if gap["p"] is None else f" (paired t over {gap['n_agents']} agents, p = {gap['p']:.2g})"
        ends = Interval.of(gap, "change", "lo", "hi", digits=2).ends()
        out.append(
            f"Agents use {ends} more tokens a message with a less efficient partner than with a more efficient one{p}."
        )
    whole = cap.row(by_predicate=(pl.col("agent") == "all") & (pl.col("group") == "failures"), named=True)
    if whole["share"] is not None:
        share = f"{100 * whole['share']:.0f} % [{100 * whole['lo']:.0f}, {100 * whole['hi']:.0f}]"
        out.append(f"{share} of the failures hit the turn limit ({whole['at_cap']} of {whole['n']}).")
    return out
