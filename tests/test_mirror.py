"""A study at a URL: played here, copied there, continued from anywhere. S3 is a real server on this machine."""

import shutil

import polars as pl
import pytest
import yaml

import cilab
from cilab import store
from cilab.core.errors import StoreError
from cilab.running.play import run_study


def study(folder, count=4):
    path = folder / "study.yaml"
    block = {"benchmark": "maze", "versions": ["pair"], "models": ["sim/strong"], "mazes": {"count": count}}
    path.write_text(yaml.safe_dump({"name": "mirrored", "blocks": [block]}))
    return path


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "cilab" / "studies"


@pytest.fixture(scope="module")
def s3():
    pytest.importorskip("s3fs", reason="the extra `s3` is not installed")
    server = pytest.importorskip("moto.server", reason="the S3 server of the tests is not installed")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    patch = pytest.MonkeyPatch()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        patch.setenv(name, value)
    import fsspec

    fs = fsspec.filesystem("s3")
    fs.mkdir("lab")
    yield "s3://lab"
    patch.undo()
    running.stop()
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.fixture(params=["s3", "shared folder"])
def place(request, tmp_path):
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/{tmp_path.name}"
    return f"file://{tmp_path}/shared/study"


def ids(url):
    return set(cilab.open(url).runs.select("run_id").collect()["run_id"])


def test_a_study_runs_to_a_url_and_is_read_from_there(place, tmp_path):
    summary = run_study(study(tmp_path), out=place, show_progress=False)
    assert summary.exit_code == 0
    runs = cilab.open(place).runs.collect()
    assert runs.height == 4 and (runs["status"] == "ok").all()
    assert cilab.open(place).messages.select(pl.len()).collect().item() > 8


def test_another_machine_continues_and_pays_nothing_again(place, tmp_path, scratch):
    run_study(study(tmp_path), out=place, show_progress=False)
    before = ids(place)
    shutil.rmtree(scratch)  # another machine: nothing local
    again = run_study(study(tmp_path), out=place, show_progress=False)
    assert again.progress.calls == 0 and again.progress.stored == 4
    shutil.rmtree(scratch)
    more = run_study(study(tmp_path, count=6), out=place, show_progress=False)
    assert more.progress.ok == 2 and ids(place) > before and len(ids(place)) == 6


def test_what_was_not_finished_travels_in_the_journal(place, tmp_path, scratch):
    run_study(study(tmp_path), out=place, limit=2, show_progress=False)
    folder = store.mirror(place).folder
    assert (folder / "journal.sqlite").exists() and (folder / "study.yaml").exists()
    shutil.rmtree(scratch)
    fresh = store.mirror(place)
    assert sorted(p.name for p in fresh.folder.glob("*")) == ["journal.sqlite", "models.csv", "study.yaml", "tables"]


def test_a_push_that_fails_says_where_the_runs_are_and_the_next_one_copies_them(tmp_path, monkeypatch):
    url = f"file://{tmp_path}/shared/study"
    made = store.mirror(url)
    run_study(study(tmp_path), out=tmp_path / "here", show_progress=False)
    shutil.copytree(tmp_path / "here", made.folder)

    def broken(*_):
        raise OSError("the network is down")

    fs, _ = made._fs()
    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "put_file", broken)
        with pytest.raises(StoreError) as error:
            made.push()
    assert "the network is down" in str(error.value) and str(made.folder) in str(error.value)
    assert "\n" not in str(error.value)
    made.push()
    assert len(ids(url)) == 4


@pytest.mark.parametrize("ask", [cilab.status, lambda url: cilab.regrade(url, grader="rules")])
def test_what_needs_a_journal_refuses_a_url_in_one_line(ask, tmp_path):
    run_study(study(tmp_path), out=tmp_path / "here", show_progress=False)
    with pytest.raises(StoreError, match=r"here: a study behind a URL can only be read; name its folder$"):
        ask(f"file://{tmp_path}/here")


@pytest.mark.parametrize(("url", "words"), [("nope://x/y", "nope"), ("s3://", "cannot be")])
def test_a_url_that_is_none_is_one_line(url, words, tmp_path):
    with pytest.raises(StoreError) as error:
        run_study(study(tmp_path), out=url, show_progress=False)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_folder_has_no_mirror():
    assert store.mirror(None) is None and store.mirror("data/x") is None
