"""Planted keys stand nowhere: not in a journal, Parquet, log, page or notebook, nor in what the command says."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import polars as pl
import pytest
import yaml

import cilab
from cilab import reports
from cilab.collect.answer import without_keys
from cilab.collect.model import Completion, ToolCall
from cilab.core import paths
from cilab.core.errors import ReportError, StudyError
from cilab.core.redact import REDACTED, credentials_of, hide_credentials, hide_values
from cilab.running.load import load_study
from cilab.store import RUN_TABLES
from tests.collect.fault_server import Fault, FaultServer
from tests.corpus.driver import command
from tests.faults import notebooks, studies

KEYS = {
    "OPENAI_API_KEY": "sk-test-0123456789abcdefPLANTED",
    "MY_SERVICE_TOKEN": "plain words and PLANTED too",
    "AWS_SECRET_ACCESS_KEY": "wJalr/XUtn+FEMI/K7MDENG/PLANTED=",
}
USER, PASSWORD = "bob-PLANTED", "open.sesame-PLANTED"
SECRETS = (*KEYS.values(), PASSWORD)
ALL = " ".join([*KEYS.values(), f"Authorization: Bearer {KEYS['OPENAI_API_KEY']}"])


def quoting(body):
    """An answer that quotes every key."""
    if body["model"] in studies.JUDGES:
        return f"complies\n{ALL}"
    if body["model"] == "mate":
        return f"{studies.reply(body)}\n{ALL}\nCALL direct_message {json.dumps({'to': 'lead', 'text': ALL})}"
    return f"{studies.reply(body)} {ALL}"


@pytest.fixture
def here(tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    return folder


def nowhere(folder, *texts):
    """No secret in any file of a folder, packed or unpacked, nor in the texts."""
    for secret in SECRETS:
        for text in texts:
            assert secret not in text
        for path in folder.rglob("*"):
            if path.is_file() and path.parent != folder:  # the user's own files apart
                data = path.read_bytes()
                assert secret.encode() not in data, path
                assert json.dumps(secret)[1:-1].encode() not in data, path


def tables(study):
    return "".join(json.dumps(cilab.open(study).table(t).collect().to_dicts(), default=str) for t in RUN_TABLES)


@pytest.mark.slow
def test_keys_that_models_and_providers_quote_are_stored_nowhere(here):
    with FaultServer(reply=quoting) as server:
        base = server.url
        server.script("halfway", ["ok", "ok", "401"], forever=True)  # what had arrived stays in the journal
        server.script(
            "broken", [Fault("bad_request", message=f"no: {ALL} at http://{USER}:{PASSWORD}@host/v1")], forever=True
        )
        server.script("caller", [Fault("tool_call", name="x", arguments=json.dumps({"k": ALL}))], forever=True)
        names = ("talker", "halfway", "broken", "caller", "mate", "partner", *studies.JUDGES)
        models = {n: {"route": f"openai/{n}", "api_base": base} for n in names}
        models["halfway"]["route"] = "groq/halfway"  # a provider of its own, which the refused key stops
        studies.write(here / "tasks", studies.changed(id="hoist"))
        team = yaml.safe_load(studies.team(here, base, 1).read_text())["blocks"][0]
        maze = {"benchmark": "maze", "versions": ["pair"], "models": list(names[:4]), "max_turns": 4}
        text = yaml.safe_dump(
            {"name": "s", "max_requests": 1, "models": models, "blocks": [maze | {"mazes": {"count": 1}}, team]}
        )
        (here / "s.yaml").write_text(
            f"# before: http://{USER}:{PASSWORD}@host/v1, key {KEYS['OPENAI_API_KEY']}\n{text}"
        )
        ended = [command("run", "s.yaml", "--out", "out", "--gate", "off", "--json")]
    out = here / "out"
    assert ended[0].code == 1
    with closing(sqlite3.connect(out / "journal.sqlite")) as db:
        assert db.execute("SELECT count(*) FROM completions").fetchone()[0] > 0
        packed = "".join(str(row) for row in db.iterdump())
    assert "[redacted]@" in (out / "study.yaml").read_text()
    run_ids = cilab.open(out).runs.collect()["run_id"].to_list()
    ended += [command("show", r, "--data", "out", "--html", f"pages/{r}.html") for r in run_ids]
    ended += [command("show", run_ids[0], "--data", "out"), command("status", "out")]
    ended += [command("query", "select * from messages", "--data", "out", "--format", "csv")]
    ended += [command("sample", "out", "--out", "forms", "-n", "2"), command("export", "inspect", "out")]
    stored = tables(out)
    nowhere(here, stored, packed, *(e.out + e.err for e in ended))
    assert not any("Traceback" in e.err for e in ended)
    # The words around the keys are kept.
    said = cilab.open(out).table("messages").filter(pl.col("seat_kind") == "under_test").collect()
    assert said.filter(pl.col("content").str.contains(REDACTED, literal=True)).height > 0
    assert REDACTED in stored and len(run_ids) > 5
    assert KEYS["OPENAI_API_KEY"] in {r.headers["authorization"].removeprefix("Bearer ") for r in server.requests()}


def test_a_line_about_bad_input_quotes_no_credentials(here):
    block = {"benchmark": "maze", "models": ["m"], "mazes": {"count": 1}}
    url = f"http://{USER}:{PASSWORD}@host/v1"
    for name, base in (("s", url), ("list", [url])):
        models = {"m": {"route": "openai/m", "api_base": base}}
        (here / f"{name}.yaml").write_text(yaml.safe_dump({"name": "s", "models": models, "blocks": [block]}))
    with pytest.raises(StudyError, match=r"models.m.api_base: holds a user name, password or key") as error:
        load_study("s.yaml")
    assert PASSWORD not in str(error.value)
    for argv in (
        ("run", "s.yaml"),
        ("run", "list.yaml"),
        ("run", f"https://{USER}:{PASSWORD}@host/s.yaml"),
        ("status", f"https://{USER}:{PASSWORD}@host/study"),
        ("query", "select 1 from runs", "--data", f"nothing://{USER}:{PASSWORD}@host/x"),
        ("show", KEYS["OPENAI_API_KEY"], "--data", "nowhere"),
    ):
        ended = command(*argv)
        assert ended.code == 2 and "Traceback" not in ended.err
        assert PASSWORD not in ended.err + ended.out and KEYS["OPENAI_API_KEY"] not in ended.err + ended.out


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    monkeypatch.setenv(notebooks.ROOT, str(tmp_path / "root"))
    monkeypatch.setattr(paths, "shipped", notebooks.shipped)
    return tmp_path / "root"


TELL = "import os, sys; key = os.environ['OPENAI_API_KEY']; word = os.environ['MY_SERVICE_TOKEN']\n"


def test_a_report_that_prints_or_raises_a_key_keeps_it_out_of_notebook_page_and_log(here, shipped):
    notebooks.write(shipped, "prints", TELL + "print(key, word, file=sys.stderr); print(key); {'k': [key, word]}")
    notebooks.write(shipped, "raises", TELL + "raise RuntimeError(f'{key} was refused, {word}')")
    report = reports.render("prints", out=here / "reports", figures=here / "figures")
    with pytest.raises(ReportError) as error:
        reports.render("raises", out=here / "reports", figures=here / "figures")
    nowhere(here, str(error.value))
    assert REDACTED in report.html.read_text() and REDACTED in report.notebook.read_text()
    assert REDACTED in (here / "reports" / "raises.failed.ipynb").read_text()
    assert "was refused" in (here / "reports" / "render.log").read_text()


# -- the pieces ---------------------------------------------------------------------------------------------


def test_a_models_words_are_left_alone_but_for_keys_that_are_ours(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEYS["OPENAI_API_KEY"])
    text = "Basic arithmetic: token=12345678, sk-invented-by-the-model, postgres://admin:pw@db, bearer of bad news"
    assert hide_values(text) == text
    key = KEYS["OPENAI_API_KEY"]
    escaped = json.dumps({"k": key}).replace("sk-", "\\u0073k-")
    answer = Completion(f"It is {key}.", (ToolCall("c1", "send", escaped, {"k": key}),), system_fingerprint=key)
    clear = without_keys(answer)
    assert clear.content == f"It is {REDACTED}." and clear.system_fingerprint == REDACTED
    assert clear.tool_calls[0].arguments == {"k": REDACTED}
    assert json.loads(clear.tool_calls[0].arguments_json) == {"k": REDACTED}
    plain = Completion("as it was", (ToolCall("c1", "send", '{"a" :1}', {"a": 1}),))
    assert without_keys(plain) == plain


def test_credentials_in_a_url_are_found_in_it_and_in_texts():
    url = "https://ann:pass%20word@host/v1?api-key=abcdefgh1&n=2"
    assert set(credentials_of(url)) == {"pass%20word", "pass word", "abcdefgh1"}
    assert credentials_of(None) == credentials_of("http://host/v1") == credentials_of("http://[::1") == []
    assert hide_credentials(f"at {url}.") == f"at https://{REDACTED}@host/v1?api-key={REDACTED}&n=2."
    assert os.linesep not in hide_credentials("one line")
