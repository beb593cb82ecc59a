"""Bad input, as a user meets it: one clear line, the right exit code, nothing written and nothing lost."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess

import pytest
import yaml

from cilab.store.journal import JOURNAL_NAME
from tests.collect.fault_server import FaultServer

STUDY = {
    "name": "small_sim",
    "blocks": [
        {
            "benchmark": "maze",
            "versions": ["solo_full", "pair"],
            "models": ["sim/strong", "sim/weak"],
            "mazes": {"count": 2},
        }
    ],
}
ROLLOUTS = 8


def study_with(top=None, models=None, **block):
    """The text of the small study with some keys changed."""
    changed = {**STUDY, **(top or {})}
    changed["blocks"] = [{**STUDY["blocks"][0], **({"models": models} if models else {}), **block}]
    return yaml.safe_dump(changed)


@pytest.fixture
def write(shell):
    """Write a study file into the shell's folder; returns its name."""

    def put(text, name="study.yaml"):
        (shell.folder / name).write_text(text)
        return name

    return put


@pytest.fixture
def played(shell, write):
    """The small study, played into `out`."""
    write(study_with())
    assert shell.run("run", "study.yaml", "--out", "out").code == 0
    return shell.folder / "out"


def refused(ended, *words, code=2):
    """One line on standard error with all of `words` in it, nothing on standard output, and the exit code."""
    assert ended.code == code, ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err
    assert len(ended.lines) == 1, ended.err
    for word in words:
        assert word in ended.lines[0]


# -- study files ----------------------------------------------------------------------------------------------

SLIPS = {
    "a misspelt key": (study_with(modles=["sim/strong"]), ["study.yaml: blocks[0].modles: unknown key", "models"]),
    "a misspelt key at the top": (study_with({"budget": 3}), ["study.yaml: budget: unknown key", "budget_usd"]),
    "an unknown model": (study_with(models=["gpt-4.1-mnii"]), ["study.yaml: unknown model", "gpt-4.1-mini"]),
    "an unknown simulated agent": (study_with(models=["sim/wek"]), ["study.yaml", "'wek'", "Did you mean weak?"]),
    "an unknown provider": (study_with(models=["opnai/gpt-4.1"]), ["study.yaml", "'opnai'", "Did you mean openai"]),
    "an unknown local model": (study_with(models=["local/smolm"]), ["study.yaml", "local/smolm", "local/smollm2"]),
    "code of the user's that is not there": (study_with(models=["python:nowhere:make"]), ["study.yaml", "nowhere"]),
    "an empty list of seeds": (study_with(seeds=[]), ["study.yaml: blocks[0].seeds"]),
    "no models": (study_with().replace("models:", "arms:").replace("- sim/", "# "), ["study.yaml: blocks[0]"]),
    "a density that nothing solves": (study_with(mazes={"density": 0.97}), ["density", "0.97", "0.75"]),
    "a density that fits no path, after one that does": (
        study_with(mazes={"size": 4, "density": [0.3, 0.75], "path": [5, 6]}),
        ["study.yaml: blocks[0]", "density 0.75", "path_min"],
    ),
    "an unknown benchmark": (study_with(benchmark="mazes"), ["study.yaml: blocks[0].benchmark", "Did you mean maze?"]),
    "a price below zero": (
        study_with({"models": {"m": {"price": {"input": -1, "output": 2}}}}),
        ["study.yaml: models.m.price.input", "got -1"],
    ),
    "no YAML": ("name: [", ["study.yaml", "no YAML"]),
    "an empty file": ("", ["study.yaml", "no study file"]),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_a_study_file_that_is_wrong_is_refused_before_anything_is_written(slip, shell, write):
    text, words = SLIPS[slip]
    refused(shell.run("run", write(text), "--out", "out"), *words)
    assert [p.name for p in shell.folder.iterdir()] == ["study.yaml"]


def test_a_study_file_that_is_not_there_is_named_with_the_nearest(shell, write):
    write(study_with(), "pilot.yaml")
    refused(shell.run("run", "pliot.yaml"), "pliot.yaml: no such study file", "Did you mean pilot.yaml?")


def test_options_that_are_wrong_are_one_line(shell, write):
    write(study_with())
    refused(shell.run("run", "study.yaml", "--gate", "maybe"), "--gate maybe")
    refused(shell.run("run", "study.yaml", "--limit", "0"), "--limit 0")
    refused(shell.run("run", "study.yaml", "--scale", "-1"), "--scale -1")
    refused(shell.run("run", "study.yaml", "--limit", "ten"), "--limit", "integer", "--help")
    refused(shell.run("run", "study.yaml", "--ot", "out"), "--ot", "--out")
    refused(shell.run("rnu", "study.yaml"), "rnu", "--help")
    assert not (shell.folder / "data").exists()


def test_an_edited_study_file_adds_new_runs_and_keeps_the_old_ones_and_the_earlier_file(shell, write, played, rows):
    before = set(rows(played, "runs")["run_id"])
    first = (shell.folder / "study.yaml").read_text()
    write(study_with(max_turns=20))  # another turn cap makes another pair; the solo rollouts stay the same
    planned = set(shell.run("run", "study.yaml", "--dry-run", "--json").json["run_ids"])
    assert (len(before), len(planned), len(before & planned)) == (8, 8, 4)
    assert shell.run("run", "study.yaml", "--out", "out").code == 0
    assert set(rows(played, "runs")["run_id"]) == before | planned
    assert (played / "study.yaml").read_text() == (shell.folder / "study.yaml").read_text()
    assert [p.read_text() for p in played.glob("study-*.yaml")] == [first]
    status = shell.run("status", "out")
    assert "finished  8 of 8, and 4 of earlier plans" in status.out


# -- folders ----------------------------------------------------------------------------------------------------


def test_a_folder_that_another_process_writes_to_is_refused_with_its_pid(shell, write, until, snapshot):
    with FaultServer(latency_s=600) as server:
        models = {"slow": {"route": "openai/slow", "api_base": server.url}}
        write(study_with({"models": models}, models=["slow"]), "slow.yaml")
        holder = shell.start("run", "slow.yaml", "--out", "out")
        assert until(lambda: len(server.requests()) > 0, holder)
        before = snapshot(shell.folder / "out")
        write(study_with())
        refused(shell.run("run", "study.yaml", "--out", "out"), "out: another process", f"pid {holder.process.pid}")
        assert snapshot(shell.folder / "out") == before
        assert shell.run("status", "out").code == 0  # reading needs no lock
        holder.kill()
    assert shell.run("run", "study.yaml", "--out", "out").code == 0  # the lock goes with its process


def mount(*options):
    """Mount, as only root may; the test is left out elsewhere."""
    if subprocess.run(["mount", *map(str, options)], capture_output=True).returncode:
        pytest.skip("only root can mount a disk here")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 400 kB, and a function that makes it larger."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=400k", "tmpfs", disk)
    yield disk, lambda: mount("-o", "remount,size=64m", disk)
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture
def read_only(shell, played, tmp_path):
    """The shell's folder, with the played study in it, as one that cannot be written."""
    if os.geteuid() == 0:  # root writes whatever the permissions say
        disk = tmp_path / "disk"
        disk.mkdir()
        mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", disk)
        shutil.copytree(shell.folder, disk, dirs_exist_ok=True)
        mount("-o", "remount,ro", disk)
        shell.folder = disk
        yield disk
        subprocess.run(["umount", "-l", str(disk)], check=True)
        return
    paths = (shell.folder, *shell.folder.rglob("*"))
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield shell.folder
    for path in paths:
        path.chmod(0o755)


BIG = study_with(versions=["pair"], pairs="all", mazes={"count": 20})


def test_a_full_disk_loses_nothing_that_was_kept_and_the_study_goes_on(shell, write, small_disk, whole):
    disk, enlarge = small_disk
    study, folder = write(BIG), disk / "out"
    planned = shell.run("run", study, "--dry-run", "--json").json["run_ids"]
    first = shell.run("run", study, "--out", folder)
    assert first.code == 1
    assert "Traceback" not in first.err
    assert sum("the disk is full" in line for line in first.lines) == 1
    kept = shell.run("status", folder, "--json").json
    assert kept["missing"] > 0
    again = shell.run("run", study, "--out", folder)
    assert again.code in (1, 2)
    assert "Traceback" not in again.err
    enlarge()
    last = shell.run("run", study, "--out", folder, "--json")
    assert last.code == 0
    assert last.json["replayed"] >= kept["kept_completions"] > 0
    whole(folder, planned)


def test_a_limit_on_file_sizes_is_no_loss_either(shell, write, whole):
    study = write(BIG)

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    first = shell.run("run", study, "--out", "out", preexec_fn=limited)
    assert first.code == 1
    assert "Traceback" not in first.err
    assert sum(JOURNAL_NAME in line for line in first.lines) == 1
    kept = shell.run("status", "out", "--json").json["kept_completions"]
    last = shell.run("run", study, "--out", "out", "--json")
    assert (last.code, last.json["replayed"]) == (0, kept)
    whole(shell.folder / "out", shell.run("run", study, "--dry-run", "--json").json["run_ids"])


def test_a_folder_that_cannot_be_written_is_refused_and_can_be_read(shell, read_only, snapshot):
    before = snapshot(read_only)
    refused(shell.run("run", "study.yaml", "--out", "out"), "out/study.lock: cannot be written", "--out")
    refused(shell.run("run", "study.yaml", "--out", "other"), "other: cannot be made", "--out")
    status = shell.run("status", "out")
    assert (status.code, status.err) == (0, "")
    assert "finished  8 of 8" in status.out
    asked = shell.run("query", "select count(*) as n from runs", "--data", "out", "--format", "csv")
    assert (asked.code, asked.out) == (0, "n\n8\n")
    assert snapshot(read_only) == before


def test_a_corrupt_part_is_named_and_what_it_says_to_do_brings_everything_back(shell, write, played, whole):
    planned = shell.run("run", "study.yaml", "--dry-run", "--json").json["run_ids"]
    part = played / "tables" / "runs" / "part-000001.parquet"
    part.write_bytes(part.read_bytes()[:700])
    question = ("query", "select * from runs", "--data", "out")
    for command in (("run", "study.yaml", "--out", "out"), ("status", "out"), question):
        refused(shell.run(*command), "runs/part-000001.parquet", "Move it and the parts of the same number away")
    for table in ("runs", "messages", "calls"):
        (played / "tables" / table / part.name).rename(shell.folder / f"{table}.broken")
    assert shell.run("run", "study.yaml", "--out", "out").code == 0
    whole(played, planned)


def test_a_corrupt_part_of_another_table_is_named_when_it_is_read_and_before_anything_is_played(shell, played):
    (played / "tables" / "messages" / "part-000001.parquet").write_bytes(b"garbage")
    refused(shell.run("query", "select count(*) from messages", "--data", "out"), "messages/part-000001.parquet")
    refused(shell.run("run", "study.yaml", "--out", "out"), "messages/part-000001.parquet")


def test_a_journal_of_a_newer_version_or_none_at_all_is_refused_and_left_alone(shell, write, played, snapshot):
    newer = shell.folder / "newer"
    shutil.copytree(played, newer)
    with sqlite3.connect(newer / JOURNAL_NAME) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    garbage = shell.folder / "garbage"
    shutil.copytree(played, garbage)
    for path in garbage.glob(f"{JOURNAL_NAME}*"):
        path.unlink()
    (garbage / JOURNAL_NAME).write_bytes(b"this is no database, whatever its name may say" * 100)
    write(study_with(seeds=[5]))  # another file than the one that is kept there
    for folder, word in ((newer, "newer cilab (journal 99"), (garbage, "damaged")):
        before = snapshot(folder)
        refused(shell.run("run", "study.yaml", "--out", folder), JOURNAL_NAME, word)
        refused(shell.run("status", folder), JOURNAL_NAME, word)
        refused(shell.run("query", "select * from runs", "--data", folder), JOURNAL_NAME, word)
        assert snapshot(folder) == before


def test_a_part_of_a_newer_version_is_refused(shell, played):
    import pyarrow.parquet as pq

    part = played / "tables" / "runs" / "part-000001.parquet"
    table = pq.read_table(part)
    pq.write_table(table.replace_schema_metadata({"cilab_tables": "99"}), part)
    refused(shell.run("run", "study.yaml", "--out", "out"), "part-000001.parquet", "newer cilab (tables 99")


# -- keys ---------------------------------------------------------------------------------------------------------


def test_without_an_api_key_nothing_is_called_and_the_variable_is_named(shell, write):
    write(study_with(models=["sim/strong", "openai/gpt-4.1"]))
    ended = shell.run("run", "study.yaml", "--out", "out")
    refused(ended, "study.yaml: openai/gpt-4.1: no API key", "OPENAI_API_KEY")
    assert not (shell.folder / "out").exists()


def test_a_key_that_the_provider_refuses_stops_the_provider_and_not_the_study(shell, write, rows, without):
    key = "sk-test-0123456789abcdefPLANTED"
    with FaultServer(default="401") as server:
        models = {"locked": {"route": "openai/locked", "api_base": server.url}}
        write(study_with({"models": models, "limits": {"openai": {"concurrency": 2}}}, models=["sim/strong", "locked"]))
        ended = shell.run("run", "study.yaml", "--out", "out", env={"OPENAI_API_KEY": key})
        asked = len(server.requests())
    assert ended.code == 1
    assert "Traceback" not in ended.err
    assert f"{ROLLOUTS // 2} not finished; set the right key, then run the same command again: only these" in ended.err
    assert 1 <= asked <= 2
    by = dict(rows(shell.folder / "out", "runs").group_by("model", "status").len().select("model", "len").iter_rows())
    assert by == {"sim/strong": 4, "locked": 4}
    without(key, shell.folder / "out", ended.out, ended.err)


# -- questions ----------------------------------------------------------------------------------------------------


def test_reports_and_parameters_that_do_not_exist_are_named_with_those_that_do(shell, played):
    refused(shell.run("report", "maze_gpa", "--data", "out"), "'maze_gpa'", "maze_gap")
    refused(shell.run("report", "maze_gap", "--data", "out", "-p", "colour=red"), "'colour'", "ci_level")
    refused(shell.run("report", "maze_gap", "--data", "out", "-p", "ci_level"), "-p ci_level", "key=value")
    refused(shell.run("report", "maze_gap", "--data", "nowhere"), "nowhere", "no such folder")
    refused(shell.run("report"), "maze_gap")
    written = [p for p in shell.folder.rglob("*") if p.is_file() and played not in p.parents]
    assert [p.name for p in written] == ["study.yaml"]


def test_sql_that_is_wrong_or_writes_is_refused(shell, played, snapshot):
    before = snapshot(played)
    target = shell.folder / "stolen.csv"
    questions = {
        "selec * from runs": ["Parser Error"],
        "select nope from runs": ["nope"],
        "delete from runs": ["cannot write"],
        "create table t as select 1": ["cannot write"],
        f"copy (select 1) to '{target}'": ["cannot write"],
        "select 1; drop table runs": ["one SELECT"],
        "select * from read_csv('/etc/passwd')": ["disabled"],
        "": ["one SELECT"],
    }
    for sql, words in questions.items():
        refused(shell.run("query", sql, "--data", "out"), *words)
    refused(shell.run("query", "select 1", "--data", "out", "--format", "xml"), "--format xml")
    refused(shell.run("query", "select 1", "--data", "otu"), "otu: no such folder", "Did you mean out?")
    assert not target.exists()
    assert snapshot(played) == before


def test_a_second_look_at_nothing_or_with_nobody_is_refused(shell, played, snapshot):
    before = snapshot(played)
    refused(shell.run("regrade", "nowhere", "--with", "rules"), "nowhere: no such folder")
    refused(shell.run("regrade", "out", "--with", "gpt-9"), "gpt-9")
    refused(shell.run("annotate", "out", "--with", "openai/gpt-4.1"), "OPENAI_API_KEY")
    refused(shell.run("regrade", "out", "--with", "rules", "--repeat", "0"), "--repeat")
    assert snapshot(played) == before
