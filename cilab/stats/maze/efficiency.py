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
from cilab.results.arguments import Column, Level
from cilab.results.estimator import estimator
from cilab.results.numbers import Interval
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.maze import rows as maze_rows
from cilab.stats.maze.rows import Density, bare, interval_notes
from cilab.stats.methods.distributions import share_interval
from cilab.stats.methods.means import Units, clustered_contrast, clustered_mean, mean_over
from cilab.stats.methods.uncertainty import too_few

#: Bands of figure D.5, lower end in, upper end out; a negative outcome is a fail, 1 a success.
BANDS = (
    ("Fail", -math.inf, 0.25),
    ("Partial Fail", 0.25, 0.5),
    ("Partial Success", 0.5, 0.75),
    ("Success", 0.75, math.inf),
)
TURN_CAP = "turn_cap"
_NO_TOKENS = "without token counts of every message"

_BEHIND = {"n_clusters": pl.Int64, "no_interval": pl.String}
_MEAN = {**dict.fromkeys(("mean", "se", "lo", "hi"), pl.Float64), **_BEHIND}
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
    "change_n_clusters": pl.Int64,
    "change_no_interval": pl.String,
}
_CAP = {
    "agent": pl.String,
    "setting": pl.String,
    "group": pl.String,
    "n": pl.Int64,
    "at_cap": pl.Int64,
    **dict.fromkeys(("share", "lo", "hi"), pl.Float64),
    **_BEHIND,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class EfficiencyResult(Result):
    """How many tokens and messages pairs of agents need.

    Attributes
    ----------
    table : tokens a message (figure D.4 a): one row per agent and setting (`homogeneous`, `heterogeneous`): `n`
        rollouts, and mean, standard error and interval of the agent's median tokens a message, `n_clusters` (mazes, or
        what `cluster` names, behind the interval), `no_interval` (why there is none); `per_solution`, the paper's
        efficiency: the mean over rollouts with an outcome from 0.75 on of the median tokens a message times the
        messages of the rollout.
    messages : messages a rollout by outcome band (figure D.5): one row per agent, setting and band: `n`, `median`,
        `mean, se, lo, hi, n_clusters, no_interval`. A heterogeneous rollout counts for both of its agents.
    adaptation : figure D.4 b: per agent and kind of partner (`more efficient`, `less efficient`: partners that use
        fewer or more tokens with copies of themselves): tokens a message, and `change` from the agent's own
        homogeneous level, paired by maze, with its interval.
    adaptation_overall : mean change over agents by kind of partner, with its interval and p (t over agents), and the
        difference.
    cap : rollouts that hit the turn limit, of all and of the failures (outcome below 0.25): counts and share with the
        score interval over mazes. Row `all` is the whole.
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
        """What the numbers say, what has no interval, then what was used and left out."""
        gone = {"means": [*self.table["no_interval"], *self.messages["no_interval"]]}
        gone["changes"] = self.adaptation["change_no_interval"].to_list()
        return [*self.statements, *interval_notes(gone), *super().notes()]


def _mean(row: dict[str, Any] | None) -> str:
    """One decimal: tokens and messages are large."""
    return bare(row, digits=1).half()


@estimator
def efficiency(
    data: Any,
    *,
    maze_size: int | None = None,
    wall_density: Density = None,
    arm: str | None = None,
    cluster: Column = "auto",
    ci_level: Level = CI_LEVEL,
) -> EfficiencyResult:
    """Tokens a message, messages a rollout, adaptation to the partner, and how often the turn limit ended a rollout.

    Parameters
    ----------
    data : an opened study or a data set with `runs` and `messages`.
    maze_size, wall_density, arm, cluster, ci_level : as in `cilab.stats.maze.pairs.pairs`. By `cluster="rollout"` the
        share at the turn limit has Wilson's interval.

    Returns
    -------
    EfficiencyResult
        Pairs only. A rollout in which a message of an agent has no token count is left out of that agent's tokens and
        counted (`n_left_out` names it when no token is known at all); its messages count.

    Raises
    ------
    TableError
        No pair in the data, no messages, or clusters that cannot be used.

    References
    ----------
    Collaboration-gap paper, appendix D.5, figures D.4 and D.5.
    """
    found = maze_rows.read_maze_rows(
        data,
        outcome="weighted_outcome",
        versions=("pair",),
        what="rollout of a pair of agents in a maze",
        fixed={"maze_size": maze_size, "wall_density": wall_density, "arm": arm},
        optional=("messages", "ended"),
        cluster=cluster,
    )
    units = found.clustering.units(ci_level)
    used = found.used.with_columns(
        pl.when(pl.col("first") == pl.col("second"))
        .then(pl.lit("homogeneous"))
        .otherwise(pl.lit("heterogeneous"))
        .alias("setting")
    )
    seats = _seats(used)
    tokens = _medians(data, seats)
    table = _tokens(tokens, units)
    adaptation = _adaptation(tokens, table, units)
    overall = _overall(adaptation, ci_level)
    messages, cap = _messages(seats, units), _caps(used, seats, units._replace(share=True))
    unknown = used.height - tokens["run_id"].n_unique()
    notes = [f"{unknown:,} rollouts are {_NO_TOKENS}; their messages count."] if unknown else []
    return EfficiencyResult(
        table=table,
        messages=messages,
        adaptation=adaptation,
        adaptation_overall=overall,
        cap=cap,
        statements=(*_statements(table, messages, overall, cap), *notes, *found.clustering.notes()),
        n_used=used.height,
        n_left_out=found.left_out,
        provenance=found.provenance,
        parameters=found.parameters,
        caption=f"Mean over rollouts ± half the {found.clustering.level(units)}, of the agent's "
        f"median tokens a message and of the messages a rollout by outcome band, in {found.maze_words()}.",
    )


def _seats(used: pl.DataFrame) -> pl.DataFrame:
    """One row per rollout and agent's seat."""
    columns = ("run_id", "setting", "value", "messages", "ended", "unit")
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
        pl.col("partner", "value", "messages", "unit").first(),
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


def _tokens(tokens: pl.DataFrame, units: Units) -> pl.DataFrame:
    rows = []
    for (agent, setting), part in sorted(tokens.partition_by("agent", "setting", as_dict=True).items()):
        solved = part.filter(pl.col("value") >= BANDS[-1][1])
        product = (solved["tokens"] * solved["messages"]).drop_nulls().sort()
        numbers = clustered_mean(maze_rows.sample(part, "tokens"), units)
        rows.append({"agent": agent, "setting": setting, **numbers, "per_solution": product.mean()})
    return pl.DataFrame(rows, schema=_TOKENS)


def _adaptation(tokens: pl.DataFrame, table: pl.DataFrame, units: Units) -> pl.DataFrame:
    """Tokens of each agent with partners that use fewer or more tokens than it does, each with copies of itself."""
    own = {r["agent"]: r for r in table.filter(pl.col("setting") == "homogeneous").iter_rows(named=True)}
    mixed = tokens.filter(pl.col("setting") == "heterogeneous")
    rows = []
    for (agent,), part in sorted(mixed.partition_by("agent", as_dict=True).items()):
        if agent not in own:
            continue
        level = own[agent]["mean"]
        alone = tokens.filter((pl.col("agent") == agent) & (pl.col("setting") == "homogeneous"))
        partners_by_kind = {
            "more efficient": [p for p in sorted(part["partner"].unique()) if p in own and own[p]["mean"] < level],
            "less efficient": [p for p in sorted(part["partner"].unique()) if p in own and own[p]["mean"] > level],
        }
        for words, partners in partners_by_kind.items():
            if not partners:
                continue
            values = maze_rows.sample(part.filter(pl.col("partner").is_in(partners)), "tokens")
            change = clustered_contrast([(1, values), (-1, maze_rows.sample(alone, "tokens"))], units)
            rows.append(
                {"agent": agent, "partners": words, "n_partners": len(partners), "own": level}
                | clustered_mean(values, units)
                | {"change": change["diff"]}
                | {f"change_{k}": change[k] for k in ("lo", "hi", "n_clusters", "no_interval")}
            )
    return pl.DataFrame(rows, schema=_ADAPTATION)


def _overall(adaptation: pl.DataFrame, ci_level: float) -> pl.DataFrame:
    """The change over agents, each agent once."""
    change = {
        words: dict(adaptation.filter(pl.col("partners") == words).select("agent", "change").rows())
        for words in ("more efficient", "less efficient")
    }
    tests = {words: mean_over(list(values.values()), "agent", ci_level) for words, values in change.items()}
    more, less = change.values()
    both = sorted(set(more) & set(less))
    tests["less - more efficient"] = mean_over([less[a] - more[a] for a in both], "agent", ci_level)
    rows = [{"partners": words, "n_agents": t.pop("n"), "change": t.pop("diff"), **t} for words, t in tests.items()]
    numbers = dict.fromkeys(("change", "lo", "hi", "p"), pl.Float64)
    return pl.DataFrame(rows, schema={"partners": pl.String, "n_agents": pl.Int64, **numbers, "reason": pl.String})


def _messages(seats: pl.DataFrame, units: Units) -> pl.DataFrame:
    """Messages a rollout; the two seats of a homogeneous rollout are one agent."""
    rollouts = seats.unique(["run_id", "agent"]).filter(pl.col("messages").is_not_null())
    rows = []
    for (agent, setting), part in sorted(rollouts.partition_by("agent", "setting", as_dict=True).items()):
        for band, low, high in BANDS:
            inside = part.filter((pl.col("value") >= low) & (pl.col("value") < high))
            if inside.height:
                head = {"agent": agent, "setting": setting, "band": band, "median": inside["messages"].median()}
                rows.append(head | clustered_mean(maze_rows.sample(inside, "messages"), units))
    return pl.DataFrame(rows, schema=_BAND)


def _caps(used: pl.DataFrame, seats: pl.DataFrame, units: Units) -> pl.DataFrame:
    """Who hit the turn limit, of all rollouts and of the failures."""
    rows = []
    parts = [(("all", "all"), used)]
    parts += sorted(seats.unique(["run_id", "agent"]).partition_by("agent", "setting", as_dict=True).items())
    for (agent, setting), part in parts:
        known = part.filter(pl.col("ended").is_not_null())
        for group, rollouts in (("all rollouts", known), ("failures", known.filter(pl.col("value") < BANDS[0][2]))):
            hit = rollouts.with_columns((pl.col("ended") == TURN_CAP).alias("hit"))
            head = {"agent": agent, "setting": setting, "group": group, "at_cap": int(hit["hit"].sum())}
            rows.append(head | _share(hit, units))
    return pl.DataFrame(rows, schema=_CAP)


def _share(rollouts: pl.DataFrame, units: Units) -> dict[str, Any]:
    """`n, share, lo, hi, n_clusters, no_interval` of a column of truth values, `hit`."""
    found = clustered_mean(maze_rows.sample(rollouts, "hit"), units)
    if units.plain and found["no_interval"] != too_few(found["n"], units.unit):
        lo, hi = share_interval(int(rollouts["hit"].sum()), rollouts.height, units.ci_level, method="wilson")
        found |= {"lo": lo, "hi": hi, "no_interval": None}
    found["share"] = found.pop("mean")
    return {name: found[name] for name in ("n", "share", "lo", "hi", "n_clusters", "no_interval")}


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
        p = "" if gap["p"] is None else f" (t over {gap['n_agents']} agents, p = {gap['p']:.2g})"
        ends = Interval.of(gap, "change", "lo", "hi", digits=2).ends()
        out.append(
            f"Agents use {ends} more tokens a message with a less efficient partner than with a more efficient one{p}."
        )
    whole = cap.row(by_predicate=(pl.col("agent") == "all") & (pl.col("group") == "failures"), named=True)
    if whole["share"] is not None:
        ends = "" if whole["lo"] is None else f" [{100 * whole['lo']:.0f}, {100 * whole['hi']:.0f}]"
        share = f"{100 * whole['share']:.0f} %{ends}"
        out.append(f"{share} of the failures hit the turn limit ({whole['at_cap']} of {whole['n']}).")
    return out
