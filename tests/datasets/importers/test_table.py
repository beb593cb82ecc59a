"""Tables of runs: mappings, oddities that are mended and counted, and bad input that is refused in one line."""

from __future__ import annotations

import gzip
import json
import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab.datasets.importers.mapping import load, shipped_mappings
from cilab.datasets.importers.report import ImportFailed, read_extra
from cilab.datasets.importers.table import import_table
from cilab.store import open_study

LONG = "model,task_id,score\na,t1,1\na,t2,0\nb,t1,0.5\n"


def runs(imported) -> pl.DataFrame:
    return imported.dataset.runs.collect()


def findings(imported) -> dict[tuple[str, str], int]:
    return {(f.kind, f.reason): f.count for f in imported.report.findings}


def refused(match: str):
    """The error that refuses a file: one line that says `match`."""
    return pytest.raises(ImportFailed, match=match)


# -- what is understood ----------------------------------------------------------------------------------------


def test_columns_are_found_by_their_names_or_synonyms(write):
    path = write("my.csv", "Model,instance_id,Reward,trial,prompt_tokens\nm,t,1,2,30\n")
    row = runs(import_table(path, version="=baseline")).row(0, named=True)
    found = [
        row[c] for c in ("model", "task_id", "score", "passed", "seed", "tokens_in", "version", "status", "benchmark")
    ]
    assert found == ["m", "t", 1.0, True, 2, 30, "baseline", "ok", "my"]


def test_a_mapping_can_be_keywords_a_dict_or_a_yaml_file_and_all_give_the_same(write):
    path = write("r.csv", "who,what,pct,arm\nm,t,50,x\n")
    columns = {"model": "who", "task_id": "what", "score": {"from": "pct", "scale": 0.01}, "version": "=test"}
    yaml = write("m.yaml", json.dumps({"name": "r", "columns": columns | {"arm": "arm"}}))
    by_word = import_table(path, model="who", task_id="what", score="pct", scale={"score": 0.01}, version="=test")
    by_dict = import_table(path, {"name": "r", "columns": columns | {"arm": "arm"}})
    by_file = import_table(path, yaml)
    assert runs(by_word).equals(runs(by_dict)) and runs(by_dict).equals(runs(by_file))
    assert runs(by_word)["score"].to_list() == [0.5]


def test_a_shipped_mapping_goes_by_its_name_or_by_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in shipped_mappings():
        assert load(name) == load(f"{name}.yaml") == load(f"{name}.yml")
    (tmp_path / "metr_runs.yaml").write_text("name: mine\ncolumns: {model: model}\n")
    assert load("metr_runs.yaml")[0].name == "mine" != load("metr_runs")[0].name  # a file that is there comes first
    with pytest.raises(ImportFailed, match=r"no mapping metr_run\.yaml.*Did you mean metr_runs"):
        load("metr_run.yaml")


def test_a_keyword_overrides_a_column_of_the_mapping(write):
    path = write("r.csv", "model,task_id,score,graded\nm,t,1,0.25\n")
    mapping = {"columns": {"model": "model", "task_id": "task_id", "score": "score", "version": "=alone"}}
    assert runs(import_table(path, mapping, score="graded"))["score"].to_list() == [0.25]


@pytest.mark.parametrize("wide", ["task_id", "model"])
def test_a_matrix_is_read_in_both_directions(write, wide):
    other = {"task_id": "model", "model": "task_id"}[wide]
    path = write("m.csv", "name,x,y,z\np,1,0,\nq,0.5,1,0\n")
    imported = import_table(path, wide=wide, version="=alone", **{other: "name"})
    cells = {(r[wide], r[other]): r["score"] for r in runs(imported).to_dicts()}
    assert cells == {("x", "p"): 1, ("y", "p"): 0, ("x", "q"): 0.5, ("y", "q"): 1, ("z", "q"): 0}
    assert "1 of 6 cells are empty" in imported.text()


def test_a_matrix_and_a_long_table_of_the_same_runs_have_the_same_run_ids(write):
    long = import_table(write("a.csv", "model,task_id,score\np,x,1\np,y,0\n"), benchmark="=b", version="=alone")
    wide = import_table(write("b.csv", "model,x,y\np,1,0\n"), wide="task_id", benchmark="=b", version="=alone")
    assert set(runs(long)["run_id"]) == set(runs(wide)["run_id"])


def test_csv_tsv_json_jsonl_parquet_and_gzip_give_the_same_rows(write, tmp_path):
    df = pl.DataFrame({"model": ["a", "b"], "task_id": ["1", "02"], "score": [0.5, 1.0]})
    df.write_parquet(tmp_path / "r.parquet")
    files = [
        write("r.csv", df.write_csv()),
        write("r.tsv", df.write_csv(separator="\t")),
        write("s.csv", df.write_csv(separator=";")),
        write("r.jsonl", df.write_ndjson()),
        write("r.json", json.dumps(df.to_dicts())),
        write("r.csv.gz", gzip.compress(df.write_csv().encode())),
        tmp_path / "r.parquet",
    ]
    made = [runs(import_table(f, name="r", version="=alone")) for f in files]
    assert all(m.equals(made[0]) for m in made)
    assert made[0]["task_id"].to_list() == ["1", "02"]  # no id loses its zero


def test_runs_of_one_cell_are_numbered_as_repeats_and_their_spread_is_told(write):
    rows = "".join(f"m,t{1 + (i > 0)},{i % 2}\n" for i in range(97))
    imported = import_table(write("r.csv", "model,task_id,score\n" + rows), version="=alone")
    assert runs(imported).filter(pl.col("task_id") == "t2")["seed"].to_list() == list(range(96))
    assert "Repeats differ: 1 to 96 runs" in imported.text()
    assert runs(imported)["run_id"].n_unique() == 97


def test_times_are_read_from_milliseconds_seconds_and_text(write):
    path = write("r.csv", "model,task_id,score,a,b\nm,t,1,1700000000000,2023-11-14\n")
    imported = import_table(path, version="=alone", started_at={"from": "a", "unit": "ms"}, finished_at="b")
    row = runs(imported).row(0, named=True)
    assert (row["started_at"].isoformat(), row["finished_at"].isoformat()) == (
        "2023-11-14T22:13:20+00:00",
        "2023-11-14T00:00:00+00:00",
    )


# -- what is mended, counted and kept ---------------------------------------------------------------------------


def test_what_has_no_column_is_kept_as_extra_and_survives_saving(write, tmp_path):
    path = write("r.csv", "model,task_id,score,note,n\nm,t,1,hello 🙂,007\nm,u,0,,\n")
    imported = import_table(path, version="=alone")
    imported.save(tmp_path / "study")
    extra = read_extra(tmp_path / "study").collect()
    assert [json.loads(e) for e in extra["extra_json"]] == [{"note": "hello 🙂", "n": "007"}]
    assert extra["run_id"][0] == runs(imported)["run_id"][0] and extra["row"].to_list() == [1]
    assert open_study(tmp_path / "study").runs.collect().height == 2
    report = json.loads((tmp_path / "study" / "import_report.json").read_text())[0]
    assert report["placed"] == {"runs": 2}


def test_the_same_row_twice_is_one_run_and_counted(write):
    imported = import_table(write("r.csv", "run_id,model,task_id,score\n1,m,t,1\n1,m,t,1\n1,m,t,0\n"), version="=alone")
    assert runs(imported).height == 1
    assert findings(imported) == {
        ("doubled", "the same row again"): 1,
        ("doubled", "the same run_id with other content; the first is kept"): 1,
    }
    assert imported.extra.filter(pl.col("reason").str.starts_with("doubled")).height == 2


def test_missing_ids_drop_the_row_and_keep_it_as_extra(write):
    imported = import_table(write("r.csv", "model,task_id,score\nm,None,1\n,t,1\nm,t,1\n"), version="=alone")
    assert (runs(imported).height, imported.report.dropped) == (1, 2)
    assert set(imported.extra["reason"]) == {"dropped: no task_id", "dropped: no model"}


def test_a_missing_score_is_an_error_and_enters_no_mean(write):
    imported = import_table(write("r.csv", "model,task_id,score\nm,t,\nm,u,NaN\nm,v,1\n"), version="=alone")
    assert runs(imported)["status"].to_list() == ["error", "error", "ok"]
    assert runs(imported)["score"].to_list() == [None, None, 1.0]
    assert findings(imported)[("repaired", "score: NaN read as missing")] == 1


def test_a_cost_of_zero_is_an_unknown_price_unless_no_token_was_used(write):
    head = "model,task_id,score,cost,tokens_in,tokens_out\n"
    text = head + "m,t,1,0.0,10,5\nm,u,1,0,0,0\nm,v,1,0,,\nm,w,1,NaN,1,1\nm,x,1,0.5,1,1\n"
    imported = import_table(write("r.csv", text), version="=alone")
    assert runs(imported)["cost_usd"].to_list() == [None, 0.0, None, None, 0.5]
    assert findings(imported)[("repaired", "cost_usd: a cost of 0 read as an unknown price")] == 2
    assert [json.loads(e) for e in imported.extra["extra_json"]] == [{"cost": "0.0"}, {"cost": "0"}]
    free = import_table(
        write("f.csv", text),
        {
            "zero_cost": "free",
            "columns": dict.fromkeys(("model", "task_id", "score"), "")
            | {"model": "model", "task_id": "task_id", "score": "score", "version": "=alone", "cost_usd": "cost"},
        },
    )
    assert runs(free)["cost_usd"].to_list() == [0.0, 0.0, 0.0, None, 0.5]


def test_nul_and_lone_surrogates_and_bytes_that_are_no_utf8_are_replaced_and_counted(write):
    json_lines = (
        '{"model": "m\\u0000", "task_id": "t\\ud83d", "score": 1}\n{"model": "m", "task_id": "🙂", "score": 0}\n'
    )
    imported = import_table(write("r.jsonl", json_lines), version="=alone")
    assert runs(imported)["model"].to_list() == ["m\ufffd", "m"]
    assert runs(imported)["task_id"].to_list() == ["t\ufffd", "🙂"]
    assert findings(imported) == {
        ("repaired", "lone surrogates replaced by U+FFFD"): 1,
        ("repaired", "NUL replaced by U+FFFD"): 1,
    }
    latin = import_table(write("r.csv", "model,task_id,score\nm,caf\u00e9,1\n".encode("latin-1")), version="=alone")
    assert runs(latin)["task_id"].to_list() == ["caf\ufffd"]
    assert findings(latin) == {("repaired", "bytes that are no UTF-8 replaced by U+FFFD"): 1}


def test_bom_crlf_and_utf16_are_read(write):
    crlf = LONG.replace("\n", "\r\n")
    plain = runs(import_table(write("a.csv", LONG), name="x", version="=alone"))
    bom = import_table(write("b.csv", b"\xef\xbb\xbf" + crlf.encode()), name="x", version="=alone")
    assert runs(bom).equals(plain)
    assert {f.reason for f in bom.report.findings} == {
        "byte order mark at the start left out",
        "line ends CRLF read as LF",
    }
    utf16 = import_table(write("c.csv", crlf.encode("utf-16")), name="x", version="=alone")
    assert runs(utf16).equals(plain)


def test_ids_that_mix_numbers_and_texts_become_texts_and_that_is_told(write):
    rows = [
        {"run_id": 7, "model": "m", "task_id": "t", "score": 1},
        {"run_id": "x7", "model": "m", "task_id": 5, "score": 0},
    ]
    imported = import_table(write("r.jsonl", "\n".join(json.dumps(r) for r in rows)), version="=alone")
    assert runs(imported)["run_id"].to_list() == ["7", "x7"]
    assert "column run_id mixes 1 numbers and 1 texts" in imported.text()
    floats = import_table(write("f.csv", "model,task_id,score\nm,82.0,1\nm,83.0,1\n"), version="=alone")
    assert runs(floats)["task_id"].to_list() == ["82", "83"]


def test_a_model_in_one_version_only_is_kept_and_told(write):
    text = "model,task_id,version,score\na,t,alone,1\na,t,test,1\nb,t,alone,1\n"
    imported = import_table(write("r.csv", text))
    assert runs(imported).height == 3
    assert "1 of 2 models are there in one version only: b (alone); kept." in imported.report.notes


# -- what is refused, in one line ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", ["", "%", " %"])
def test_percentages_are_refused_with_the_column_and_a_guess(write, sign):
    path = write("r.csv", f"model,task_id,pass_rate\na,t,93.3{sign}\nb,t,0{sign}\nc,t,51.6{sign}\n")
    with refused(r"column 'pass_rate' \(for score\).*3.*percentages: say scale=\{'score': 0.01\}") as e:
        import_table(path, score="pass_rate", version="=alone")
    assert "\n" not in str(e.value)
    ok = import_table(path, score="pass_rate", version="=alone", scale={"score": 0.01})
    assert runs(ok)["score"].to_list() == [0.933, 0.0, 0.516]


def test_a_score_above_one_is_refused_or_dropped_and_counted(write):
    path = write("r.csv", "model,task_id,score\na,t,1.045\na,u,1\na,v,-0.1\na,w,0.2\n")
    with refused(r"from -0.1 to 1.045.*in 2 rows \(r.csv row 1: 1.045; r.csv row 3: -0.1\)"):
        import_table(path, version="=alone")
    imported = import_table(path, version="=alone", on_bad="drop")
    assert runs(imported)["score"].to_list() == [1.0, 0.2]
    assert findings(imported) == {("dropped", "score outside 0 to 1"): 2}
    assert [json.loads(e)["score"] for e in imported.extra["extra_json"]] == ["1.045", "-0.1"]


def test_a_word_outside_a_closed_list_is_refused_with_a_guess(write):
    path = write("r.csv", "model,task_id,version,score\na,t,solo,1\na,t,manipulation,1\n")
    with refused(r"'solo', 'manipulation' are not in the list alone.*values=\{'version': \{'solo': 'alone'\}\}"):
        import_table(path)
    ok = import_table(path, values={"version": {"solo": "alone", "manipulation": "test"}})
    assert runs(ok)["version"].to_list() == ["alone", "test"]
    label = write("l.csv", "run_id,index,rater,label\nr,0,x,yes\nr,1,x,yess\n")
    mapping = {
        "tables": [
            {
                "into": "labels",
                "columns": {c: c for c in ("run_id", "index", "rater", "label")},
                "allowed": {"label": ["yes", "no"]},
            }
        ]
    }
    with refused(r"'yess' is not in the list yes, no in 1 rows"):
        import_table(label, mapping)


@pytest.mark.parametrize(
    ("text", "guess"),
    [
        ("gpt-x,task1,0.5\ngpt-x,task2,1\ngpt-y,task1,0\n", "['model', 'task_id', 'score']"),
        ("task1,0,gpt-x,1\ntask2,3,gpt-x,0\n", "['task_id', 'seed', 'model', 'score']"),
    ],
)
def test_a_missing_header_is_refused_with_names_to_use(write, text, guess):
    path = write("r.csv", text)
    with refused(re.escape(f"header={guess}")):
        import_table(path)
    rows = runs(import_table(path, header=json.loads(guess.replace("'", '"')), version="=alone"))
    assert rows.height == text.count("\n") and set(rows["task_id"]) <= {"task1", "task2"}


def test_a_matrix_without_the_word_is_refused_with_a_guess(write):
    with refused(r"looks like a matrix.*wide='task_id', model='submission'"):
        import_table(write("m.csv", "submission,a,b,c\nx,1,0,1\ny,0,0,1\n"))


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("r.csv", b"", "the file is empty"),
        ("r.csv", b"model,task_id,score\n", "has column names .* and no rows"),
        ("r.csv", b" \n", "nothing but blanks"),
        ("r.csv", b"model,task_id,score\na,t,1\na,u,1,9\n", "line 3 has 4 cells, the header 3"),
        ("r.jsonl", b'{"model": "a", "task_id": "t", "score": 1}\n{"model": "a", "ta', "line 2 is no JSON"),
        ("r.jsonl", b"[1, 2]\n", "row 1 is list, not an object"),
        ("r.csv.gz", b"\x1f\x8b\x08\x00cut", "is no whole gzip file"),
        ("r.parquet", b"PAR1 and then nothing", "is cut off"),
        ("r.parquet", b"<html>404</html>", "is no Parquet file"),
        ("r.xlsx", b"PK", "unknown kind of file '.xlsx'"),
        ("r.csv", b"model,task_id,score\na,t,maybe\n", "a value is no number.*row 1: maybe"),
        ("r.csv", b"model,task_id,score,seed\na,t,1,1.5\n", "a value is no whole number"),
        ("r.csv", b"model,task_id,score\na,t,inf\n", "a value is infinite"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_line(write, name, content, match):
    path = write(name, content)
    with refused(match) as e:
        import_table(path, version="=alone")
    assert str(e.value).startswith(str(path)) and "\n" not in str(e.value)


def test_marks_of_a_pattern_in_a_parquet_files_name_are_part_of_the_name(tmp_path):
    df = pl.DataFrame({"model": ["m"], "task_id": ["t"], "score": [1.0]})
    df.write_parquet(tmp_path / "r [1].parquet")
    df.write_parquet(tmp_path / "r 1.parquet")
    assert runs(import_table(tmp_path / "r [1].parquet", version="=alone")).height == 1


def test_a_parquet_file_that_was_cut_off_is_refused(write, tmp_path):
    pl.DataFrame({"model": ["a"] * 500, "task_id": [str(i) for i in range(500)], "score": [1] * 500}).write_parquet(
        tmp_path / "w.parquet"
    )
    whole = (tmp_path / "w.parquet").read_bytes()
    with refused("is cut off"):
        import_table(write("r.parquet", whole[: len(whole) // 2]), version="=alone")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"modell": "a"}, "no column modell. Did you mean model"),
        ({"score": "scores"}, "no column 'scores' .for score.. Did you mean score"),
        ({"mapping": "metr_run"}, "no mapping metr_run.*Did you mean metr_runs"),
        ({"into": "run"}, "no table named run"),
        ({"mapping": {"columns": {"score": {"from": "score", "sclae": 1}}}}, "sclae"),
        ({"mapping": {"columns": {"score": {"scale": 1}}}}, "exactly one of from, value"),
        ({"mapping": {"columns": {"model": "model"}}}, "needs task_id"),
        ({"mapping": {"query": "DROP TABLE source", "columns": {}}}, "must be one SELECT"),
        ({"mapping": {"query": "SELECT * FROM read_csv('/etc/passwd')", "columns": {}}}, "the mapping's query"),
        ({"mapping": {"query": "SELECT nope FROM source", "columns": {}}}, "the mapping's query.*nope"),
    ],
)
def test_a_slip_in_the_mapping_is_named(write, options, match):
    with refused(match):
        import_table(write("r.csv", LONG), **options)


def test_a_missing_file_names_what_is_there(write):
    there = write("runs.csv", LONG)
    with refused("no such file. There: runs.csv"):
        import_table(there.with_name("run.csv"))
    with refused("is a folder; name a file, or say mapping="):
        import_table(there.parent)


def test_every_shipped_mapping_can_be_read():
    assert len(shipped_mappings()) >= 12
    for name in shipped_mappings():
        plan, _ = load(name)
        assert plan.about and plan.source and all(s.file for s in plan.tables)


# -- nothing is lost ------------------------------------------------------------------------------------------------

cell = st.one_of(st.none(), st.text(max_size=4), st.integers(-3, 3), st.floats(allow_nan=True), st.booleans())
row = st.fixed_dictionaries(
    {
        "run_id": st.one_of(st.none(), st.integers(0, 3), st.sampled_from(["a", "b", "None"])),
        "model": st.sampled_from(["m", "n", None, ""]),
        "task_id": st.sampled_from(["t", "u", None]),
        "score": st.one_of(st.none(), st.floats(-1, 2), st.sampled_from(["yes", "no", "x", ""])),
        "cost": st.one_of(st.none(), st.sampled_from([0.0, 1.5])),
        "other": cell,
    }
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(row, min_size=1, max_size=8))
def test_every_row_is_placed_dropped_or_doubled_and_no_cell_is_lost(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "r.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in rows))
    columns = {c: c for c in ("run_id", "model", "task_id", "score")} | {"cost_usd": "cost", "version": "=alone"}
    imported = import_table(path, {"on_bad": "drop", "columns": columns})
    report, placed = imported.report, runs(imported)
    assert placed.height + report.dropped + report.doubled == len(rows)
    whole = imported.extra.filter(pl.col("reason").is_not_null())
    assert whole.height == report.dropped + report.doubled
    assert set(placed["run_id"]) == {str(r["run_id"]) for r in rows if str(r["run_id"]) in set(placed["run_id"])}
    rest = {r["run_id"]: json.loads(r["extra_json"]) for r in imported.extra.to_dicts() if r["reason"] is None}
    for made in placed.to_dicts():
        source = next(
            r
            for r in rows
            if str(r["run_id"]) == made["run_id"] and r["model"] and r["task_id"] and r["score"] in _score_of(made)
        )
        left = rest.get(made["run_id"], {})
        assert ("other" in left) == (source["other"] is not None)
        if made["cost_usd"] is None:
            assert left.get("cost") == (None if source["cost"] is None else "0.0")


def _score_of(made) -> list:
    known = {1.0: ["yes", 1.0], 0.0: ["no", 0.0, -0.0], None: [None, ""]}
    return known.get(made["score"], [made["score"]])


@pytest.mark.parametrize("scale", [0.01, "score=0.01", {"score": 0.01}])
def test_a_factor_may_be_a_number_a_text_or_a_mapping(write, scale):
    path = write("pct.csv", "model,task_id,pct\na,t1,50\n")
    assert runs(import_table(path, score="pct", version="=test", scale=scale))["score"].to_list() == [0.5]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"scale": "abc"}, "scale is 'abc'"),
        ({"scale": True}, "scale is True"),
        ({"scale": [1]}, "scale is"),
        ({"values": 3}, "values is 3"),
        ({"values": {"version": 3}}, "values is"),
        ({"wide": 3}, "wide is 3"),
        ({"model": [1]}, "model is"),
        ({"model": None}, "model is None"),
        ({"model": 3}, "no column|3"),
    ],
)
def test_an_argument_of_another_kind_is_refused_in_one_line(write, said, words):
    path = write("mine.csv", "model,task_id,score\na,t1,1\n")
    with refused(words) as e:
        import_table(path, version="=test", **said)
    assert "\n" not in str(e.value)


def test_cells_that_lack_tasks_are_named_whole(write):
    text = "model,task_id,dimension,score\na,t1,taking_over,1\na,t2,taking_over,0\nb,t1,taking_over,1\n"
    notes = import_table(write("gap.csv", text), version="=test").report.notes
    assert any("b taking_over test 1 of 2" in note for note in notes)
