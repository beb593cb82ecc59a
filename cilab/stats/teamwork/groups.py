"""Groups of models, and the row that stands for a model.

May import `cilab.core` and its own folder. Scores nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import as_frame
from cilab.core.vocabulary import PSEUDONYM
from cilab.results.arguments import check
from cilab.stats.teamwork.grid import Grid
from cilab.teamwork.terms import FRONTIER


@check("a mapping or a frame of models")
def _groups(name: str, value: Any) -> None:
    """Groups of models: a mapping, or a frame of any kind."""
    if value is not None and not isinstance(value, Mapping | pl.LazyFrame) and not hasattr(value, "columns"):
        raise TableError(f"{name} is {value!r}: give {{'name': ['model', ...]}} or a frame with model and group")


#: `{group: [models]}`, `{model: group}`, or a frame with `model` and `group` or `open_weights`; None: see `members`.
Groups = Annotated[Mapping[str, Any] | pl.DataFrame | None, _groups]


def default_rows(g: Grid) -> list[int]:
    """Positions of the rows at each model's default setting, without an arm.

    That is effort null or "default", else the model's only one. A model that was run at several named efforts and at
    none of these has no default row and is left out.
    """
    out = []
    frame = g.rows.with_row_index("r").filter(pl.col("arm").is_null())
    for (_,), own in frame.group_by(["model"], maintain_order=True):
        plain = own.filter(pl.col("effort").is_null() | (pl.col("effort") == "default"))
        if plain.height == 1 or (plain.height == 0 and own.height == 1):
            out.append(int((plain if plain.height else own)["r"][0]))
    return out


def members(study: Any, g: Grid, groups: Groups = None) -> dict[str, list[str]]:
    """group -> its models that are in the data, as `group_means` takes them. Empty groups are left out.

    Raises
    ------
    TableError
        A named model is not in the data, no group has a model, or `groups` is of another kind.
    """
    there = g.rows["model"].unique(maintain_order=True).to_list()
    if groups is None:
        found = _groups_of_study(study, there)
    elif isinstance(groups, Mapping):
        found = _groups_of_mapping(groups, there)
    else:
        found = _groups_of_frame(groups, there)
    found = {group: names for group, names in found.items() if names}
    if not found:
        raise TableError("groups: no model of these runs belongs to one; give groups={'name': ['model', ...]}")
    return found


def _groups_of_mapping(groups: Mapping[str, Any], there: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in groups.items():
        if not isinstance(value, Collection):
            raise TableError(f"groups: {key!r} has {value!r}; give it a list of models, such as [{there[0]!r}]")
        pairs = [(value, key)] if isinstance(value, str) else [(key, name) for name in value]
        for group, name in pairs:
            if name not in there:
                raise TableError(f"groups: no model {name!r} in these runs.{nearest(str(name), list(there))}")
            found.setdefault(str(group), []).append(name)
    return {group: list(dict.fromkeys(names)) for group, names in found.items()}


def _groups_of_frame(frame: Any, there: Sequence[str]) -> dict[str, list[str]]:
    table = as_frame(frame, "groups must be a mapping or a DataFrame")
    if "model" not in table.columns or not {"group", "open_weights"} & set(table.columns):
        raise TableError("groups: the frame needs the column model, and group or open_weights")
    if "group" not in table.columns:
        words = pl.when("open_weights").then(pl.lit("open-weight")).otherwise(pl.lit("closed"))
        table = table.filter(pl.col("open_weights").is_not_null()).with_columns(group=words)
    of = dict(table.filter(pl.col("group").is_not_null()).select("model", "group").iter_rows())
    found: dict[str, list[str]] = {}
    for name in there:
        if name in of:
            found.setdefault(of[name], []).append(name)
    return found


def _groups_of_study(study: Any, there: Sequence[str]) -> dict[str, list[str]]:
    from cilab.core import registry

    table = getattr(study, "models", None)
    table = table.lazy().collect() if isinstance(table, pl.LazyFrame | pl.DataFrame) else registry.models()
    if "group" in table.columns:
        return _groups_of_frame(table, there)
    open_weights = set(table.filter("open_weights")["model"]) if table.height else set()
    return {
        "frontier": [m for m in there if m in FRONTIER or m.startswith(f"{PSEUDONYM}F")],
        "closed, not frontier": [m for m in there if m.startswith(f"{PSEUDONYM}C") or _closed(table, m)],
        "open-weight": [m for m in there if m in open_weights or m.startswith(f"{PSEUDONYM}O")],
    }


def _closed(table: pl.DataFrame, model: str) -> bool:
    known = table.filter((pl.col("model") == model) & ~pl.col("open_weights")) if table.height else table
    return known.height > 0 and model not in FRONTIER and not model.startswith(PSEUDONYM)
