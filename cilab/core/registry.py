"""The known models: names, families, prices, strength tiers, reasoning settings.

May import `cilab.core`. Reads `data/models.csv` (how it was filled
stands in `data/README.md`) and, where the caller passes one, a file of the same form. Never calls a
model, never asks the network, and never replaces an unknown value by a guess: unknown is null.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from cilab.core import tables
from cilab.core.columns import Column
from cilab.core.errors import RegistryError, TableError, first_line, nearest
from cilab.core.paths import shipped
from cilab.core.vocabulary import PSEUDONYM, SIM

#: Model strings that cilab plays itself. What follows is no model's name: `sim/gpt-5` is not gpt-5.
_OWN = (SIM, PSEUDONYM, "local/", "python:")
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Model:
    """One row of the models table; see `cilab.core.tables.MODELS` for what each column means.

    `aliases` and `studies` are tuples here, texts separated by | in the table. None means unknown.
    """

    model: str
    aliases: tuple[str, ...] = ()
    litellm: str | None = None
    builder: str | None = None
    family: str | None = None
    open_weights: bool | None = None
    distilled: bool | None = None
    system_prompt_flexible: bool | None = None
    strength: str | None = None
    effort_lightest: str | None = None
    effort_high: str | None = None
    released: dt.date | None = None
    usd_per_mtok_in: float | None = None
    usd_per_mtok_out: float | None = None
    usd_per_mtok_cached: float | None = None
    studies: tuple[str, ...] = ()
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens. `usd_per_mtok_cached` is None where cached prompt tokens have no price of their own."""

    usd_per_mtok_in: float
    usd_per_mtok_out: float
    usd_per_mtok_cached: float | None

    def cost_usd(self, tokens_in: int | None, tokens_out: int | None, tokens_cached: int | None = None) -> float | None:
        """Cost of a call; see `cilab.core.registry.cost_usd`."""
        if tokens_in is None or tokens_out is None:
            return None
        cached = tokens_cached or 0
        if min(tokens_in, tokens_out, cached) < 0 or cached > tokens_in:
            raise ValueError(f"impossible usage: {tokens_in} tokens in, {tokens_out} out, {cached} cached")
        per_cached = self.usd_per_mtok_in if self.usd_per_mtok_cached is None else self.usd_per_mtok_cached
        millionths = (tokens_in - cached) * self.usd_per_mtok_in + cached * per_cached
        return (millionths + tokens_out * self.usd_per_mtok_out) / 1e6


def models(extra: str | Path | None = None) -> pl.DataFrame:
    """The models table, checked against `cilab.core.tables.MODELS`.

    Parameters
    ----------
    extra : a CSV file with further models, in the form of `data/models.csv`. Columns may be left out
        (null), `model` may not. A row with the name of a known model replaces it.

    Returns
    -------
    pl.DataFrame
        One row per model: the shipped ones in the order of the file, then the new ones.

    Raises
    ------
    RegistryError
        A file cannot be read, has an unknown column or a value of the wrong kind, or two models
        answer to the same name.
    """
    return _load(*_key(extra)).table


def find(name: str, extra: str | Path | None = None) -> Model:
    """The model called `name`.

    Parameters
    ----------
    name : canonical name, alias or LiteLLM string, also with another provider in front
        (`azure/gpt-4.1`). Case does not matter, and space, underscore, dot and hyphen are the same.
    extra : as in `models`.

    Raises
    ------
    RegistryError
        No such model; the message holds the nearest names.

    Examples
    --------
    >>> find("openai/gpt-4.1").model
    'gpt-4.1'
    >>> find("Gemini 2.5 Pro").strength
    'strong'
    """
    model = lookup(name, extra)
    if model is None:
        known = _load(*_key(extra)).table["model"].to_list()
        hint = nearest(_tail(name), known) or nearest(name, known)
        raise RegistryError(f"no model called {name!r} in the registry.{hint}")
    return model


def lookup(name: str, extra: str | Path | None = None) -> Model | None:
    """As `find`, with None for a model that is not known."""
    by_name = _load(*_key(extra)).by_name
    for candidate in _tails(name):
        if (model := by_name.get(_normal(candidate))) is not None:
            return model
    return None


def family(name: str, extra: str | Path | None = None) -> str | None:
    """Family of a model; None where the model or its family is unknown.

    Families are the builders', as in the disagreement analysis of the collaboration-gap paper,
    appendix D.2.2, where o3 and gpt-5 are of one family.
    """
    model = lookup(name, extra)
    return model.family if model else None


def price(name: str, extra: str | Path | None = None) -> Price | None:
    """What a model costs, USD per million tokens; None where that is unknown.

    The price is that of the provider in the model's LiteLLM string. For the same model at another
    provider (`azure/gpt-4.1`) it is unknown here: None, not the first provider's price.
    """
    model = lookup(name, extra)
    if model is None or model.usd_per_mtok_in is None or model.usd_per_mtok_out is None:
        return None
    if not _at_home(name, model):
        return None
    return Price(model.usd_per_mtok_in, model.usd_per_mtok_out, model.usd_per_mtok_cached)


def cost_usd(
    name: str,
    tokens_in: int | None,
    tokens_out: int | None,
    tokens_cached: int | None = None,
    extra: str | Path | None = None,
) -> float | None:
    """Cost of a call in USD at list price, or None where it cannot be known.

    Parameters
    ----------
    name : as in `find`.
    tokens_in : prompt tokens, the cached ones included.
    tokens_out : completion tokens, reasoning included.
    tokens_cached : the part of `tokens_in` that was read from a cache; None (not exposed) counts as 0.

    Returns
    -------
    float or None
        None when the price or a number of tokens is unknown, never 0 instead. Cached tokens without a price
        of their own cost as much as the others. Surcharges (long prompts, writing to a cache) are not in it.

    Raises
    ------
    ValueError
        A negative number of tokens, or more cached tokens than prompt tokens.

    Examples
    --------
    >>> cost_usd("gpt-4.1", 1_000_000, 100_000)
    2.8
    """
    known = price(name, extra)
    return known.cost_usd(tokens_in, tokens_out, tokens_cached) if known else None


@dataclass(frozen=True, slots=True)
class _Registry:
    table: pl.DataFrame
    by_name: MappingProxyType[str, Model]


def _key(extra: str | Path | None) -> tuple[Path | None, int]:
    """What the cache goes by: the file and when it last changed."""
    if extra is None:
        return None, 0
    path = Path(extra).resolve()
    try:
        return path, path.stat().st_mtime_ns
    except OSError as e:
        raise RegistryError(f"{extra}: cannot read the models file ({e.strerror})") from None


@lru_cache(maxsize=8)
def _load(extra: Path | None, _changed: int) -> _Registry:
    table = _read(shipped("data/models.csv"))
    if extra is not None:
        more = _read(extra)
        table = pl.concat([table.filter(~pl.col("model").is_in(more["model"].to_list())), more])
    known = [_model(row) for row in table.iter_rows(named=True)]
    return _Registry(table, MappingProxyType(_index(known)))


def _read(path: Path) -> pl.DataFrame:
    """A models file as a checked table. Everything is read as text first, so that messages can name the column."""
    try:
        raw = pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as e:
        raise RegistryError(f"{path}: cannot read the models file ({first_line(e)})") from None
    unknown = [c for c in raw.columns if c not in tables.MODELS.names]
    if unknown:
        hint = nearest(unknown[0], tables.MODELS.names)
        raise RegistryError(f"{path}: no column {unknown[0]!r} in a models file.{hint}")
    if "model" not in raw.columns:
        raise RegistryError(f"{path}: a models file needs the column 'model'")
    columns = [_typed(path, raw, c) for c in tables.MODELS.columns]
    try:
        return tables.check("models", pl.DataFrame(columns))
    except TableError as e:
        raise RegistryError(f"{path}: {e}") from None


def _typed(path: Path, raw: pl.DataFrame, column: Column) -> pl.Series:
    if column.name not in raw.columns:
        return pl.Series(column.name, [None] * raw.height, dtype=column.dtype)
    texts = raw[column.name].str.strip_chars()
    texts = texts.set(texts == "", None)
    if column.dtype == pl.Boolean:
        typed = texts.str.to_lowercase().replace_strict(_TRUTH, default=None, return_dtype=pl.Boolean)
    elif column.dtype == pl.Date:
        typed = texts.str.to_date("%Y-%m-%d", strict=False)
    else:
        typed = texts.cast(column.dtype, strict=False)
    bad = texts.filter(texts.is_not_null() & typed.is_null())
    if bad.len():
        raise RegistryError(f"{path}: {column.name} is {bad[0]!r}, which is no {_KINDS[column.dtype]}")
    if column.dtype == pl.Float64 and not typed.drop_nulls().is_between(0, float("inf"), closed="left").all():
        raise RegistryError(f"{path}: {column.name} holds a negative or infinite price")
    return typed


_KINDS = {
    pl.Boolean: "true or false",
    pl.Date: "date (YYYY-MM-DD)",
    pl.Float64: "number",
    pl.String: "text",
}


def _model(row: dict[str, Any]) -> Model:
    parts = {k: tuple(p.strip() for p in (row[k] or "").split("|") if p.strip()) for k in ("aliases", "studies")}
    return Model(**{**row, **parts})


def _index(known: list[Model]) -> dict[str, Model]:
    """Every name that means a model. Whole names must be unique; a LiteLLM string's tail gives way to them."""
    index: dict[str, Model] = {}
    for model in known:
        for name in {_normal(n) for n in (model.model, *model.aliases, model.litellm) if n}:
            if name in index:
                raise RegistryError(f"two models answer to {name!r}: {index[name].model} and {model.model}")
            index[name] = model
    for model in known:
        for tail in _tails(model.litellm or ""):
            index.setdefault(_normal(tail), model)
    index.pop("", None)
    return index


def _normal(name: str) -> str:
    lower = name.strip().lower()
    for mark in " _.":
        lower = lower.replace(mark, "-")
    return lower


def _tails(name: str) -> Iterator[str]:
    """`a/b/c`, then `b/c`, then `c`; a first part that ends with a colon (`together:x/y`) counts as a provider too."""
    yield name
    if name.lower().startswith(_OWN):
        return
    rest = name
    if ":" in name.split("/")[0]:
        rest = name.split(":", 1)[1]
        yield rest
    while "/" in rest:
        rest = rest.split("/", 1)[1]
        yield rest


def _tail(name: str) -> str:
    return list(_tails(name))[-1]


def _at_home(name: str, model: Model) -> bool:
    """Whether `name` means the model at the provider of its LiteLLM string: that string, or a name without provider."""
    whole = {_normal(n) for n in (model.model, *model.aliases, model.litellm or "")}
    return _normal(name) in whole or ("/" not in name and ":" not in name)
