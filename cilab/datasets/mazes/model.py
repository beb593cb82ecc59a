"""The stated model behind `simulated_mazes`: pairs, grounding, strategy, outcome, disagreement.

May import numpy and polars. Builds no table rows and reads nothing but the models' CSV beside it.

For rollout i of ordered pair g (all effects of a pair are drawn anew for every data set; C are tiers and families of
starter and follower, homogeneous, same family, path length and the log of the tokens per message):

- X: seven components (three behaviours of each agent, reconciliation 0 to 2) that share a latent of the pair and one of
  the rollout; X = their sum / 8, on the grid of eighths (paper, equation 1).
- M: P(M = 1) = I_M + A X + C gamma_M + r_g, linear, never clipped.
- Y: E(Y) = I_Y + DIRECT X + B1 M + B2 X M + C gamma_Y + s_g, at most 1; Y itself is on the lattice (a - b) / a.
- Disagreement, for each of two annotators: P(any) and, among rollouts in which either saw one, the expected mean of
  the two factual (and the two other) verdicts have exactly the log-odds of table 3, up to a mean-one pair effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Path a (table 2). Model 2 of the table prints model 1's direct effect, which its other numbers exclude; DIRECT is
#: therefore the value with which model 1, fitted to data of this model, gives the printed b, c' and total effect.
A, B1, B2, DIRECT = 0.69, -0.035, 0.28, 0.04
I_M, I_Y = 0.13, 0.50
#: gamma_M and gamma_Y. Reference: medium starter and follower, family A, two different models.
GAMMA_M = {"starter_strong": 0.03, "starter_weak": -0.03, "follower_strong": 0.03, "follower_weak": -0.03}
GAMMA_Y = {
    "starter_strong": 0.085,
    "starter_weak": -0.12,
    "follower_strong": 0.075,
    "follower_weak": -0.09,
    "starter_B": 0.01,
    "starter_C": 0.0,
    "starter_D": 0.005,
    "follower_B": 0.0,
    "follower_C": 0.005,
    "follower_D": 0.01,
    "homogeneous": -0.05,
    "same_family": 0.01,
    "path_length": -0.01,
    "log_tokens": 0.01,
}
PATH_MIDDLE, TOKENS_MIDDLE = 8, 80.0
#: Half-widths of the uniform pair effects; smaller for two strong models, whose outcome must stay below 1.
PAIR_M, PAIR_Y, PAIR_Y_STRONG = 0.05, 0.13, 0.03

TIER_LOGIT = {"strong": 0.75, "medium": 0.0, "weak": -0.75}
#: Components: logit at medium tiers. Kinds of behaviour are those of each agent, then reconciliation.
COMPONENTS = {"grounded_start_goal": 2.2, "shared_map": 1.7, "merged_map": 0.2}
_UPFRONT, _GRADUAL = 0.8, 2.2
_PAIR_X, _ROLLOUT_X, _OTHER_TIER = 0.5, 1.1, 0.5
#: With which probability another annotator repeats the first one's value rather than guessing (close to kappa).
KEEP = {
    "grounded_start_goal": 0.50,
    "shared_map": 0.80,
    "merged_map": 0.45,
    "reconciliation": 0.60,
    "strategy_global": 0.76,
}

#: Odds ratios of table 3: any disagreement, factual, non-factual.
ODDS = {
    "intercept": (1.96, 3.43, 0.44),
    "homogeneous": (0.60, 0.66, 0.97),
    "same_family": (0.83, 0.92, 0.97),
    "starter_weak": (0.69, 0.60, 1.13),
    "starter_strong": (0.93, 0.59, 1.44),
    "starter_B": (1.30, 1.91, 0.88),
    "starter_C": (0.81, 0.68, 1.11),
    "starter_D": (0.69, 1.07, 1.57),
    "follower_weak": (0.88, 1.06, 1.30),
    "follower_strong": (1.16, 1.02, 1.61),
    "follower_B": (1.12, 1.50, 0.77),
    "follower_C": (0.89, 0.91, 0.66),
    "follower_D": (0.98, 1.11, 0.58),
}
#: Precision of the beta distribution of a pair's probabilities around these.
_PAIR_PRECISION = 60.0
#: Probability that the second annotator repeats the first's verdict instead of judging anew (kappa 0.72, 0.70, 0.48).
_KEEP_ANY, _KEEP_FACTUAL, _KEEP_OTHER = 0.71, 0.66, 0.38

#: Unordered pairs of different models that were annotated; both orders are used.
MIXED = (
    ("S2", "M2"),
    ("S2", "W2"),
    ("M2", "W2"),
    ("M2", "M3"),
    ("W2", "M3"),
    ("M3", "W4"),
    ("S3", "W3"),
    ("S4", "S5"),
    ("S4", "M4"),
    ("S5", "M4"),
    ("S5", "M3"),
    ("S5", "W4"),
    ("M4", "M3"),
    ("S5", "M2"),
    ("S5", "M1"),
    ("M2", "M1"),
    ("M1", "M3"),
    ("S1", "M1"),
    ("S1", "W1"),
    ("M1", "W1"),
)


@lru_cache(maxsize=1)
def load_models() -> pl.DataFrame:
    """The 32 models: `model, family, tier, open_weights, distilled, flexible, tokens` and mean outcomes (fractions)
    `solo_full, solo_distributed, pair`; `pair` is null for the 13 whose pairs follow from the model above."""
    return pl.read_csv((files("cilab.datasets.mazes") / "mazes_models.csv").read_bytes(), infer_schema_length=None)


@lru_cache(maxsize=1)
def pairs() -> tuple[tuple[str, str], ...]:
    """The 53 annotated ordered pairs: 13 homogeneous, then 40 mixed."""
    tiered = load_models().filter(pl.col("tier").is_not_null())["model"].to_list()
    mixed = [(f"sim:{a}", f"sim:{b}") for x, y in MIXED for a, b in ((x, y), (y, x))]
    return tuple([(m, m) for m in tiered] + mixed)


def design() -> dict[str, Array]:
    """Indicator columns of the 53 pairs, shape (53,)."""
    table = load_models()
    tier = dict(table.select("model", "tier").rows())
    family = dict(table.select("model", "family").rows())
    out: dict[str, Array] = {}
    for at, seat in enumerate(("starter", "follower")):
        for level in ("weak", "strong"):
            out[f"{seat}_{level}"] = np.array([tier[p[at]] == level for p in pairs()], float)
        for letter in "BCD":
            out[f"{seat}_{letter}"] = np.array([family[p[at]] == f"sim-family-{letter}" for p in pairs()], float)
    out["homogeneous"] = np.array([a == b for a, b in pairs()], float)
    out["same_family"] = np.array([family[a] == family[b] for a, b in pairs()], float)
    return out


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Annotated kind of rollouts, arrays of one length.

    Attributes
    ----------
    pair : index into `pairs()`. path : a, steps.
    components : the seven values, shape (rollouts, 7): three of the starter, three of the follower, reconciliation.
    x, m : grounding score (fraction, eighths) and global strategy (0 or 1).
    log_tokens : of the starter and the follower, shape (rollouts, 2): log of the median tokens of a message.
    mean : E(Y). y : weighted outcome (fraction).
    """

    pair: Ints
    path: Ints
    components: Array
    x: Array
    m: Array
    log_tokens: Array
    mean: Array
    y: Array


def expit(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-x))


def draw_rollouts(pair: Ints, path: Ints, rng: np.random.Generator) -> Rollouts:
    """Rollouts of the annotated pairs; every pair's own effects are drawn first."""
    n, n_pairs = len(pair), len(pairs())
    columns = design()
    components = _components(pair, rng)
    x = components.sum(1) / 8
    log_tokens = _log_tokens(pair, x, rng)
    effect_m = PAIR_M * rng.uniform(-1, 1, n_pairs)
    both_strong = (columns["starter_strong"] * columns["follower_strong"]) > 0
    effect_y = np.where(both_strong, PAIR_Y_STRONG, PAIR_Y) * rng.uniform(-1, 1, n_pairs)
    p_m = I_M + A * x + (_linear(columns, GAMMA_M) + effect_m)[pair]
    m = (rng.random(n) < p_m).astype(float)
    of_rollout = GAMMA_Y["path_length"] * (path - PATH_MIDDLE)
    of_rollout += GAMMA_Y["log_tokens"] * (log_tokens.mean(1) - np.log(TOKENS_MIDDLE))
    mean = I_Y + DIRECT * x + B1 * m + B2 * x * m + (_linear(columns, GAMMA_Y) + effect_y)[pair] + of_rollout
    mean = np.minimum(mean, 1.0)
    return Rollouts(pair, path, components, x, m, log_tokens, mean, lattice(mean, path, rng))


def _linear(columns: dict[str, Array], gamma: dict[str, float]) -> Array:
    return sum(value * columns[name] for name, value in gamma.items() if name in columns)


def _components(pair: Ints, rng: np.random.Generator) -> Array:
    tier = dict(load_models().select("model", "tier").rows())
    logit = np.array([[TIER_LOGIT[tier[m]] for m in p] for p in pairs()])[pair]  # rollouts, 2
    latent = _PAIR_X * rng.standard_normal(len(pairs()))[pair] + _ROLLOUT_X * rng.standard_normal(len(pair))
    out = np.empty((len(pair), 7))
    for agent in (0, 1):
        own = logit[:, agent] + _OTHER_TIER * logit[:, 1 - agent] + latent
        for j, base in enumerate(COMPONENTS.values()):
            out[:, 3 * agent + j] = rng.random(len(pair)) < expit(base + own)
    both = 0.75 * logit.sum(1) + latent
    u = rng.random(len(pair))
    out[:, 6] = 1.0 * (u < expit(_GRADUAL + both)) + (u < expit(_UPFRONT + both))
    return out


def _log_tokens(pair: Ints, x: Array, rng: np.random.Generator) -> Array:
    style = dict(load_models().select("model", "tokens").rows())
    logs = np.log(np.array([[style[m] for m in p] for p in pairs()]))[pair]
    return adapted(logs, rng) + 0.25 * (x - 0.5)[:, None]


#: How far an agent's log tokens move towards its partner's.
ADAPTATION = 0.3


def adapted(logs: Array, rng: np.random.Generator) -> Array:
    """Log tokens of a message of both agents (rollouts x 2) in one rollout, each moved towards its partner's."""
    return logs + ADAPTATION * (logs[:, ::-1] - logs) + 0.15 * rng.standard_normal(logs.shape)


def lattice(mean: Array, path: Ints, rng: np.random.Generator) -> Array:
    """Outcomes (a - b) / a with exactly these expected values: b = 0 at the goal, else 1 to a + 4.

    The share that reaches the goal grows with the mean as in tables 4 and 5 of the paper.
    """
    reach = np.clip(1.62 * (mean - 0.40), 0.01, 1.0)
    reach = np.maximum(reach, 1 - 0.7 * path * (1 - mean))
    most = path + 4
    left = path * (1 - mean) / np.maximum(1 - reach, 1e-12)  # expected b of a rollout that does not get there
    share = np.clip((left - 1) / (most - 1), 1e-6, 1 - 1e-6)
    b = 1 + rng.binomial(most - 1, rng.beta(6 * share, 6 * (1 - share)))
    b[rng.random(len(mean)) < reach] = 0
    return (path - b) / path


# -- annotators ---------------------------------------------------------------------------------------------


def reannotate(values: Array, keep: Array, rng: np.random.Generator) -> Array:
    """Another annotator's values: each column kept with its probability, else drawn from that column's values."""
    fresh = np.column_stack([rng.permutation(column) for column in values.T])
    return np.where(rng.random(values.shape) < keep, values, fresh)


def keep_probabilities() -> Array:
    """KEEP for the seven components and the strategy."""
    names = [*COMPONENTS, *COMPONENTS, "reconciliation", "strategy_global"]
    return np.array([KEEP[n] for n in names])


def expected_odds() -> tuple[Array, Array, Array]:
    """P(any disagreement), and P(factual), P(non-factual) among rollouts with one, by pair; shape (53,)."""
    columns = design()
    out = []
    for k in range(3):
        z = np.log(ODDS["intercept"][k]) + sum(np.log(o[k]) * columns[c] for c, o in ODDS.items() if c in columns)
        out.append(expit(z))
    return tuple(out)


def draw_disagreement(pair: Ints, rng: np.random.Generator) -> Array:
    """Verdicts of two annotators; shape (rollouts, 2 annotators, 2 kinds: factual, non-factual), 0 or 1."""
    any_, factual, other = (_around(p, rng)[pair] for p in expected_odds())
    n = len(pair)
    first = rng.random(n) < any_
    second = np.where(rng.random(n) < _KEEP_ANY, first, rng.random(n) < any_)
    seen = np.column_stack([first, second])
    # Either saw one with probability p + p (1 - p) (1 - keep): given that an annotator saw one itself, its verdicts
    # need this factor for the mean over both to have the wanted probability.
    factor = 1 + (1 - any_) * (1 - _KEEP_ANY)
    f, o = np.minimum(factual * factor, 0.995), np.minimum(other * factor, 0.995)
    f = np.maximum(f, 1 - o)  # who saw a disagreement saw one kind or the other
    one = _verdicts(f, o, rng)
    both = np.stack([one, _repeated(one, f, o, rng)], axis=1)
    return both * seen[:, :, None]


def _around(p: Array, rng: np.random.Generator) -> Array:
    return rng.beta(_PAIR_PRECISION * p, _PAIR_PRECISION * (1 - p))


def _verdicts(f: Array, o: Array, rng: np.random.Generator) -> Array:
    """(factual, other) with these probabilities and never neither."""
    u = rng.random(len(f))
    return np.column_stack([u < f, u > 1 - o]).astype(float)


def _repeated(one: Array, f: Array, o: Array, rng: np.random.Generator) -> Array:
    """The second annotator's verdicts: the same probabilities, each verdict kept or made anew."""
    n = len(f)
    factual = np.where(rng.random(n) < _KEEP_FACTUAL, one[:, 0] == 1, rng.random(n) < f)
    keep = (rng.random(n) < _KEEP_OTHER) & (one[:, 0] == 1)
    given_factual = np.where(keep, one[:, 1] == 1, rng.random(n) < (f + o - 1) / f)
    return np.column_stack([factual, np.where(factual, given_factual, True)]).astype(float)
