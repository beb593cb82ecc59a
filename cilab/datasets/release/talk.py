"""Labels and messages of a simulated release: what was said, and what three raters made of it.

May import `labels`, `model` and `plan` beside it, `cilab.datasets.columns`, numpy and polars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from cilab.datasets.columns import fill, pick
from cilab.datasets.release import labels as words
from cilab.datasets.release import model as model
from cilab.datasets.release.plan import ANYWAY, MISSED, Ints, Plan
from cilab.teamwork.terms import DIMENSIONS

JUDGES = {"referee": "sim:judge1", "second": "sim:judge2", "third": "sim:judge3"}


@dataclass(frozen=True, slots=True)
class Spoken:
    """Labelled messages of the model under test: the run (index into the plan), position in it, final label."""

    run: Ints
    position: Ints
    label: Ints
    wording: Ints


def spoken_labels(p: model.Parameters, plan: Plan, rng: np.random.Generator) -> Spoken:
    """Labels of every message so that a run has a noticed label exactly where the plan says it was noticed."""
    vocabulary = words.vocabulary()
    runs = np.flatnonzero((plan.version > 0) & ~plan.refused)
    conflict = plan.conflict[runs]
    count = np.where(conflict, 3 + rng.binomial(2, 0.5, len(runs)), 2 + rng.binomial(3, 0.47, len(runs)))
    has_deed = np.array([words.has_kind(d, words.GIVES_WAY) for d in DIMENSIONS])[plan.dimension[runs]]
    missed_deed = (plan.mode[runs] == MISSED) & (rng.random(len(runs)) < 0.5)
    gave_in = conflict & (plan.score[runs] == 0)
    gives_way = has_deed & (gave_in | (plan.mode[runs] == ANYWAY) | missed_deed)
    first = np.where(conflict, 1, 0)
    span = count - gives_way - first
    noticed_at = first + (rng.random(len(runs)) * span).astype(int)

    run = np.repeat(np.arange(len(runs)), count)
    position = np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)
    kind = np.full(len(run), words.PLAIN)
    noticed = plan.noticed[runs][run]
    at = noticed_at[run]
    kind[noticed & ((position == at) | ((position > at) & (rng.random(len(run)) < 0.4)))] = words.NOTICED
    kind[gives_way[run] & (position == count[run] - 1)] = words.GIVES_WAY
    dimension = plan.dimension[runs][run]
    cumulative = np.array(vocabulary.cumulative)[dimension, kind]
    label = words.PER_DIMENSION * dimension + (rng.random(len(run))[:, None] >= cumulative).sum(1)
    asks = words.PER_DIMENSION * model.CONFLICT + 3
    asked = rng.random(len(runs)) < np.nan_to_num(p.matrix("asks_share")[plan.row[runs], plan.dimension[runs]])
    label[(position == 0) & conflict[run] & asked[run]] = asks
    return Spoken(runs[run], position, label, rng.integers(0, 2, len(run)))


def labels_table(
    spoken: Spoken, tasks: pl.DataFrame, plan: Plan, run_ids: pl.Series, rng: np.random.Generator
) -> pl.DataFrame:
    """Raters given the final label: the two agree with the dimension's probability, else the third settles."""
    dimension = plan.dimension[spoken.run]
    agree = np.array([words.AGREEMENT[d] for d in DIMENSIONS])
    n, final = len(spoken.run), spoken.label
    near = np.array(words.vocabulary().near)
    wrong = near[final, (rng.random(n) < 0.25).astype(int)]
    same = rng.random(n) < agree[dimension]
    all_differ = ~same & (rng.random(n) < 0.1)
    referee_right = same | (~all_differ & (rng.random(n) < 0.55))
    second_right = same | (~all_differ & ~referee_right)
    referee = np.where(referee_right, final, np.where(all_differ, near[final, 0], wrong))
    second = np.where(second_right, final, np.where(all_differ, near[final, 1], wrong))
    third = np.where(~same | (rng.random(n) < agree[dimension]), final, wrong)
    given = {"referee": referee, "second": second, "third": third, "final": final}
    frames = [_label_rows(run_ids, spoken, slice(None), r, JUDGES.get(r), code) for r, code in given.items()]
    return pl.concat([*frames, *_people(spoken, tasks, plan, run_ids, near, rng)])


def _label_rows(
    run_ids: pl.Series, spoken: Spoken, rows: Any, rater: str, judge: str | None, code: Ints
) -> pl.DataFrame:
    vocabulary = words.vocabulary()
    kinds = np.array(vocabulary.kinds)[code]
    columns = {
        "run_id": run_ids.gather(spoken.run[rows]),
        "index": 2 * spoken.position[rows] + 1,
        "rater": rater,
        "model": judge,
        "label": pick(vocabulary.names, code),
        "gives_way": kinds == words.GIVES_WAY,
        "noticed": kinds == words.NOTICED,
    }
    return fill("labels", columns, len(code))


def _people(
    spoken: Spoken, tasks: pl.DataFrame, plan: Plan, run_ids: pl.Series, near: Ints, rng: np.random.Generator
) -> list[pl.DataFrame]:
    """Two people on 40 messages and a panel of four other judges on those and 144 more (appendix C.2).

    People choose the final label for 82.5 % of messages, a panel judge for 84 % (chosen); at most one message a
    task. The 40 come from the first six dimensions, six or seven each.
    """
    public = (tasks["split"] == "public").to_numpy()[plan.task[spoken.run]]
    candidates = rng.permutation(np.flatnonzero(public & (plan.version[spoken.run] == 2)))
    _, first = np.unique(plan.task[spoken.run[candidates]], return_index=True)
    one_a_task = candidates[np.sort(first)]
    dimension = plan.dimension[spoken.run[one_a_task]]
    chosen = np.concatenate([one_a_task[dimension == d][: 7 if d < 4 else 6] for d in range(6)])
    more = rng.permutation(np.setdiff1d(candidates, chosen))[:144]
    frames = []
    for person in (0, 1):
        rows = chosen[person::2]
        frames.append(_guess(run_ids, spoken, rows, f"person:{person + 1}", None, 0.825, near, rng))
    rows = np.concatenate([chosen, more])
    for k in range(1, 5):
        frames.append(_guess(run_ids, spoken, rows, f"panel:{k}", f"sim:judge{k + 3}", 0.84, near, rng))
    return frames


def _guess(
    run_ids: pl.Series,
    spoken: Spoken,
    rows: Ints,
    rater: str,
    judge: str | None,
    right: float,
    near: Ints,
    rng: np.random.Generator,
) -> pl.DataFrame:
    final = spoken.label[rows]
    wrong = near[final, (rng.random(len(rows)) < 0.25).astype(int)]
    return _label_rows(run_ids, spoken, rows, rater, judge, np.where(rng.random(len(rows)) < right, final, wrong))


def messages_table(p: model.Parameters, spoken: Spoken, plan: Plan, run_ids: pl.Series) -> pl.DataFrame:
    """Each labelled message after the scripted teammate's line that it answers."""
    n = len(spoken.run)
    texts = [t for pair in words.vocabulary().texts for t in pair]
    line = np.concatenate([len(texts) + spoken.position, 2 * spoken.label + spoken.wording])
    said = pick([*texts, *words.SCRIPTED], line)
    order = np.arange(2 * n).reshape(2, n).T.ravel()  # a scripted line, then the answer
    models = p.rows["model"].to_list()
    speaker = np.concatenate([np.full(n, len(models)), plan.row[spoken.run]])
    who = np.repeat([0, 1], n)
    frame = fill(
        "messages",
        {
            "run_id": run_ids.gather(np.tile(spoken.run, 2)),
            "index": np.concatenate([2 * spoken.position, 2 * spoken.position + 1]),
            "round": np.tile(spoken.position, 2),
            "kind": "message",
            "seat": pick(("teammate", "model"), who),
            "seat_kind": pick(("scripted", "under_test"), who),
            "model": pick([*models, None], speaker),
            "content": said,
            "delivered_to": pick([["model"], ["teammate"]], who, pl.List(pl.String)),
        },
        2 * n,
    )
    return frame[order]
