"""Malformed tables, mappings and Parquet files, for `cilab import` and for the commands that read a study."""

from __future__ import annotations

import gzip
import io

import polars as pl

from tests.corpus.driver import Case

GOOD = "model,task_id,score,version\na,t1,1,alone\na,t2,0,alone\nb,t1,0.5,test\n"


def _import(name: str, file: str, content: str | bytes, *words: str, options: tuple[str, ...] = ()) -> Case:
    argv = ("import", "table", file, "--out", "new", *(part for o in options for part in ("-o", o)))
    return Case(f"table: {name}", argv, (file.partition(".")[0], *words), {file: content})


def _parquet(**columns: object) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


def _mapping(name: str, text: str, *words: str) -> Case:
    argv = ("import", "table", "t.csv", "--out", "new", "-o", "mapping=m.yaml")
    return Case(f"mapping: {name}", argv, words, {"t.csv": GOOD, "m.yaml": text})


_WHOLE = _parquet(model=["a"], task_id=["t"], score=[1.0], version=["alone"])

TABLES = [
    _import("an empty file", "t.csv", ""),
    _import("only a heading", "t.csv", "model,task_id,score,version\n"),
    _import("only blank lines", "t.csv", "\n\n\n"),
    _import("no column that is known", "t.csv", "x,y\n1,2\n"),
    _import("no model", "t.csv", "task_id,score\nt,1\n", "model"),
    _import("no task", "t.csv", "model,score\nm,1\n", "task_id"),
    _import("a version that is none", "t.csv", "model,task_id,score,version\nm,t,1,solo\n", "version", "solo"),
    _import("a score that is a word", "t.csv", "model,task_id,score,version\nm,t,good,alone\n", "score", "good"),
    _import("a score that is a percentage", "t.csv", "model,task_id,score,version\nm,t,87,alone\n", "score", "87"),
    _import("a score below zero", "t.csv", "model,task_id,score,version\nm,t,-1,alone\n", "score"),
    _import("a row with too many cells", "t.csv", "model,task_id,score,version\nm,t,1,alone,what\n"),
    _import("a quote that never ends", "t.csv", 'model,task_id,score,version\n"m,t,1,alone\n'),
    _import("an ending that is not known", "t.xlsx", b"PK\x03\x04", "xlsx"),
    _import("no ending", "t", GOOD),
    _import("a zip file that says it is CSV", "t.csv", b"PK\x03\x04" + bytes(range(256))),
    _import("JSON that is broken", "t.json", '[{"model": "m"'),
    _import("JSON that is a number", "t.json", "5"),
    _import("JSON that is a text", "t.json", '"model"'),
    _import("JSON that is an empty list", "t.json", "[]"),
    _import("JSON of lists", "t.json", "[[1, 2], [3, 4]]"),
    _import("JSONL with a broken line", "t.jsonl", '{"model": "m", "task_id": "t", "score": 1}\n{"model":\n'),
    _import("JSON that is nested too deeply", "t.json", "[" * 5000 + "]" * 5000),
    _import("a gzip file that is cut", "t.csv.gz", gzip.compress(GOOD.encode())[:20]),
    _import("a gzip file that is none", "t.csv.gz", GOOD),
    _import("a date that is none", "t.csv", "model,task_id,score,version,started_at\nm,t,1,alone,yesterday\n",
            "started_at", "yesterday"),
    _import("a seed that is a word", "t.csv", "model,task_id,score,version,seed\nm,t,1,alone,first\n", "seed", "first"),
    _import("a count below zero", "t.csv", "model,task_id,score,version,tokens_in\nm,t,1,alone,-5\n", "tokens_in"),
    _import("a status that is none", "t.csv", "model,task_id,score,version,status\nm,t,1,alone,fine\n", "status"),
    _import("an option that is none", "t.csv", GOOD, options=("on_bd=drop",)),
    _import("a way with bad rows that is none", "t.csv", GOOD, "on_bad", options=("on_bad=keep",)),
    _import("a column that is not there", "t.csv", GOOD, "nobody", options=("model=nobody",)),
    _import("a table that is none", "t.csv", GOOD, "results", options=("into=results",)),
    _import("a matrix of what is no column", "t.csv", GOOD, "colour", options=("wide=colour",)),
    Case("table: an option without a value", ("import", "table", "t.csv", "--out", "new", "-o", "model"),
         ("model", "key=value"), {"t.csv": GOOD}),
    Case("table: no such file", ("import", "table", "nowhere.csv", "--out", "new"), ("nowhere.csv",)),
    Case("table: a folder", ("import", "table", ".", "--out", "new"), ()),
    Case("table: a kind of import that is none", ("import", "tabel", "t.csv", "--out", "new"), ("tabel", "table"),
         {"t.csv": GOOD}),
    Case("table: a study that is there already", ("import", "table", "t.csv", "--out", "{out}"), ("already holds",),
         {"t.csv": GOOD}),
    Case("table: a release that is no release", ("import", "release", "t.csv", "--out", "new"), ("t.csv",),
         {"t.csv": GOOD}),
    Case("table: a release that is not there", ("import", "release", "nowhere", "--out", "new"), ("nowhere",)),
    Case("table: a release folder that is empty", ("import", "release", "r", "--out", "new"), ("r",), {"r/x.txt": ""}),
    Case("table: an inspect log that is none", ("import", "inspect", "t.json", "--out", "new"), ("nspect",),
         {"t.json": "{}"}),
    Case("table: an inspect log that is cut", ("import", "inspect", "t.eval", "--out", "new"), ("nspect",),
         {"t.eval": b"PK\x03\x04\x14"}),
    Case("table: labels that are no form", ("import", "labels", "t.csv", "--out", "{out}"), ("t.csv",),
         {"t.csv": GOOD}),
    Case("table: labels for no study", ("import", "labels", "t.csv", "--out", "nowhere"), ("nowhere",),
         {"t.csv": "run_id,index,label\nx,0,other\n"}),
    Case("table: reviews that are empty", ("import", "reviews", "t.csv", "--out", "{out}"), ("t.csv",), {"t.csv": ""}),
    Case("table: reviews that are not there", ("import", "reviews", "nowhere.csv", "--out", "{out}"), ("nowhere",)),
]  # fmt: skip

MAPPINGS = [
    _mapping("an empty mapping", "", "m.yaml"),
    _mapping("a mapping that is a list", "- model\n", "m.yaml"),
    _mapping("a mapping that is no YAML", "columns: {", "m.yaml", "no YAML"),
    _mapping("a mapping with a tag of Python's", "columns: !!python/object/apply:os.getcwd []\n", "m.yaml"),
    _mapping("an unknown key", "colums: {model: model}\n", "colums", "columns"),
    _mapping("a column that we do not have", "columns: {modell: model, task_id: task_id}\n", "modell", "model"),
    _mapping("a column that the file does not have", "columns: {model: agent, task_id: task_id}\n", "agent"),
    _mapping("a scale that is a word", "columns: {model: model, task_id: task_id, score: {from: score, scale: big}}\n",
             "scale"),
    _mapping("columns that are a text", "columns: model\n", "columns"),
]  # fmt: skip

PARQUET = [
    _import("a Parquet file of nothing", "t.parquet", b""),
    _import("a Parquet file of four letters", "t.parquet", b"PAR1"),
    _import("a Parquet file that is text", "t.parquet", GOOD),
    _import("a Parquet file that is cut", "t.parquet", _WHOLE[: len(_WHOLE) // 2]),
    _import("a Parquet file whose end is missing", "t.parquet", _WHOLE[:-4]),
    _import("a Parquet file whose footer is garbage", "t.parquet", _WHOLE[:-40] + b"\xff" * 32 + _WHOLE[-8:]),
    _import("a Parquet file whose footer length is a lie", "t.parquet", _WHOLE[:-8] + b"\xff\xff\xff\x7fPAR1"),
    _import("a Parquet file without our columns", "t.parquet", _parquet(x=[1]), "model"),
    _import("a Parquet file without rows", "t.parquet",
            _parquet(model=pl.Series([], dtype=pl.String), task_id=pl.Series([], dtype=pl.String))),
    _import("a Parquet file whose scores are lists", "t.parquet",
            _parquet(model=["a"], task_id=["t"], version=["alone"], score=[[1.0]]), "score"),
    _import("a Parquet file whose models are numbers in a struct", "t.parquet",
            _parquet(model=[{"a": 1}], task_id=["t"], version=["alone"], score=[1.0]), "model"),
]  # fmt: skip


def _study(
    name: str, part: bytes, *words: str, table: str = "runs", command: tuple[str, ...] = ("status", "s")
) -> Case:
    files = {f"s/tables/{table}/part-000001.parquet": part}
    if table != "runs":
        files["s/tables/runs/part-000001.parquet"] = part
    return Case(f"part: {name}", command, (f"{table}/part-000001.parquet", *words), files)


PARTS = [
    _study("of nothing", b""),
    _study("that is text", b"run_id,model\n"),
    _study("that is cut", _WHOLE[: len(_WHOLE) // 2]),
    _study("whose footer is garbage", _WHOLE[:-40] + b"\xff" * 32 + _WHOLE[-8:]),
    _study("that cilab did not write", _WHOLE),
    _study("with columns of other types", _parquet(run_id=[1], status=[2])),
    _study("of nothing, asked in SQL", b"", command=("query", "select * from runs", "--data", "s")),
    _study("that is cut, asked in SQL", _WHOLE[:90], command=("query", "select * from runs", "--data", "s")),
    _study("that is cut, shown", _WHOLE[:90], command=("show", "abc", "--data", "s")),
    _study("that is cut, graded again", _WHOLE[:90], command=("regrade", "s", "--with", "rules")),
    _study("that is cut, labelled again", _WHOLE[:90], command=("relabel", "s", "--with", "sim/team-judge-a")),
    _study("that is cut, sampled", _WHOLE[:90], command=("sample", "s", "--out", "forms")),
]

CASES = [*TABLES, *MAPPINGS, *PARQUET, *PARTS]
