"""The rows of one file on their way into one of our tables: made, checked, filled in, and what is left of them kept.

May import `cilab.core` and this folder's parts. Every source row is placed, dropped or doubled; what
the table has no column for is kept as extra. The rules are said in `table.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic_core import to_json

from cilab.core.errors import first_line, nearest
from cilab.core.tables import TABLES
from cilab.datasets.importers import cells as make
from cilab.datasets.importers import mapping as mappings
from cilab.datasets.importers.guess import header_guess
from cilab.datasets.importers.mapping import Section
from cilab.datasets.importers.reading import read_rows
from cilab.datasets.importers.report import EXAMPLES, EXTRA_SCHEMA, FindingKind, ImportFailed, Tally, short

#: What makes a row of a table: two rows with the same values here are one row.
KEYS: dict[str, tuple[str, ...]] = {
    "runs": ("run_id",),
    "messages": ("run_id", "index"),
    "calls": ("run_id", "purpose", "seat", "index"),
    "labels": ("run_id", "index", "rater", "label"),
    "annotations": ("run_id", "annotator", "repeat", "agent", "feature"),
    "reviews": ("run_id", "reviewer", "old_score", "new_score", "reason", "at"),
    "tasks": ("benchmark", "task_id"),
    "models": ("model",),
}
#: What a run is apart from its number of the repeat.
_CELL = ("benchmark", "task_id", "version", "model", "partner_model", "effort", "partner_effort", "arm")
_ROW = "__row"
_SOURCE = "__source"
#: Required columns of runs that follow from the others where the source does not say them.
_FOLLOW = ("study", "benchmark", "version", "seed", "status", "run_id")


class Rows:
    """The rows of one section on their way into a table."""

    def __init__(
        self,
        section: Section,
        file: Path,
        study: str,
        tally: Tally,
        header: Sequence[str] | None,
        sources: dict[Path, pl.DataFrame],
    ) -> None:
        self.section, self.file, self.study, self.tally = section, file, study, tally
        self.table = TABLES[section.into]
        self.used: set[str] = set()
        self.lost: dict[str, pl.Series] = {}
        self.whole: set[str] = set()  # source columns of which some column of ours holds every cell as it was
        self.cells: dict[str, make.Cells] = {}
        #: What a row is called in the report: rows of a query are not those of the file.
        self.where = f"{file.name}{' as queried' if section.query else ''}"
        self.df = self._read(header, sources)

    def placed(self) -> pl.DataFrame:
        """The section's rows, as rows of its table."""
        self._check_sources()
        if self.section.wide:
            self._unpivot(self.section.wide)
        self._split()
        for ours, column in self.section.columns.items():
            self._make(ours, column)
        out = self._typed_frame()
        out, bad = self._without(out, self._bad())
        out, missing = self._without(out, self._missing(out))
        out = self._filled(out)
        self._check_required(out)
        out, doubled = self._without_doubles(out)
        self._keep_extra(out, [*bad, *missing, *doubled])
        return out.select(self.table.names)

    # reading

    def _read(self, header: Sequence[str] | None, sources: dict[Path, pl.DataFrame]) -> pl.DataFrame:
        def load(path: Path) -> pl.DataFrame:
            if path not in sources:
                sources[path] = read_rows(path, self.tally, header=header)
            return sources[path]

        df = load(self.file)
        self.tally.saw(f"{self.file.name} > {self.table.name}", df.height)
        if self.section.query:
            others = {f"source_{k}": load(self.file.parent / v) for k, v in self.section.also.items()}
            df = _queried(self.section.query, {"source": df} | others, self.file)
        return df.with_row_index(_ROW, 1)

    def _check_sources(self) -> None:
        for ours, column in self.section.columns.items():
            wide = self.section.wide
            there = [*self.df.columns, *((wide.headers, wide.cells) if wide else ())]
            for source in column.sources:
                if source not in there:
                    columns = [c for c in self.df.columns if c != _ROW]
                    hint = nearest(source, columns) or f" There: {', '.join(short(c, 30) for c in columns[:12])}."
                    guess = header_guess(self.df.drop(_ROW), self.file, None)
                    raise ImportFailed(
                        f"{self.file}: no column {source!r} (for {ours}).{hint}{' ' + guess if guess else ''}"
                    )

    def _unpivot(self, wide: mappings.Wide) -> None:
        ids = {s for c in self.section.columns.values() for s in c.sources} | set(wide.skip) | {_ROW}
        cells = [c for c in self.df.columns if c not in ids]
        if not cells:
            raise ImportFailed(f"{self.file}: a matrix needs columns besides {', '.join(sorted(ids - {_ROW}))}")
        texts = self.df.with_columns(make.as_text(self.df[c]).alias(c) for c in cells)
        long = texts.unpivot(
            on=cells, index=[c for c in self.df.columns if c in ids], variable_name=wide.headers, value_name=wide.cells
        )
        empty = long[wide.cells].is_null() | (long[wide.cells] == "").fill_null(False)
        if empty.any():
            self.tally.note(
                f"{self.file.name}: {int(empty.sum()):,} of {long.height:,} cells are empty; they make no row."
            )
        long = long.filter(~empty).sort(_ROW, maintain_order=True)
        if wide.header_values:
            long = long.with_columns(pl.col(wide.headers).replace(wide.header_values))
        # What is left of a source row is kept once, with its first cell.
        again = long[_ROW].is_duplicated() & ~long[_ROW].is_first_distinct()
        long = long.with_columns(
            pl.when(again).then(None).otherwise(pl.col(c)).alias(c) for c in wide.skip if c in long.columns
        )
        self.df = long
        told = {"values": wide.values, "null_if": wide.null_if, "scale": wide.scale, "otherwise": wide.otherwise}
        for ours, more in ((wide.headers, {}), (wide.cells, told)):
            if ours not in self.section.columns:
                self._make(ours, mappings.Column.model_validate({"from": ours} | more))
            self.used.add(ours)

    def _split(self) -> None:
        for ours, column in self.section.columns.items():
            if column.split and column.from_ and not isinstance(self.table.schema[ours], pl.List):
                parts = pl.col(column.from_).str.split(column.split).list.eval(pl.element().str.strip_chars())
                long = self.df.filter(pl.col(column.from_).is_not_null()).with_columns(parts).explode(column.from_)
                without = int(self.df[column.from_].null_count())
                if without:
                    what = f"{without:,} of {self.df.height:,} rows have no {column.from_}"
                    self.tally.note(f"{self.file.name}: {what}; they make no row of {self.table.name}.")
                blank = long[column.from_] == ""
                shown = [f"{self.where} row {r}" for r in long.filter(blank)[_ROW][:EXAMPLES]]
                self.tally.find("dropped", self.table.name, f"empty part of {column.from_}", int(blank.sum()), shown)
                self.df = long.filter(~blank)

    def _make(self, ours: str, column: mappings.Column) -> None:
        definition = next(c for c in self.table.columns if c.name == ours)
        made = make.build(self.df, column, definition)
        self.cells[ours] = made
        if column.template is not None and make.can_be_undone(self.df, column.template):
            self.used.update(column.sources)
        if column.from_ is not None:
            self.used.add(column.from_)
            if made.lost is None:
                self.whole.add(column.from_)
            else:
                before = self.lost.get(column.from_)
                self.lost[column.from_] = made.lost if before is None else before | made.lost
        for reason, mask in made.repaired.items():
            self.tally.find(
                "repaired", self.table.name, f"{ours}: {reason}", int(mask.sum()), self._where(mask, column.from_)
            )

    def _where(self, mask: pl.Series, source: str | None = None) -> list[str]:
        rows = self.df.filter(mask).head(EXAMPLES)
        if source is None or source not in rows.columns:
            return [f"{self.where} row {r}" for r in rows[_ROW]]
        return [f"{self.where} row {r}: {short(v)}" for r, v in rows.select(_ROW, source).iter_rows()]

    # values that cannot stand

    def _typed_frame(self) -> pl.DataFrame:
        columns = [c.values.cast(self.table.schema[name]).alias(name) for name, c in self.cells.items()]
        return pl.DataFrame(
            [self.df[_ROW].alias(_ROW), pl.int_range(self.df.height, eager=True).alias(_SOURCE), *columns]
        )

    def _bad(self) -> list[tuple[str, pl.Series]]:
        """(reason, mask) for every value that cannot stand; refuses unless rows are to be dropped."""
        found: list[tuple[str, pl.Series]] = []
        for ours, made in self.cells.items():
            column = self.section.columns.get(ours)
            theirs = column.from_ if column and column.from_ else ours
            where = f"{self.file}: column {theirs!r} (for {ours})"
            for reason, mask in made.bad.items():
                found += self._judge(f"{ours} {reason}", mask, f"{where}: a value {reason}", theirs, "")
            if ours in make.FRACTIONS:
                outside = ((made.values < 0) | (made.values > 1)).fill_null(False)
                if outside.any():
                    advice = _scale_guess(ours, made.values)
                    message = f"{where}: {_range_of(made.values)}"
                    found += self._judge(f"{ours} outside 0 to 1", outside, message, theirs, advice)
            allowed = self.section.allowed.get(ours) or next(c.allowed for c in self.table.columns if c.name == ours)
            if allowed:
                found += self._listed(ours, made.values, list(allowed), where, theirs)
        return found

    def _listed(
        self, ours: str, values: pl.Series, allowed: list[str], where: str, theirs: str
    ) -> list[tuple[str, pl.Series]]:
        is_list = isinstance(values.dtype, pl.List)
        stray = values.list.eval(~pl.element().is_in(allowed)).list.any() if is_list else ~values.is_in(allowed)
        stray = stray.fill_null(False)
        if not stray.any():
            return []
        words = values.filter(stray).explode() if is_list else values.filter(stray)
        words = [w for w in words.unique(maintain_order=True) if w not in allowed]
        quoted = ", ".join(repr(short(w, 30)) for w in words[:4])
        hint = _VERSION_WORDS.get(words[0].lower()) if ours == "version" else None
        hint = hint or nearest(words[0], allowed, 1).removeprefix(" Did you mean ").rstrip("?") or allowed[0]
        advice = f" Say values={{{ours!r}: {{{words[0]!r}: {hint!r}}}}}, or on_bad='drop'."
        message = f"{where}: {quoted} {'is' if len(words) == 1 else 'are'} not in the list {', '.join(allowed)}"
        return self._judge(f"{ours} outside its list", stray, message, theirs, advice)

    def _judge(
        self, reason: str, mask: pl.Series, message: str, theirs: str, advice: str
    ) -> list[tuple[str, pl.Series]]:
        if not mask.any():
            return []
        if self.section.on_bad == "refuse":
            shown = "; ".join(self._where(mask, theirs))
            raise ImportFailed(
                f"{message} in {int(mask.sum()):,} rows ({shown}).{advice or ' Mend the file, or say on_bad=drop.'}"
            )
        return [(reason, mask)]

    def _missing(self, out: pl.DataFrame) -> list[tuple[str, pl.Series]]:
        """(reason, mask) for required values that the source leaves out; the run id, often put together, comes last."""
        required = [c.name for c in self.table.columns if c.required and c.name in out.columns]
        if self.table.name == "runs":
            required = [c for c in required if c not in ("seed", "status")]
        required.sort(key=lambda name: name == "run_id")
        return [(f"no {name}", out[name].is_null()) for name in required]

    def _check_required(self, out: pl.DataFrame) -> None:
        for column in self.table.columns:
            if column.required and column.name not in out.columns:
                there = ", ".join(short(c, 30) for c in self.df.columns[1:13])
                raise ImportFailed(
                    f"{self.file}: table {self.table.name} needs {column.name} ({column.doc.rstrip('.')}); no column "
                    f"is mapped to it. There: {there}. Say {column.name}='their column' or {column.name}='=value'."
                )

    def _without(
        self, out: pl.DataFrame, bad: list[tuple[str, pl.Series]]
    ) -> tuple[pl.DataFrame, list[tuple[FindingKind, str, pl.DataFrame]]]:
        """The rows that may stand, and (kind, reason, rows) for the others; a row's first reason counts."""
        gone: list[tuple[FindingKind, str, pl.DataFrame]] = []
        standing = pl.Series([True]).new_from_index(0, out.height)
        for reason, mask in bad:
            hit = mask & standing
            if hit.any():
                gone.append(("dropped", reason, out.filter(hit)))
                standing &= ~hit
        return out.filter(standing), gone

    def _without_doubles(self, out: pl.DataFrame) -> tuple[pl.DataFrame, list[tuple[FindingKind, str, pl.DataFrame]]]:
        key = KEYS[self.table.name]
        if out.height == 0:
            return out, []
        again = out.select(~pl.struct(key).is_first_distinct()).to_series()
        if not again.any():
            return out, []
        sources = self.df[out[_SOURCE]].drop(_ROW)
        same = sources.select(~pl.struct(pl.all()).is_first_distinct()).to_series() if sources.width else again
        reason = self.section.doubles
        gone = []
        for mask, text in (
            (again & same, "the same row again"),
            (again & ~same, f"the same {' and '.join(key)} with other content; the first is kept"),
        ):
            if mask.any():
                gone.append(("doubled", reason or text, out.filter(mask)))
        return out.filter(~again), gone

    # values that follow from others

    def _filled(self, out: pl.DataFrame) -> pl.DataFrame:
        filler = getattr(self, f"_filled_{self.table.name}", None)
        if filler:
            out = filler(out)
        gone = [
            pl.lit(None, dtype=c.dtype).alias(c.name)
            for c in self.table.columns
            if c.name not in out.columns and not c.required
        ]
        return out.with_columns(gone)

    def _filled_runs(self, out: pl.DataFrame) -> pl.DataFrame:
        given = set(out.columns)
        out = out.with_columns(
            pl.lit(v).alias(c) for c, v in (("study", self.study), ("benchmark", self.study)) if c not in given
        )
        if "version" not in given:
            self.tally.note("No column says the version; alone is assumed (say version='=baseline' or so).")
            out = out.with_columns(pl.lit("alone").alias("version"))
        blank = [c for c in self.table.columns if c.name not in out.columns and (not c.required or c.name in _FOLLOW)]
        out = out.with_columns(pl.lit(None, dtype=c.dtype).alias(c.name) for c in blank)
        out = self._statuses(out, "score" in given)
        out = out.with_columns(
            passed=pl.when(pl.col("passed").is_null() & (pl.col("status") == "ok"))
            .then(pl.col("score") == 1)
            .otherwise(pl.col("passed"))
        )
        if "model" not in out.columns or "task_id" not in out.columns:
            return out  # `_check_required` says so
        out = self._without_zero_costs(out)
        if out["seed"].null_count():
            if "seed" in given:
                self.tally.note(
                    f"{out['seed'].null_count():,} runs without a seed are numbered in the order of the file."
                )
            number = pl.col(_SOURCE).cum_count().over(pl.struct(_CELL)).cast(pl.Int64) - 1
            out = out.with_columns(seed=pl.coalesce("seed", number))
        if out["run_id"].null_count() and "run_id" not in given:
            ids = make.hashes(out.select(*_CELL, "seed"))
            out = out.with_columns(run_id=ids)
        elif "run_id" in given:
            self._note_repeats()
        return out

    def _statuses(self, out: pl.DataFrame, scored: bool) -> pl.DataFrame:
        unscored = pl.col("score").is_null() if scored else pl.lit(False)
        told = out["status"].is_not_null()
        out = out.with_columns(
            status=pl.coalesce("status", pl.when(unscored).then(pl.lit("error")).otherwise(pl.lit("ok")))
        )
        without = out["score"].is_null() & ~told & (out["status"] == "error")
        if without.any():
            self.tally.note(
                f"{int(without.sum()):,} runs have no score in the source: status error, so no mean counts them."
            )
            out = out.with_columns(
                error=pl.when(pl.Series(without) & pl.col("error").is_null())
                .then(pl.lit("no score in the source"))
                .otherwise(pl.col("error"))
            )
        stray = (out["status"] != "ok") & out["score"].is_not_null()
        if stray.any():
            rows = [f"{self.where} row {r}" for r in out.filter(stray)[_ROW][:EXAMPLES]]
            self.tally.find(
                "repaired", "runs", "score of a run whose status is not ok left out", int(stray.sum()), rows
            )
            self._lose("score", out.filter(stray)[_SOURCE])
            out = out.with_columns(pl.when(stray).then(None).otherwise(pl.col(c)).alias(c) for c in ("score", "passed"))
        return out

    def _without_zero_costs(self, out: pl.DataFrame) -> pl.DataFrame:
        if self.section.zero_cost == "free":
            return out
        none_used = (pl.col("tokens_in") == 0) & (pl.col("tokens_out") == 0)
        for cost in make.COSTS:
            zero = out.select(((pl.col(cost) == 0) & ~none_used.fill_null(False)).fill_null(False)).to_series()
            if zero.any():
                rows = [f"{self.where} row {r}" for r in out.filter(zero)[_ROW][:EXAMPLES]]
                self.tally.find(
                    "repaired", "runs", f"{cost}: a cost of 0 read as an unknown price", int(zero.sum()), rows
                )
                self._lose(cost, out.filter(zero)[_SOURCE])
                out = out.with_columns(pl.when(zero).then(None).otherwise(pl.col(cost)).alias(cost))
        return out

    def _note_repeats(self) -> None:
        column = self.section.columns["run_id"].from_
        rest = self.df.drop([_ROW, *([column] if column else [])])
        if column and rest.width:
            again = rest.select(~pl.struct(pl.all()).is_first_distinct()).to_series().sum()
            if again:
                what = f"{again:,} rows repeat an earlier row in everything but {column}"
                self.tally.note(f"{self.file.name}: {what}; kept, as runs of their own.")

    def _filled_messages(self, out: pl.DataFrame) -> pl.DataFrame:
        return out if "kind" in out.columns else out.with_columns(kind=pl.lit("message"))

    def _filled_labels(self, out: pl.DataFrame) -> pl.DataFrame:
        return out if "index" in out.columns else out.with_columns(index=pl.lit(0, dtype=pl.Int64))

    def _filled_annotations(self, out: pl.DataFrame) -> pl.DataFrame:
        if "agent" not in out.columns:
            out = out.with_columns(agent=pl.lit(0, dtype=pl.Int64))
        if "repeat" not in out.columns and {"run_id", "annotator", "feature"} <= set(out.columns):
            number = pl.col(_SOURCE).cum_count().over("run_id", "annotator", "agent", "feature").cast(pl.Int64) - 1
            out = out.with_columns(repeat=number)
            again = int((out["repeat"] > 0).sum())
            if again:
                what = f"{again:,} annotations are a further look of the same annotator at the same feature"
                self.tally.note(f"{self.file.name}: {what}; kept, numbered by repeat.")
        return out

    def _filled_tasks(self, out: pl.DataFrame) -> pl.DataFrame:
        if "benchmark" not in out.columns:
            out = out.with_columns(benchmark=pl.lit(self.study))
        if "version_hash" not in out.columns:
            out = out.with_columns(version_hash=make.hashes(self.df[out[_SOURCE]].drop(_ROW)))
        return out

    # what is left

    def _lose(self, ours: str, rows: pl.Series) -> None:
        """Keep the source cells of these rows: the table's value no longer says them."""
        column = self.section.columns.get(ours)
        source = column.from_ if column else ours
        if source is not None and source in self.df.columns:
            mask = pl.int_range(self.df.height, eager=True).is_in(rows.to_list())
            before = self.lost.get(source)
            self.lost[source] = mask if before is None else before | mask
            self.whole.discard(source)

    def _keep_extra(self, out: pl.DataFrame, gone: list[tuple[FindingKind, str, pl.DataFrame]]) -> None:
        for kind, reason, rows in gone:
            shown = [f"{self.where} row {r}" for r in rows[_ROW][:EXAMPLES]]
            self.tally.find(kind, self.table.name, reason, rows.height, shown)
            self.tally.keep(self._extra(rows, list(self.df.columns), f"{kind}: {reason}", {}))
        left = [c for c in self.df.columns if c != _ROW and c not in self.used]
        lost = {c: mask for c, mask in self.lost.items() if c not in self.whole}
        self.tally.keep(self._extra(out, left, None, lost))

    def _extra(
        self, rows: pl.DataFrame, columns: list[str], reason: str | None, lost: Mapping[str, pl.Series]
    ) -> pl.DataFrame:
        picked = self.df.with_columns(
            pl.when(mask).then(pl.col(c)).otherwise(None).alias(c) for c, mask in lost.items()
        )
        kept = [c for c in dict.fromkeys([*columns, *lost]) if c != _ROW]
        if not kept or not rows.height:
            return pl.DataFrame(schema=EXTRA_SCHEMA)
        picked = picked[rows[_SOURCE]].select(kept)
        texts = [_row_json(r) for r in picked.iter_rows(named=True)]
        index = pl.col("index") if "index" in rows.columns else pl.lit(None, dtype=pl.Int64)
        run_id = pl.col("run_id") if "run_id" in rows.columns else pl.lit(None, dtype=pl.String)
        out = rows.select(
            pl.lit(self.table.name).alias("table"),
            run_id.alias("run_id"),
            index.alias("index"),
            pl.lit(self.where).alias("source"),
            pl.col(_ROW).cast(pl.Int64).alias("row"),
            pl.lit(reason, dtype=pl.String).alias("reason"),
            pl.Series("extra_json", texts, dtype=pl.String),
        )
        if reason is not None:  # a row that was not placed is kept even where all its cells are empty
            out = out.with_columns(pl.col("extra_json").fill_null("{}"))
        return out.filter(pl.col("extra_json").is_not_null()).select(EXTRA_SCHEMA.names())


#: Other people's words for our versions.
_VERSION_WORDS = {"solo": "alone", "single": "alone", "control": "baseline", "calm": "baseline", "manipulation": "test"}


def _row_json(row: Mapping[str, Any]) -> str | None:
    kept = {k: v for k, v in row.items() if v is not None}
    return to_json(kept, inf_nan_mode="constants").decode() if kept else None


def _range_of(values: pl.Series) -> str:
    return f"values run from {values.min():g} to {values.max():g}; a fraction lies between 0 and 1, and others stand"


def _scale_guess(ours: str, values: pl.Series) -> str:
    top, low = values.max(), values.min()
    if low >= 0 and 1 < top <= 100 and (values > 1).sum() * 2 >= (values > 0).sum():
        return f" It looks like percentages: say scale={{{ours!r}: 0.01}} (on the command line -o scale={ours}=0.01)."
    return " Say scale={...} to divide, or on_bad='drop' to leave these rows out."


def _queried(query: str, frames: Mapping[str, pl.DataFrame], file: Path) -> pl.DataFrame:
    """The answer of a DuckDB SELECT over the source's rows; it can reach nothing else."""
    import duckdb

    with duckdb.connect(":memory:") as db:
        try:
            statements = db.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise ImportFailed(f"{file}: the mapping's query must be one SELECT")
            for name, df in frames.items():
                db.register(name, df.to_arrow())
            db.execute("SET enable_external_access = false")
            db.execute("SET lock_configuration = true")
            return pl.DataFrame(db.sql(query).to_arrow_table())
        except duckdb.Error as e:
            raise ImportFailed(f"{file}: the mapping's query: {first_line(e)}") from None
