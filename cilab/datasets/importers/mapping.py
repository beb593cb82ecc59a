"""What a mapping file may say: which column of a source becomes which column of our tables.

May import `cilab.core` and this folder's `report`. Reads mapping files (YAML), no data.

A mapping file (the shipped ones stand in `mappings/`, to be used by name or copied):

    name: my_runs                     # name of the data set
    about: One sentence a reader needs. It becomes a note of the data set.
    tables:
      - into: runs                    # a table of cilab.core.tables
        file: runs.parquet            # or a list of names, the first that is there; for a folder as PATH
        query: SELECT * FROM source   # optional DuckDB SELECT; `source` is the file, `source_NAME` a file of `also`
        wide: {headers: task_id, cells: score}   # optional: a matrix; the other columns become rows
        columns:
          model: submission           # our column: their column
          version: =alone             # a constant
          run_id: "{submission}/{instance_id}"   # put together
          score: {from: pass_pct, scale: 0.01}   # and the rest, see `Column`
        allowed: {label: [yes, no]}   # closed lists beyond those of the tables
        on_bad: refuse                # or drop: rows with a bad value go to the extra rows, counted
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cilab.core import tables as our
from cilab.core.errors import nearest
from cilab.core.inputs import checked
from cilab.datasets.importers.report import ImportFailed

MAPPINGS = Path(__file__).parent / "mappings"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def _texts(value: Any) -> Any:
    """YAML reads `no` as false and `1` as a number; cells are compared as texts."""
    if isinstance(value, Mapping):
        return {_plain(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if value is None else str(value)


Texts = Annotated[list[str], BeforeValidator(_texts)]
TextMap = Annotated[dict[str, str | None], BeforeValidator(_texts)]


class Column(_Strict):
    """Where one of our columns comes from. Exactly one of the first four is given.

    Attributes
    ----------
    from_ : (`from`) name of a source column.
    value : a constant.
    template : text with {column} parts; null where any part is.
    hash : source columns whose texts are hashed together (for `version_hash`).
    values : source text -> our text; what is not in it stays, or is null when `otherwise` is `null`.
    scale : the number is multiplied by it (0.01 for percentages).
    null_if : texts that mean "missing".
    unit : of a time: `ms` or `s` since 1970, `iso` for text.
    split : separator of a list; for a column that is no list, one row is made per part.
    """

    from_: str | None = Field(None, alias="from")
    value: str | int | float | bool | None = None
    template: str | None = None
    hash: list[str] | None = None
    values: TextMap = {}
    otherwise: Literal["keep", "null"] = "keep"
    scale: float | None = None
    null_if: Texts = []
    unit: Literal["iso", "ms", "s"] = "iso"
    split: str | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Column:
        given = [n for n in ("from_", "value", "template", "hash") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError("needs exactly one of from, value, template, hash")
        return self

    @cached_property
    def sources(self) -> list[str]:
        """The source columns it reads."""
        if self.template is not None:
            return [name for _, name, _, _ in Formatter().parse(self.template) if name]
        return [self.from_] if self.from_ is not None else list(self.hash or ())


def column(value: Any) -> Any:
    """A column in its short forms (`name`, `=constant`, `{a}/{b}`) as the long one."""
    if not isinstance(value, str):
        return value
    if value.startswith("="):
        return {"value": value[1:]}
    return {"template": value} if "{" in value and "}" in value else {"from": value}


class Wide(_Strict):
    """A matrix: every column that is neither used nor skipped becomes rows.

    Attributes
    ----------
    headers : our column that takes the names of those columns.
    cells : our column that takes their cells.
    skip : columns that are no cells (kept as extra).
    values, null_if, scale : as in `Column`, for the cells.
    """

    headers: str
    cells: str = "score"
    skip: list[str] = []
    header_values: TextMap = {}
    values: TextMap = {}
    otherwise: Literal["keep", "null"] = "keep"
    null_if: Texts = []
    scale: float | None = None


class Section(_Strict):
    """How one file (or query) fills one table; see the module's text.

    Attributes
    ----------
    zero_cost : what a cost of 0 means where tokens were used or are unknown: an `unknown` price (null, the default)
        or really `free`.
    doubles : why rows of one key stand in the source several times, for the report.
    """

    into: str
    file: Annotated[list[str], BeforeValidator(lambda v: [v] if isinstance(v, str) else v)] = []
    also: dict[str, str] = {}
    query: str | None = None
    wide: Wide | None = None
    columns: dict[str, Annotated[Column, BeforeValidator(column)]] = {}
    allowed: dict[str, Texts] = {}
    on_bad: Literal["refuse", "drop"] = "refuse"
    zero_cost: Literal["unknown", "free"] = "unknown"
    doubles: str | None = None

    @model_validator(mode="after")
    def _known_names(self) -> Section:
        if self.into not in our.TABLES:
            raise ValueError(f"into: no table named {self.into}.{nearest(self.into, tuple(our.TABLES))}")
        names = our.TABLES[self.into].names
        wide = (self.wide.headers, self.wide.cells) if self.wide else ()
        for name in (*self.columns, *self.allowed, *wide):
            if name not in names:
                raise ValueError(f"table {self.into} has no column {name}.{nearest(name, names)}")
        return self


class MappingFile(_Strict):
    """A whole mapping."""

    name: str | None = None
    about: str | None = None
    source: str | None = None
    tables: list[Section]


def load(mapping: str | Path | Mapping[str, Any]) -> tuple[MappingFile, str]:
    """A mapping and what to call it in messages: a mapping, a YAML file, or the name of a shipped one (or of its file).

    Raises
    ------
    ImportFailed
        There is none of that name, or it says something that a mapping cannot say.
    """
    import yaml

    if isinstance(mapping, Mapping):
        return parse(mapping, "mapping"), "mapping"
    path = Path(mapping)
    if not path.is_file():
        name = re.sub(r"\.ya?ml$", "", str(mapping))  # as the shipped file is called, or without its ending
        path = MAPPINGS / f"{name}.yaml"
        if not path.is_file():
            known = shipped_mappings()
            hint = nearest(name, known)
            raise ImportFailed(f"no mapping {mapping}: neither a file nor a shipped one ({', '.join(known)}).{hint}")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        raise ImportFailed(f"{path}: is no YAML ({' '.join(str(e).split())})") from None
    if not isinstance(raw, Mapping):
        raise ImportFailed(f"{path}: a mapping file has `tables:`; see cilab/datasets/importers/mappings")
    return parse(raw, str(path)), str(path)


def parse(raw: Mapping[str, Any], where: str) -> MappingFile:
    """A mapping from plain values; the short form without `tables:` is one runs table.

    Raises
    ------
    ImportFailed
        Something in it is not known; the message names the place.
    """
    if "tables" not in raw:
        top = {k: raw[k] for k in ("name", "about", "source") if k in raw}
        raw = top | {"tables": [{"into": "runs"} | {k: v for k, v in raw.items() if k not in top}]}
        try:
            return checked(MappingFile, raw, where, "", ImportFailed)
        except ImportFailed as e:
            raise ImportFailed(str(e).replace("tables[0].", "", 1)) from None  # no `tables` stands in the file
    return checked(MappingFile, raw, where, "", ImportFailed)


def shipped_mappings() -> list[str]:
    """Names of the mappings that come with cilab."""
    return sorted(p.stem for p in MAPPINGS.glob("*.yaml"))
