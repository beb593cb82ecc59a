"""Numbers that the papers and the public leaderboard print: as typed tables, and as a runs table with their counts.

May import `cilab.datasets.dataset` and `cilab.core`. Reads the files in
`data/published/`, whose README says where each number is from; adds none of its own.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import polars as pl

from cilab.core import registry
from cilab.core.errors import TableError, first_line, nearest
from cilab.core.paths import shipped
from cilab.core.tables import TABLES, frame
from cilab.datasets.dataset import Dataset

#: How the id of a task begins whose identity was never published. Two rows of a round may carry the same such id
#: without having played the same task: statistics that pair rows by task must refuse it.
UNKNOWN_TASK = "unknown:"
#: A printed percentage with two decimals is at most this far from the count behind it.
_PRINTED = 0.00501

_TEXT, _INT, _NUM, _FLAG = pl.String, pl.Int64, pl.Float64, pl.Boolean


@dataclass(frozen=True, slots=True)
class _Source:
    """A file of `data/published/`: its columns as (name in the file, name here, type), and what is derived."""

    file: str
    columns: tuple[tuple[str, str, Any], ...]
    derive: Callable[[pl.DataFrame], pl.DataFrame] | None = None


def _same(dtype: Any, *names: str) -> tuple[tuple[str, str, Any], ...]:
    return tuple((name, name, dtype) for name in names)


def _as(dtype: Any, **names: str) -> tuple[tuple[str, str, Any], ...]:
    return tuple((old, new, dtype) for old, new in names.items())


def _mark_doubles(pairs: pl.DataFrame) -> pl.DataFrame:
    """`values_differ`: the same ordered pair has other numbers in another panel."""
    numbers = pl.struct("weighted_mean", "weighted_ci95", "binary_mean", "binary_ci95")
    return pairs.with_columns(values_differ=numbers.n_unique().over("starter", "follower") > 1)


def _without_counts(odds: pl.DataFrame) -> pl.DataFrame:
    return odds.filter(pl.col("predictor") != "n_observations")


def _counts(odds: pl.DataFrame) -> pl.DataFrame:
    """The last row of the file, numbers of rollouts, as a table of its own."""
    last = odds.row(by_predicate=pl.col("predictor") == "n_observations", named=True)
    outcomes = ("total", "factual", "nonfactual")
    return pl.DataFrame({"outcome": outcomes, "n": [int(last[f"or_{o}"]) for o in outcomes]})


_ODDS = (
    *_same(_TEXT, "predictor"),
    *_same(_NUM, "or_total", "or_factual", "or_nonfactual"),
    *_same(_TEXT, "sig_total", "sig_factual", "sig_nonfactual"),
)
_SOURCES: dict[str, _Source] = {
    "leaderboard": _Source(
        "leaderboard_2026-10-09.csv",
        (
            *_same(_TEXT, "model", "maker"),
            *_as(_FLAG, open_weight="open_weights", main_study="main_study"),
            *_same(_TEXT, "dimension"),
            *_as(_NUM, test="test_pct", test_lo="test_lo_pct", test_hi="test_hi_pct"),
            *_as(_NUM, alone="alone_pct", baseline="baseline_pct"),
            *_same(_INT, "n_baseline", "n_gated", "n_complete", "n_tasks", "n_refused"),
        ),
    ),
    "overall": _Source(
        "overall_2026-10-09.csv",
        (
            *_same(_TEXT, "model"),
            *_as(_NUM, score="score_pct", lo="lo_pct", hi="hi_pct", baseline="baseline_pct", alone="alone_pct"),
            *_as(_NUM, teamwork_loss="teamwork_loss_points"),
            *_same(_INT, "n_gated", "n_complete", "n_refused"),
            *_as(_NUM, rank_stability="rank_stability_pct"),
        ),
    ),
    "adjacent": _Source(
        "adjacent_2026-10-09.csv",
        (
            *_same(_TEXT, "higher", "lower"),
            *_as(_NUM, diff="diff_points", lo="lo_points", hi="hi_points", p_higher="p_higher"),
        ),
    ),
    "maze_models": _Source(
        "maze_models.csv",
        (
            *_same(_TEXT, "model", "builder"),
            *_same(_FLAG, "open_weights", "distilled", "system_prompt_flexible"),
            *_same(_TEXT, "note"),
        ),
    ),
    "maze_pairs": _Source(
        "maze_pairs.csv",
        (
            *_same(_TEXT, "panel", "starter", "follower"),
            *_same(_NUM, "weighted_mean", "weighted_ci95", "binary_mean", "binary_ci95"),
        ),
        _mark_doubles,
    ),
    "maze_grader_agreement": _Source(
        "maze_grader_agreement.csv",
        (
            *_same(_INT, "table"),
            *_same(_TEXT, "setting", "graders", "model"),
            *_same(_NUM, "icc", "fleiss_kappa"),
            *_same(_INT, "n"),
        ),
    ),
    "maze_mediation": _Source("maze_mediation.csv", (*_same(_TEXT, "effect"), *_same(_NUM, "model_1", "model_2"))),
    "odds_ratios": _Source("maze_disagreement_odds.csv", _ODDS, _without_counts),
    "odds_observations": _Source("maze_disagreement_odds.csv", _ODDS, _counts),
    "people": _Source(
        "people.csv",
        (
            *_same(_TEXT, "task", "source", "version"),
            *_same(_NUM, "people_pct"),
            *_same(_INT, "people_n"),
            *_same(_NUM, "frontier_pct", "open_pct", "all_models_pct"),
            *_same(_TEXT, "note"),
        ),
    ),
    "claims": _Source(
        "claims.csv",
        (
            *_same(_TEXT, "id", "paper", "section", "quantity"),
            # As printed: the number of decimals says how far a recomputed value may be away.
            *_as(_TEXT, value="value_printed", lo="lo_printed", hi="hi_printed"),
            *_same(_TEXT, "unit"),
        ),
        lambda claims: claims.with_columns(pl.col(f"{c}_printed").cast(_NUM).alias(c) for c in ("value", "lo", "hi")),
    ),
}


# -- tables -------------------------------------------------------------------------------------------


def published_table(name: str) -> pl.DataFrame:
    """One table of published numbers.

    Parameters
    ----------
    name : `leaderboard` (12 models x 7 dimensions), `overall`, `adjacent` (the round of 2026-10-09);
        `maze_models`, `maze_pairs`, `maze_grader_agreement`, `maze_mediation`, `odds_ratios`, `odds_observations`
        (collaboration-gap paper, tables 1 to 9); `people` and `claims`.

    Returns
    -------
    DataFrame
        Columns in percent end in `_pct`, differences of percentages in `_points`; all other shares are fractions.
        Flags are Boolean. `maze_pairs` keeps both panels' rows of an ordered pair, `values_differ` marks those whose
        numbers are not the same. `claims` has value, lo and hi as numbers and, ending in `_printed`, as text.

    Raises
    ------
    TableError
        There is no table of that name, or its file has been changed so that it no longer fits.

    Examples
    --------
    >>> published_table("adjacent")["diff_points"].to_list()
    [6.05, 4.73, 19.46, 7.97, 3.67]
    """
    if name not in _SOURCES:
        raise TableError(
            f"no published table named {name}.{nearest(name, tuple(_SOURCES))} Known: {', '.join(_SOURCES)}"
        )
    return _read(_SOURCES[name])


def published_tables() -> dict[str, pl.DataFrame]:
    """Every published table by name; see `published_table`."""
    return {name: _read(source) for name, source in _SOURCES.items()}


def _read(source: _Source) -> pl.DataFrame:
    path = shipped(f"data/published/{source.file}")
    try:
        df = pl.read_csv(path, infer_schema=False)
        missing = [old for old, _, _ in source.columns if old not in df.columns]
        if missing:
            raise TableError(f"{path}: has no column {missing[0]}")
        df = df.select(_typed(old, dtype).alias(new) for old, new, dtype in source.columns)
    except pl.exceptions.PolarsError as e:
        raise TableError(f"{path}: {first_line(e)}") from None
    return source.derive(df) if source.derive else df


def _typed(column: str, dtype: Any) -> pl.Expr:
    if dtype == _FLAG:
        return pl.col(column).replace_strict({"1": True, "0": False}, return_dtype=_FLAG)
    return pl.col(column).cast(dtype)


# -- the round as runs --------------------------------------------------------------------------------

#: Rounds with counts by model and dimension.
ROUNDS = ("2026-10-09",)

ROUND_NOTES = (
    "Rebuilt from published counts: within a model, dimension and version the numbers of passes and fails are the "
    "published ones, and nothing else about single runs is known.",
    "Task ids beginning with unknown: are places in a row, not tasks: the same id in two models need not be the same "
    "task, so statistics that pair models by task are not allowed.",
    "Which of its tasks a model passed in both baseline and test is not published: passes are nested as far as the "
    "counts permit.",
    "A refused task is entered as refused alone; in which version the provider refused is not published.",
    "GLM-5.3 has no baseline. Four models have baselines for some of their gated tasks only; how many of the tests "
    "without one were passed is chosen so that the published teamwork loss comes out (for Claude Fable 5.1 and "
    "Qwen 3.7 Max two choices do, and the first is taken).",
)


def published_round(date: str = "2026-10-09") -> Dataset:
    """A round of the public leaderboard as a runs table with exactly the published counts.

    For every model and dimension `n_tasks` places: `n_refused` refused, `n_complete - n_gated` failed alone (their
    other versions gated out), `n_gated` solved alone, each with one binary test value; `n_baseline` of these have a
    baseline. `rule_version` is `round-<date>`: one test value a task, where the paper has three.

    Parameters
    ----------
    date : day of the round, `2026-10-09`.

    Returns
    -------
    Dataset
        `runs`, `tasks` and `models`; `notes` say what the rows do not know.

    Raises
    ------
    TableError
        There is no such round, or a printed percentage is no share of the printed number of tasks.

    References
    ----------
    Collaborative Intelligence leaderboard as it stood on 9 October 2026 (`data/published/README.md`).

    Examples
    --------
    >>> data = published_round("2026-10-09")
    >>> data.runs.filter(pl.col("version") == "test", pl.col("passed")).collect().height
    1160
    """
    if date not in ROUNDS:
        raise TableError(f"no published round of {date}. Known: {', '.join(ROUNDS)}")
    leaderboard, overall = published_table("leaderboard"), published_table("overall")
    cells = [_Cell.of(row) for row in leaderboard.iter_rows(named=True)]
    unpaired = _passes_without_baseline(cells, dict(overall.select("model", "teamwork_loss_points").iter_rows()))
    columns: dict[str, list[Any]] = {c: [] for c in ("model", "dimension", "place", "version", "status", "score")}
    for cell in cells:
        _add(columns, cell, unpaired[cell.model, cell.dimension])
    return Dataset(
        name=f"published round {date}",
        tables={
            "runs": _runs(columns, f"published round {date}", f"round-{date}"),
            "tasks": _tasks(leaderboard),
            "models": registry.models().filter(pl.col("model").is_in(leaderboard["model"].unique().to_list())),
        },
        simulated=False,
        kind="published",
        notes=ROUND_NOTES,
    )


@dataclass(frozen=True, slots=True)
class _Cell:
    """Counts of one model in one dimension."""

    model: str
    dimension: str
    n_tasks: int
    n_complete: int
    n_gated: int
    n_baseline: int
    test: int
    baseline: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _Cell:
        where = f"leaderboard, {row['model']}, {row['dimension']}"
        if row["n_complete"] != row["n_tasks"] - row["n_refused"]:
            raise TableError(f"{where}: n_complete is not n_tasks - n_refused")
        if _count(row["alone_pct"], row["n_complete"], f"{where}, alone") != row["n_gated"]:
            raise TableError(f"{where}: alone is not n_gated / n_complete")
        return cls(
            row["model"],
            row["dimension"],
            row["n_tasks"],
            row["n_complete"],
            row["n_gated"],
            row["n_baseline"],
            _count(row["test_pct"], row["n_gated"], f"{where}, test"),
            _count(row["baseline_pct"], row["n_baseline"], f"{where}, baseline"),
        )

    @property
    def n_without_baseline(self) -> int:
        """Gated tasks without a baseline run; 0 for a model that has none at all."""
        return self.n_gated - self.n_baseline if self.n_baseline else 0


def _count(pct: float | None, n: int, where: str) -> int:
    """The number of passes behind a printed percentage of `n` tasks."""
    if pct is None or n == 0:
        if pct is not None or n:
            raise TableError(f"{where}: a percentage without tasks, or tasks without a percentage")
        return 0
    k = round(pct * n / 100)
    if abs(100 * k / n - pct) > _PRINTED:
        raise TableError(f"{where}: {pct} % is no share of {n} tasks; the nearest is {k} ({100 * k / n:.2f} %)")
    return k


def _passes_without_baseline(cells: list[_Cell], losses: Mapping[str, float | None]) -> dict[tuple[str, str], int]:
    """Per cell: how many of the gated tasks without a baseline passed the test.

    The published loss is the mean over dimensions of baseline minus test on the tasks that have both, so it tells.
    """
    out: dict[tuple[str, str], int] = {}
    for model, group in itertools.groupby(cells, key=lambda c: c.model):
        own = list(group)
        possible = [
            range(max(0, c.n_without_baseline - (c.n_gated - c.test)), min(c.test, c.n_without_baseline) + 1)
            for c in own
        ]
        chosen = _matching(own, possible, losses[model])
        out |= {(c.model, c.dimension): k for c, k in zip(own, chosen, strict=True)}
    return out


def _matching(cells: list[_Cell], possible: list[range], loss_points: float | None) -> tuple[int, ...]:
    for choice in itertools.product(*possible):
        if loss_points is None or abs(_loss(cells, choice) - loss_points) <= _PRINTED:
            return choice
    raise TableError(f"leaderboard, {cells[0].model}: no way to place its tests gives a loss of {loss_points} points")


def _loss(cells: list[_Cell], unpaired: tuple[int, ...]) -> float:
    drops = [(c.baseline - (c.test - k)) / c.n_baseline for c, k in zip(cells, unpaired, strict=True) if c.n_baseline]
    return 100 * sum(drops) / len(drops) if drops else 0.0


def _add(columns: dict[str, list[Any]], cell: _Cell, unpaired: int) -> None:
    """Append the rows of one cell. Places: gated with baseline, gated without, failed alone, refused."""
    failed, refused = cell.n_complete - cell.n_gated, cell.n_tasks - cell.n_complete
    paired = cell.n_gated - cell.n_without_baseline
    without = cell.n_without_baseline
    test_values = _passes(cell.test - unpaired, paired) + _passes(unpaired, without)
    shut = ["gated_out"] * (failed + refused)
    versions: list[tuple[str, list[str], list[float | None], list[int]]] = [
        (
            "alone",
            ["ok"] * cell.n_complete + ["refused"] * refused,
            _passes(cell.n_gated, cell.n_complete) + [None] * refused,
            list(range(1, cell.n_tasks + 1)),
        ),
        (
            "test",
            ["ok"] * cell.n_gated + shut,
            test_values + [None] * len(shut),
            list(range(1, cell.n_tasks + 1)),
        ),
    ]
    if cell.n_baseline:
        versions.append(
            (
                "baseline",
                ["ok"] * paired + shut,
                _passes(cell.baseline, paired) + [None] * len(shut),
                [*range(1, paired + 1), *range(cell.n_gated + 1, cell.n_tasks + 1)],
            )
        )
    for version, status, score, places in versions:
        columns["status"] += status
        columns["score"] += score
        columns["place"] += places
        columns["version"] += [version] * len(places)
        columns["model"] += [cell.model] * len(places)
        columns["dimension"] += [cell.dimension] * len(places)


def _passes(k: int, n: int) -> list[float | None]:
    return [1.0] * k + [0.0] * (n - k)


def _task_id(dimension: str, place: int) -> str:
    return f"{UNKNOWN_TASK}{dimension}:{place:02d}"


def _runs(columns: Mapping[str, list[Any]], study: str, rule: str) -> pl.DataFrame:
    """The columns as a runs table; what was not published is null."""
    tasks = [_task_id(d, p) for d, p in zip(columns["dimension"], columns["place"], strict=True)]
    ids = [
        hashlib.blake2b("|".join(parts).encode(), digest_size=10).hexdigest()
        for parts in zip(itertools.repeat(rule), columns["model"], tasks, columns["version"])
    ]
    known = pl.DataFrame(
        {
            "run_id": ids,
            "task_id": tasks,
            **{c: columns[c] for c in ("model", "dimension", "version", "status")},
            "score": pl.Series(columns["score"], dtype=pl.Float64),
        }
    ).with_columns(
        study=pl.lit(study),
        benchmark=pl.lit("teamwork"),
        seed=pl.lit(0, dtype=pl.Int64),
        passed=pl.col("score") == 1,
        rule_version=pl.lit(rule),
        error=pl.when(pl.col("status") == "refused").then(pl.lit("refused; the version is not published")),
    )
    schema = TABLES["runs"].schema
    return known.select(
        pl.col(c) if c in known.columns else pl.lit(None, dtype=dtype).alias(c) for c, dtype in schema.items()
    )


def _tasks(leaderboard: pl.DataFrame) -> pl.DataFrame:
    # A dimension has the same number of tasks for every model.
    sizes = leaderboard.group_by("dimension", maintain_order=True).agg(pl.col("n_tasks").max())
    rows = [
        {
            "task_id": _task_id(dimension, place),
            "benchmark": "teamwork",
            "dimension": dimension,
            "version_hash": "unknown",
        }
        for dimension, n in sizes.iter_rows()
        for place in range(1, n + 1)
    ]
    return frame("tasks", rows)


# -- the hand-worked round ----------------------------------------------------------------------------


def hand_worked_round() -> Dataset:
    """A round of three rows, two dimensions and six tasks, small enough to score by hand.

    It has what the published round has not: three seeds, halves in conflict, a refusal in a test, a test that ended in
    an error, a row at high effort. The names are pseudonyms: nobody played it.

    Returns
    -------
    Dataset
        `truth["scores"]` is a DataFrame with one line per row and dimension (and one per row with dimension null:
        overall): `model, effort, dimension, n_tasks, n_refused, n_gated, n_incomplete, score, score_partial,
        baseline`, all fractions. Every one is worked out in the comments of
        `data/published/hand_worked_scores.csv`.
    """
    runs = pl.read_csv(
        shipped("data/published/hand_worked_runs.csv"),
        comment_prefix="#",
        schema_overrides={"seed": pl.Int64, "score": pl.Float64, "effort": pl.String},
    )
    rows = [
        row
        | {
            "run_id": "hand:" + "|".join(str(row[c]) for c in ("model", "effort", "task_id", "version", "seed")),
            "study": "hand-worked round",
            "benchmark": "teamwork",
            "passed": None if row["score"] is None else row["score"] == 1,
            "refused_seat": "under_test" if row["status"] == "refused" else None,
            "rule_version": "hand-worked",
        }
        for row in runs.iter_rows(named=True)
    ]
    return Dataset(
        name="hand-worked round",
        tables={"runs": frame("runs", rows)},
        simulated=True,
        kind="simulated",
        truth={"scores": _hand_worked_scores()},
        notes=("Invented for tests: six tasks whose scores are worked out by hand.",),
    )


def _hand_worked_scores() -> pl.DataFrame:
    texts = pl.read_csv(shipped("data/published/hand_worked_scores.csv"), comment_prefix="#", infer_schema=False)
    fractions = ("score", "score_partial", "baseline")
    return texts.with_columns(
        *(pl.col(c).cast(pl.Int64) for c in texts.columns if c.startswith("n_")),
        *(
            pl.Series(c, [None if v is None else float(Fraction(v)) for v in texts[c]], dtype=pl.Float64)
            for c in fractions
        ),
    )
