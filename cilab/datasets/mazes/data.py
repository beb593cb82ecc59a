"""A data set of the Collaboration Gap paper's size, invented by a stated model with a known truth.

May import `cilab.datasets.dataset`, `cilab.core` and the `_maze*` modules beside it.
Calls no model and names no real one: sim:S1 ... (strong), sim:M1 ... (medium), sim:W1 ... (weak)
are the 13 of the annotated pairs, sim:X01 ... the other 19.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import StudyError
from cilab.datasets.columns import fill, pick
from cilab.datasets.dataset import Dataset
from cilab.datasets.mazes import model as model
from cilab.datasets.mazes import plan as planning
from cilab.datasets.mazes.plan import (
    KINDS,
    MAX_TURNS,
    NONE,
    RELAY_K,
    RELAY_MEANS,
    RELAY_STRONG,
    Array,
    Ints,
    Mazes,
    Plan,
    count_of,
    first_mazes,
    model_index,
)
from cilab.maze.terms import VERSIONS

NAME = "simulated_mazes"
ANNOTATED = 50
REGRADED_SAMPLE = 40
REPLICATED = 250
MISSING_VERDICTS = 22  # 2,650 rollouts, 2,628 with both annotators' verdicts (table 3)

#: Of 80 streams the one whose seed 0 gives estimates nearest to table 2 of the paper.
_STREAM = 20261183
_START = datetime(2026, 8, 1, tzinfo=UTC)

#: Regrading (appendix E): models whose runs are graded again, and chances of another verdict, set so that ICC and kappa
#: come out as printed. By setting and comparison: goal reached to not, not reached to goal, other outcome.
REGRADED = tuple(
    f"sim:{m}" for m in ("S1", "S2", "S3", "S5", "M2", "M3", "M4", "W2", "W3", "W4", "X01", "X13", "X17", "X19")
)
GRADERS = ("sim:grader1", "sim:grader2", "sim:grader3")
REGRADE = {
    ("solo", "intra"): (0.002, 0.005, 0.02),
    ("pair", "intra"): (0.060, 0.028, 0.10),
    ("solo", "inter"): (0.048, 0.018, 0.25),
    ("pair", "inter"): (0.150, 0.025, 0.20),
}

NOTES = (
    "Simulated: no model was called. Names are pseudonyms and stand for no real model.",
    "Outcomes follow a stated model (cilab.datasets.mazes.model) whose mediation is near the Collaboration Gap paper's "
    "table 2 and whose disagreement has the odds ratios of its table 3; relay and ablation means are chosen.",
    "With table 3's intercept and these pairs 56 % of verdicts see a disagreement, so about 1,650 rollouts have one "
    "(the paper: 1,472).",
    "Mediator and exposure are the first annotator's values; the other annotators' are noisy copies.",
    "Prompt tokens and costs are not simulated.",
)


def simulated_mazes(seed: int = 0, scale: float = 1.0) -> Dataset:
    """32 models solo and in pairs, 53 annotated pairs, relays, ablations, regrades, and the truth behind them.

    Parameters
    ----------
    seed : everything random is drawn from it; the same seed gives identical frames.
    scale : factor on the number of rollouts of each cell (100 solo and homogeneous, 50 mixed at 1).

    Returns
    -------
    Dataset
        Tables runs, messages, annotations, tasks, models. `truth` holds data frames `mediation` (effect, value:
        `a, b, direct, total, indirect, share_mediated` of model 1, `synergy_b1, synergy_b2, synergy_direct,
        indirect_at_0, indirect_at_1` of model 2; outcome units), `controls`, `odds` (predictor, kind, published,
        value), `pairs`, `relay`, `models` and `rollouts` (expected outcome of each annotated kind of rollout).

    Raises
    ------
    StudyError
        `scale` is not positive, or `seed` is negative.

    Notes
    -----
    Annotations: annotators sim:annotator1 and 2 on 50 rollouts of each of the 53 pairs, sim:annotator3 on 250 of
    these; graders sim:grader1 (repeat 0 is the stored verdict, 1 and 2 its regrades), 2 and 3 on a sample.

    Examples
    --------
    >>> simulated_mazes(scale=0.05).simulated
    True
    """
    rngs = _streams(seed, scale)
    mazes = planning.make_mazes(scale, rngs["mazes"])
    annotated = planning.annotated_kind(mazes, scale, rngs["rollouts"])
    plan = planning.join(
        [
            planning.solos(mazes, scale, rngs["solo"]),
            planning.from_rollouts(annotated),
            *planning.other_pairs(mazes, scale, rngs["pairs"]),
            planning.relays(mazes, scale, rngs["relay"]),
            *planning.ablations(mazes, scale, rngs["ablations"]),
        ]
    )
    plan = planning.with_messages(plan, rngs["messages"])
    prefix = f"{NAME}-{seed}" + ("" if scale == 1 else f"x{scale:g}")
    run_ids = _run_ids(plan, mazes, prefix)
    messages, tokens_out = _messages(plan, run_ids, rngs["messages"])
    runs = _runs(plan, mazes, run_ids, tokens_out, prefix)
    annotations = pl.concat(
        [
            *_features(plan, annotated, run_ids, scale, rngs),
            *_regrades(plan, len(mazes.at[6, 0.30]), run_ids, rngs["graders"]),
        ]
    )
    tables = {
        "runs": runs,
        "messages": messages,
        "annotations": annotations,
        "tasks": _tasks(mazes),
        "models": _models(),
    }
    truth = _truth(plan, annotated, run_ids)
    return Dataset(NAME, tables, simulated=True, kind="simulated", truth=truth, notes=NOTES)


def annotated_pairs(seed: int = 0, scale: float = 1.0) -> pl.DataFrame:
    """The annotated rollouts of `simulated_mazes(seed, scale)` as one wide table, for studies of many draws.

    Returns
    -------
    DataFrame
        One row per rollout (53 x 50 at scale 1): `pair` (number of the ordered pair), `starter, follower,
        starter_tier, follower_tier, starter_family, follower_family, homogeneous, same_family` (0 or 1),
        `path_length` (steps), `tokens` (of a typical message of the rollout), `grounding, global_strategy` (first
        annotator), `outcome` (weighted outcome), and `disagreement, factual, nonfactual`: means of both
        annotators' verdicts (0, 0.5 or 1; null where one is missing).

    Raises
    ------
    StudyError
        As `simulated_mazes`.
    """
    rngs = _streams(seed, scale)
    mazes = planning.make_mazes(scale, rngs["mazes"])
    r = planning.annotated_kind(mazes, scale, rngs["rollouts"])
    rows = _annotated(r, scale)
    verdicts = _verdicts(r, rows, rngs["disagreement"])
    table = model.load_models().select("model", "family", "tier")
    ends = {
        name: pl.Series([p[at] for p in model.pairs()]).gather(r.pair[rows])
        for at, name in enumerate(("starter", "follower"))
    }
    columns: dict[str, Any] = {"pair": r.pair[rows], **ends}
    for name, who in ends.items():
        columns[f"{name}_tier"] = who.replace_strict(table["model"], table["tier"])
        columns[f"{name}_family"] = who.replace_strict(table["model"], table["family"])
    means = {"disagreement": verdicts.max(2), "factual": verdicts[:, :, 0], "nonfactual": verdicts[:, :, 1]}
    return pl.DataFrame(
        columns
        | {
            "homogeneous": (ends["starter"] == ends["follower"]).cast(pl.Int64),
            "same_family": (columns["starter_family"] == columns["follower_family"]).cast(pl.Int64),
            "path_length": r.path[rows],
            "tokens": np.exp(r.log_tokens[rows].mean(1)),
            "grounding": r.x[rows],
            "global_strategy": r.m[rows],
            "outcome": r.y[rows],
        }
        | {name: pl.Series(v.mean(1), nan_to_null=True) for name, v in means.items()}
    )


def _streams(seed: int, scale: float) -> dict[str, np.random.Generator]:
    """One independent stream per part, so that a change in one leaves the others as they are."""
    if not 0 < scale < float("inf"):
        raise StudyError(f"simulated_mazes: scale must be positive, not {scale}; 1.0 is the paper's size")
    if seed < 0:
        raise StudyError(f"simulated_mazes: seed must be 0 or more, not {seed}")
    names = (
        "mazes",
        "rollouts",
        "solo",
        "pairs",
        "relay",
        "ablations",
        "messages",
        "annotators",
        "graders",
        "disagreement",
    )
    children = np.random.SeedSequence([_STREAM, seed]).spawn(len(names))
    return {n: np.random.default_rng(c) for n, c in zip(names, children, strict=True)}


# -- messages -----------------------------------------------------------------------------------------------


_LINES = (
    "[simulated message] I start with what my copy of the maze shows.",
    "[simulated message] Here is my next proposal; do you agree?",
    "[simulated message] Agreed, let us make that move.",
    "[simulated message] On my copy that cell looks different.",
    "[simulated message] Let us go on towards the goal.",
    "[simulated message] We are there. ACTI!",
)


def _messages(plan: Plan, run_ids: pl.Series, rng: np.random.Generator) -> tuple[pl.DataFrame, Ints]:
    """One row a message, agents in turn; and the completion tokens of each run."""
    run = np.repeat(np.arange(len(plan.count)), plan.count)
    index = np.arange(len(run)) - np.repeat(np.cumsum(plan.count) - plan.count, plan.count)
    solo = (plan.version < 2)[run]
    seat = np.where(solo, 0, index % 2)
    before = index < plan.relay_k[run]
    logs = np.where(before, plan.log_tokens_first[run, seat], plan.log_tokens[run, seat]) + np.where(solo, 1.4, 0.0)
    tokens = np.maximum(1, np.rint(np.exp(logs + 0.35 * rng.standard_normal(len(run))))).astype(int)
    last = index == plan.count[run] - 1
    line = np.where(index == 0, 0, rng.integers(1, 5, len(run)))
    line[last & (plan.count[run] < MAX_TURNS) & ~solo] = 5
    models = model.load_models()["model"].to_list()
    columns = {
        "run_id": run_ids.gather(run),
        "index": index,
        "round": index,
        "kind": "message",
        "seat": pick(("1", "2"), seat),
        "seat_kind": "under_test",
        "model": pick(models, _speaker(plan, run, seat, before)),
        "content": pick(_LINES, line),
        "delivered_to": pick([["2"], ["1"], ["user"]], np.where(solo, 2, seat), pl.List(pl.String)),
        "tokens_out": tokens,
    }
    return fill("messages", columns, len(run)), np.bincount(run, tokens, len(plan.count)).astype(int)


def _speaker(plan: Plan, run: Ints, seat: Ints, before: NDArray[np.bool_]) -> Ints:
    """Which model speaks: in a relay it depends on the turn."""
    starter, partner, kind = plan.model[run], plan.partner[run], plan.relay_kind[run]
    usual = np.where(seat == 0, starter, partner)
    primer = np.where(before & (seat == 0), starter, partner)
    recovery = np.where(~before & (seat == 0), starter, partner)
    return np.where(kind == NONE, usual, np.where(kind == 0, primer, recovery))


# -- runs ---------------------------------------------------------------------------------------------------


def _run_ids(plan: Plan, mazes: Mazes, prefix: str) -> pl.Series:
    short = pl.Series([m.replace("sim:", "sim") for m in model.load_models()["model"]])
    relay = np.where(plan.relay_k == NONE, 0, 2 * plan.relay_k + plan.relay_kind)
    names = ["", *(f".{kind}{k}" for k in range(1, 9) for kind in KINDS)]
    codes = np.where(relay == 0, 0, relay - 1)
    parts = pl.DataFrame(
        {
            "version": pick(VERSIONS, plan.version),
            "model": short.gather(plan.model),
            "partner": pick([*short.to_list(), "solo"], np.where(plan.partner == NONE, len(short), plan.partner)),
            "maze": pick([t.removeprefix("sim-maze-") for t in mazes.task_ids], plan.maze),
            "relay": pick(names, codes),
        }
    )
    return parts.select(
        pl.format(prefix + ".{}.{}.{}.{}{}", "version", "model", "partner", "maze", "relay").alias("run_id")
    )["run_id"]


def _prefixes(plan: Plan, mazes: Mazes, prefix: str) -> pl.Series:
    """Ids of the pairs that relays continue; null elsewhere."""
    pair = np.full(len(plan.y), VERSIONS.index("pair"))
    none = np.full(len(plan.y), NONE)
    starter = np.where(plan.relay_kind == 0, plan.model, plan.partner)
    earlier = replace(plan, version=pair, model=starter, relay_k=none, relay_kind=none)
    return _run_ids(earlier, mazes, prefix).set(pl.Series(plan.relay_k == NONE), None)


def _runs(plan: Plan, mazes: Mazes, run_ids: pl.Series, tokens_out: Ints, prefix: str) -> pl.DataFrame:
    n = len(plan.y)
    models = model.load_models()["model"].to_list()
    success = plan.y == 1
    outcome = np.where(success, 0, 1 + (np.arange(n) % 3))
    start = np.datetime64(_START.replace(tzinfo=None), "us") + np.arange(n) * np.timedelta64(60_000_000, "us")
    seconds = np.round(2.0 * plan.count + 0.01 * tokens_out, 1)
    finish = start + (seconds * 1e6).astype("timedelta64[us]")
    k = pl.Series(plan.relay_k).set(pl.Series(plan.relay_k == NONE), None)
    columns = {
        "run_id": run_ids,
        "study": NAME,
        "benchmark": "maze",
        "task_id": pick(mazes.task_ids, plan.maze),
        "split": "public",
        "version": pick(VERSIONS, plan.version),
        "model": pick(models, plan.model),
        "partner_model": pick([*models, None], np.where(plan.partner == NONE, len(models), plan.partner)),
        "seed": np.zeros(n, int),
        "status": "ok",
        "ended": pick(("completed", "turn_cap"), ((plan.count == MAX_TURNS) & (plan.version > 1)).astype(int)),
        "outcome": pick(("goal", "illegal_wall", "stopped_short", "illegal_not_adjacent"), outcome),
        "evidence": pl.Series("evidence", [[]], dtype=pl.List(pl.String)).new_from_index(0, n),
        "score": success.astype(float),
        "passed": success,
        "weighted_outcome": plan.y,
        "success": success,
        "maze_size": mazes.size[plan.maze],
        "wall_density": mazes.density[plan.maze],
        "path_length": mazes.path[plan.maze],
        "relay_k": k,
        "relay_kind": pick((*KINDS, None), np.where(plan.relay_kind == NONE, 2, plan.relay_kind)),
        "prefix_run_id": _prefixes(plan, mazes, prefix),
        "rounds": plan.count,
        "messages": plan.count,
        "tool_calls": np.zeros(n, int),
        "tokens_out": tokens_out,
        "seconds": seconds,
        "started_at": pl.Series(start).dt.replace_time_zone("UTC"),
        "finished_at": pl.Series(finish).dt.replace_time_zone("UTC"),
        "code_version": "simulated",
        "rule_version": "simulated-1",
    }
    return fill("runs", columns, n)


def _tasks(mazes: Mazes) -> pl.DataFrame:
    columns = {
        "task_id": pl.Series(mazes.task_ids),
        "benchmark": "maze",
        "source_family": "simulated",
        "real_world": np.zeros(len(mazes.size), bool),
        "split": "public",
        "seats": np.full(len(mazes.size), 2),
        "rounds": np.full(len(mazes.size), MAX_TURNS),
        "sandbox": np.zeros(len(mazes.size), bool),
        "executes_code": np.zeros(len(mazes.size), bool),
        "version_hash": "simulated",
    }
    return fill("tasks", columns, len(mazes.size))


def _models() -> pl.DataFrame:
    table = model.load_models()
    columns = {
        "model": table["model"],
        "aliases": "",
        "builder": table["family"].str.replace("family", "lab"),
        "family": table["family"],
        "open_weights": table["open_weights"],
        "distilled": table["distilled"],
        "system_prompt_flexible": table["flexible"],
        "strength": table["tier"],
        "studies": NAME,
        "note": "simulated",
    }
    return fill("models", columns, table.height)


# -- annotations --------------------------------------------------------------------------------------------

_AGENT_FEATURES = tuple(model.COMPONENTS)
#: (agent, feature) of the values of an annotation, in order.
_FEATURES = (
    *((agent, f) for agent in (1, 2) for f in _AGENT_FEATURES),
    (0, "reconciliation"),
    (0, "strategy_global"),
    (0, "grounding_score"),
    (0, "has_factual_disagreement"),
    (0, "has_nonfactual_disagreement"),
)


def _annotated(r: model.Rollouts, scale: float) -> Ints:
    """Numbers of the annotated rollouts within `r`."""
    return np.flatnonzero(first_mazes(r.pair) < count_of(ANNOTATED, scale))


def _at(plan: Plan) -> int:
    """Where the rollouts of the annotated kind start in the plan: after the solo runs."""
    return int(np.flatnonzero(plan.version == VERSIONS.index("pair"))[0])


def _verdicts(r: model.Rollouts, rows: Ints, rng: np.random.Generator) -> Array:
    """Both annotators' verdicts on disagreement (rollouts x 2 x 2); a few of the second's are missing."""
    verdicts = model.draw_disagreement(r.pair[rows], rng)
    missing = rng.permutation(len(rows))[: round(MISSING_VERDICTS * len(rows) / 2650)]
    verdicts[missing, 1] = np.nan
    return verdicts


def _features(
    plan: Plan, r: model.Rollouts, run_ids: pl.Series, scale: float, rngs: dict[str, np.random.Generator]
) -> list[pl.DataFrame]:
    """Features by three annotators; the third looks at a subsample and leaves disagreement out."""
    rows, rng = _annotated(r, scale), rngs["annotators"]
    values = np.column_stack([r.components, r.m])[rows]
    keep = model.keep_probabilities()
    second = model.reannotate(values, keep, rng)
    # The third shares half of the second's readings, so that all three agree about as well with one another.
    own = model.reannotate(values, keep, rng)
    third = np.where(rng.random(values.shape) < 0.5, second, own)
    verdicts = _verdicts(r, rows, rngs["disagreement"])
    ids = run_ids.gather(rows + _at(plan))
    some = np.sort(rng.permutation(len(rows))[: count_of(REPLICATED, scale)])
    nothing = np.full((len(rows), 2), np.nan)
    return [
        _annotation(ids, values, verdicts[:, 0], 1, slice(None)),
        _annotation(ids, second, verdicts[:, 1], 2, slice(None)),
        _annotation(ids, third, nothing, 3, some),
    ]


def _annotation(ids: pl.Series, values: Array, verdicts: Array, number: int, rows: Any) -> pl.DataFrame:
    whole = np.column_stack([values, values[:, :7].sum(1) / 8, verdicts])[rows]
    which = np.arange(len(ids))[rows]
    n, width = whole.shape
    columns = {
        "run_id": ids.gather(np.repeat(which, width)),
        "annotator": f"sim:annotator{number}",
        "repeat": np.zeros(n * width, int),
        "agent": np.tile([agent for agent, _ in _FEATURES], n),
        "feature": pick([f for _, f in _FEATURES], np.tile(np.arange(width), n)),
        "value": whole.ravel(),
        "text": "",
    }
    frame = fill("annotations", columns, n * width)
    return frame if number < 3 else frame.filter(pl.col("value").is_not_null())


def _regrades(plan: Plan, n_main: int, run_ids: pl.Series, rng: np.random.Generator) -> list[pl.DataFrame]:
    """Verdicts on a stratified sample of solo runs and of homogeneous pairs (appendix E)."""
    frames = []
    chosen = {"solo": _sample(plan, n_main, (0, 1), rng), "pair": _sample(plan, n_main, (2,), rng)}
    for setting, rows in chosen.items():
        kept = plan.y[rows]
        path = plan.path[rows]
        frames.append(_verdict_rows(run_ids, rows, kept, GRADERS[0], 0))
        for repeat in (1, 2):
            again = _regraded(kept, path, REGRADE[setting, "intra"], rng)
            frames.append(_verdict_rows(run_ids, rows, again, GRADERS[0], repeat))
        for grader in GRADERS[1:]:
            again = _regraded(kept, path, REGRADE[setting, "inter"], rng)
            frames.append(_verdict_rows(run_ids, rows, again, grader, 0))
    return frames


def _sample(plan: Plan, n_main: int, versions: tuple[int, ...], rng: np.random.Generator) -> Ints:
    """40 runs of a model, an equal share of each version and success, fewer where there are fewer."""
    alone_or_same = (plan.partner == NONE) | (plan.partner == plan.model)
    allowed = alone_or_same & (plan.maze < n_main)
    share = REGRADED_SAMPLE // (2 * len(versions))
    out = []
    for name in REGRADED:
        for version in versions:
            for success in (True, False):
                mask = allowed & (plan.model == model_index()[name]) & (plan.version == version)
                rows = np.flatnonzero(mask & ((plan.y == 1) == success))
                out.append(np.sort(rng.permutation(rows)[:share]))
    return np.concatenate(out)


def _regraded(y: Array, path: Ints, chances: tuple[float, float, float], rng: np.random.Generator) -> Array:
    """Another verdict on the same runs: mostly the same, else the goal lost or won, or the route's end moved."""
    lost, won, moved = chances
    u = rng.random(len(y))
    steps = np.rint(path * (1 - y))
    short = (path - rng.integers(1, 7, len(y))) / path
    near = (path - np.maximum(1, steps + rng.choice([-3, -2, -1, 1, 2, 3], len(y)))) / path
    failed = np.where(u < won, 1.0, np.where(u < won + moved, near, y))
    return np.where(y == 1, np.where(u < lost, short, y), failed)


def _verdict_rows(run_ids: pl.Series, rows: Ints, y: Array, grader: str, repeat: int) -> pl.DataFrame:
    n = len(rows)
    columns = {
        "run_id": run_ids.gather(np.repeat(rows, 2)),
        "annotator": grader,
        "repeat": np.full(2 * n, repeat),
        "agent": np.zeros(2 * n, int),
        "feature": pick(("weighted_outcome", "success"), np.tile([0, 1], n)),
        "value": np.column_stack([y, y == 1]).astype(float).ravel(),
        "text": "",
    }
    return fill("annotations", columns, 2 * n)


# -- truth --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _implied() -> pl.DataFrame:
    """What `python tools/fit_mazes.py` wrote."""
    return pl.read_csv((files("cilab.datasets.mazes") / "mazes_truth.csv").read_bytes())


def _truth(plan: Plan, r: model.Rollouts, run_ids: pl.Series) -> dict[str, Any]:
    start = _at(plan)
    exact = {"a": model.A, "synergy_b1": model.B1, "synergy_b2": model.B2, "synergy_direct": model.DIRECT}
    exact |= {"indirect_at_0": model.A * model.B1, "indirect_at_1": model.A * (model.B1 + model.B2)}
    mediation = (
        _implied()
        .filter(pl.col("kind") == "mediation")
        .select(
            pl.col("name").alias("effect"), pl.col("name").replace_strict(exact, default=pl.col("value")).alias("value")
        )
    )
    controls = [(n, model.GAMMA_M.get(n, 0.0), v) for n, v in model.GAMMA_Y.items()]
    odds = [
        (name, kind, model.ODDS[name][j])
        for name in model.ODDS
        for j, kind in enumerate(("total", "factual", "nonfactual"))
    ]
    implied = _implied().with_columns(pl.col("kind").str.strip_prefix("odds_")).select("kind", "name", "value")
    any_, factual, other = model.expected_odds()
    relay = [
        (kind, RELAY_STRONG, weak, k, mean)
        for (kind, weak), means in RELAY_MEANS.items()
        for k, mean in zip(RELAY_K, means, strict=True)
    ]
    pairs = {
        "starter": [a for a, _ in model.pairs()],
        "follower": [b for _, b in model.pairs()],
        "p_any": any_,
        "p_factual": factual,
        "p_nonfactual": other,
    }
    return {
        "mediation": mediation,
        "controls": pl.DataFrame(controls, schema=["control", "gamma_m", "gamma_y"], orient="row"),
        "odds": pl.DataFrame(odds, schema=["predictor", "kind", "published"], orient="row").join(
            implied, left_on=["predictor", "kind"], right_on=["name", "kind"], how="left", maintain_order="left"
        ),
        "pairs": pl.DataFrame(pairs),
        "relay": pl.DataFrame(relay, schema=["kind", "strong", "weak", "k", "weighted_outcome"], orient="row"),
        "models": model.load_models().select("model", "tier", "tokens", "solo_full", "solo_distributed", "pair"),
        "rollouts": pl.DataFrame(
            {
                "run_id": run_ids.gather(np.arange(start, start + len(r.y))),
                "grounding_score": r.x,
                "strategy_global": r.m,
                "expected_outcome": r.mean,
            }
        ),
        "adaptation": model.ADAPTATION,
    }
