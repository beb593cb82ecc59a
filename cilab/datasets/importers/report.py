"""What an import did: counts of what was read, placed, dropped, doubled and repaired, each with its reason.

May import `cilab.store`, `cilab.core` and `cilab.datasets.dataset`. Decides nothing: the importers
tell it what they found.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic_core import to_json

from cilab import store
from cilab.core.errors import CilabError
from cilab.datasets.dataset import Dataset

#: dropped: not in the tables; doubled: a repeat of a row that is in them; repaired: in them, with a changed value.
FindingKind = Literal["dropped", "doubled", "repaired"]
#: How many examples of a finding are kept.
EXAMPLES = 3
#: Where a saved import keeps what the tables have no column for, beside `tables/`.
EXTRA_NAME = "extra.jsonl"
REPORT_NAME = "import_report.json"

EXTRA_SCHEMA = pl.Schema(
    {
        "table": pl.String,  # the table that the source row was meant for
        "run_id": pl.String,  # null for a row that was not placed
        "index": pl.Int64,  # of a message; null elsewhere
        "source": pl.String,  # name of the file
        "row": pl.Int64,  # row of that file, from 1, the header not counted
        "reason": pl.String,  # why the row is in no table; null for what is left of a placed row
        "extra_json": pl.String,  # column of the source -> value
    }
)


class ImportFailed(CilabError):
    """A file cannot be imported."""

    def __init__(self, message: str):
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))  # names come from files


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the import did to some rows or cells.

    Attributes
    ----------
    kind : dropped, doubled or repaired.
    table : the table it happened to.
    reason : what and why, in words.
    count : number of rows (dropped, doubled) or of cells (repaired).
    examples : where the first of them stand, as `file row 3: value`.
    """

    kind: FindingKind
    table: str
    reason: str
    count: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Counts of one import, with reasons and first examples.

    Attributes
    ----------
    source : the path that was imported.
    read : `file > table` -> number of source rows (for logs and transcripts: of files and samples).
    placed : table -> number of rows made.
    findings : what was dropped, doubled and repaired.
    notes : what a reader of the data should know (repeats, gaps, guesses).
    """

    source: str
    read: Mapping[str, int]
    placed: Mapping[str, int]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    def count(self, kind: FindingKind) -> int:
        """Rows (dropped, doubled) or cells (repaired) of all findings of a kind."""
        return sum(f.count for f in self.findings if f.kind == kind)

    @property
    def dropped(self) -> int:
        """Source rows that are in no table and repeat none."""
        return self.count("dropped")

    @property
    def doubled(self) -> int:
        """Source rows that repeat one that is in the tables."""
        return self.count("doubled")

    @property
    def repaired(self) -> int:
        """Cells whose value was changed."""
        return self.count("repaired")

    @property
    def table(self) -> pl.DataFrame:
        """The findings as a data frame."""
        rows = [[f.kind, f.table, f.reason, f.count, "; ".join(f.examples)] for f in self.findings]
        names = {"kind": pl.String, "table": pl.String, "reason": pl.String, "count": pl.Int64, "examples": pl.String}
        return pl.DataFrame(rows, schema=names, orient="row")

    def text(self) -> str:
        """The report in plain lines."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        out = [f"{self.source}"]
        out += [f"  read      {n:,} rows of {what}" for what, n in self.read.items()]
        out += [f"  placed    {n:,} rows in {table}" for table, n in self.placed.items()]
        for f in self.findings:
            where = f" (e.g. {'; '.join(f.examples)})" if f.examples else ""
            out.append(f"  {f.kind:<9} {f.count:,} in {f.table}: {f.reason}{where}")
        out += [f"  note      {note}" for note in self.notes]
        return out

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON-able values."""
        return json.loads(to_json(self))

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        esc = html.escape
        rows = "".join(
            f"<tr><td>{f.kind}</td><td>{esc(f.table)}</td><td style='text-align:right'>{f.count:,}</td>"
            f"<td style='text-align:left'>{esc(f.reason)}</td>"
            f"<td style='text-align:left'>{esc('; '.join(f.examples))}</td></tr>"
            for f in self.findings
        )
        counts = [f"read {n:,} rows of {what}" for what, n in self.read.items()]
        counts += [f"placed {n:,} in {table}" for table, n in self.placed.items()]
        found = f"<table><tbody>{rows}</tbody></table>" if rows else ""
        notes = "".join(f"<li>{esc(n)}</li>" for n in self.notes)
        return (
            f"<div><b>import of {esc(self.source)}</b><div>{esc(' · '.join(counts))}</div>{found}"
            f"{f'<ul>{notes}</ul>' if notes else ''}</div>"
        )


@dataclass(frozen=True)
class Imported:
    """A data set made of other people's files, what the import did, and what has no column in our tables.

    Attributes
    ----------
    dataset : the tables.
    report : what was read, placed, dropped, doubled and repaired.
    extra : DataFrame (see `EXTRA_SCHEMA`): the columns of a source row that no table has, and whole rows that were
        dropped or doubled. Together with the tables nothing of the source is lost.
    """

    dataset: Dataset
    report: ImportReport
    extra: pl.DataFrame = field(repr=False)

    def text(self) -> str:
        """The report in plain lines."""
        return self.report.text()

    def _repr_html_(self) -> str:
        return self.report._repr_html_() + self.dataset._repr_html_()

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the data set as a study's folder, with `extra.jsonl` and `import_report.json` beside its tables.

        Raises
        ------
        StoreError
            The folder already holds a study, or cannot be written.
        """
        path = self.dataset.save(folder)
        write_notes(path, self)
        return path


def write_notes(folder: Path, imported: Imported) -> None:
    """Write the report and the extra rows of an import into `folder` (added to those of earlier imports)."""
    extra_path, report_path = folder / EXTRA_NAME, folder / REPORT_NAME
    if imported.extra.height:
        before = extra_path.read_text(encoding="utf-8") if extra_path.exists() else ""
        store.write_text(extra_path, before + imported.extra.write_ndjson())
    before = json.loads(report_path.read_text(encoding="utf-8")) if report_path.exists() else []
    reports = [*before, imported.report.as_dict()]
    store.write_text(report_path, json.dumps(reports, indent=1, ensure_ascii=False) + "\n")


def read_extra(folder: str | os.PathLike[str]) -> pl.LazyFrame:
    """What a saved import could not place (see `EXTRA_SCHEMA`); empty where there is nothing."""
    path = Path(folder) / EXTRA_NAME
    return pl.scan_ndjson(path, schema=EXTRA_SCHEMA) if path.exists() else pl.LazyFrame(schema=EXTRA_SCHEMA)


class Tally:
    """Collects findings, notes and extra rows while an importer works."""

    def __init__(self, source: str | os.PathLike[str]) -> None:
        self.source = str(source)
        self.read: dict[str, int] = {}
        self._findings: dict[tuple[FindingKind, str, str], tuple[int, list[str]]] = {}
        self._notes: list[str] = []
        self._extra: list[pl.DataFrame] = []
        self._extra_rows: list[list[Any]] = []

    def saw(self, what: str, count: int = 1) -> None:
        """`count` more rows of `what` were read."""
        self.read[what] = self.read.get(what, 0) + count

    def find(self, kind: FindingKind, table: str, reason: str, count: int = 1, examples: Iterable[str] = ()) -> None:
        """Count a finding; the same reason adds up."""
        if count:
            before, shown = self._findings.get((kind, table, reason), (0, []))
            shown = [*shown, *examples][:EXAMPLES]
            self._findings[(kind, table, reason)] = (before + count, shown)

    def note(self, text: str) -> None:
        """Add a sentence to the report, once."""
        if text not in self._notes:
            self._notes.append(text)

    def keep(self, rows: pl.DataFrame) -> None:
        """Keep extra rows (a frame of `EXTRA_SCHEMA`)."""
        if rows.height:
            self._extra.append(rows.select(EXTRA_SCHEMA.names()).cast(dict(EXTRA_SCHEMA)))

    def keep_row(
        self,
        table: str,
        extra: Any,
        *,
        run_id: str | None = None,
        index: int | None = None,
        source: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Keep one extra row; `extra` is anything that JSON can hold."""
        values = [table, run_id, index, source, None, reason, to_json(extra, inf_nan_mode="constants").decode()]
        self._extra_rows.append(values)

    def text_of_first_drop(self) -> str:
        """The first reason for which something was dropped, as a sentence; empty where nothing was."""
        for (kind, _, reason), (_, shown) in self._findings.items():
            if kind == "dropped":
                return f"The first ({', '.join(shown[:1])}): {reason}."
        return ""

    def finish(self, name: str, tables: Mapping[str, pl.DataFrame], notes: Sequence[str] = ()) -> Imported:
        """The import as a data set with its report."""
        filled = {table: df for table, df in tables.items() if df.height}
        findings = [Finding(*key, count, tuple(shown)) for key, (count, shown) in self._findings.items()]
        order = {"dropped": 0, "doubled": 1, "repaired": 2}
        findings.sort(key=lambda f: order[f.kind])
        placed = {table: df.height for table, df in filled.items()}
        report = ImportReport(self.source, dict(self.read), placed, tuple(findings), tuple(self._notes))
        dataset = Dataset(name, filled, simulated=_simulated(filled), kind="imported", notes=(*notes, *self._notes))
        extra = pl.concat([*self._extra, pl.DataFrame(self._extra_rows, schema=EXTRA_SCHEMA, orient="row")])
        return Imported(dataset, report, extra)


def _simulated(tables: Mapping[str, pl.DataFrame]) -> bool:
    """True when a model's name is a simulated agent's or a pseudonym of simulated data."""
    if "runs" not in tables:
        return False
    names = pl.col("model", "partner_model").fill_null("").str.contains("^sim[/:]")
    return bool(tables["runs"].select(pl.any_horizontal(names).any()).item())


def short(value: Any, limit: int = 60) -> str:
    """A value as it is quoted in a message: one line, cut."""
    text = value if isinstance(value, str) else repr(value)
    text = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return text if len(text) <= limit else text[: limit - 1] + "…"
