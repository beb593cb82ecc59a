"""Reports: rendered twice they are the same bytes; what goes wrong is one line; nothing comes from elsewhere."""

from __future__ import annotations

import base64
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import nbformat
import numpy as np
import polars as pl
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image

import cilab
from cilab import datasets, reports, store
from cilab.core import paths, tables
from cilab.core.errors import ReportError
from cilab.reports import RenderedReport, rendering

OUTCOMES = {"solo_full": [1.0, 1.0, 0.8], "solo_distributed": [0.7, 0.6, 0.5], "pair": [0.1, -0.2, 0.3]}


def write_study(folder: Path, models: tuple[str, ...]) -> None:
    """A finished maze study in Parquet, with one refused pair."""
    start = datetime(2026, 10, 9, 12, tzinfo=UTC)
    rows = [
        {
            "run_id": f"{model}-{version}-{i}",
            "study": folder.name,
            "benchmark": "maze",
            "task_id": f"maze-{i}",
            "version": version,
            "model": model,
            "partner_model": model if version == "pair" else None,
            "seed": i,
            "status": "ok",
            "weighted_outcome": value,
            "success": value == 1.0,
            "maze_size": 6,
            "wall_density": 0.3,
            "started_at": start,
            "finished_at": start + timedelta(minutes=i),
        }
        for model in models
        for version, values in OUTCOMES.items()
        for i, value in enumerate(values)
    ]
    rows[-1] |= {"status": "refused", "weighted_outcome": None, "success": None}
    folder.mkdir(parents=True)
    store.write_group(folder, {"runs": tables.frame("runs", rows)})


def bytes_of(*folders: Path) -> dict[str, bytes]:
    """Every file below the folders but the side log."""
    return {
        f"{folder.name}/{p.relative_to(folder)}": p.read_bytes()
        for folder in folders
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != "render.log"
    }


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which the shipped report was rendered twice, from two different folders."""
    here = tmp_path_factory.mktemp("workspace")
    write_study(here / "data" / "studies" / "quick_sim", ("sim/strong", "sim/weak"))
    return here


@pytest.fixture(scope="module")
def rendered(workspace: Path) -> tuple[RenderedReport, dict[str, bytes], dict[str, bytes]]:
    """The report, and its files after the first and after the second rendering."""
    before = Path.cwd()
    elsewhere = workspace / "some" / "where"
    elsewhere.mkdir(parents=True)
    try:
        os.chdir(workspace)
        reports.render("maze_gap", data="data/studies/quick_sim")
        first = bytes_of(workspace / "reports", workspace / "figures")
        shutil.rmtree(workspace / "figures")
        os.chdir(elsewhere)
        report = reports.render(
            "maze_gap",
            data=workspace / "data" / "studies" / "quick_sim",
            out="../../reports",
            figures=workspace / "figures",
        )
        second = bytes_of(workspace / "reports", workspace / "figures")
        report = RenderedReport(
            report.html.resolve(), report.notebook.resolve(), report.figures, report.warnings
        )  # absolute: the folder changes back
    finally:
        os.chdir(before)
    return report, first, second


@pytest.fixture
def ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a notebook of the test's own in the place of those that come with cilab."""
    (tmp_path / "shipped" / "notebooks").mkdir(parents=True)
    monkeypatch.setattr(paths, "shipped", lambda relative: tmp_path / "shipped" / relative)

    def put(name: str, *sources: str, parameters: str = "n = 1") -> None:
        cells = [new_markdown_cell(f"# Report {name}", id="title")]
        cells.append(new_code_cell(parameters, id="parameters", metadata={"tags": ["parameters"]}))
        cells += [new_code_cell(source, id=f"cell-{i}") for i, source in enumerate(sources)]
        kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
        nb = new_notebook(cells=cells, metadata={"kernelspec": kernel})
        nbformat.write(nb, tmp_path / "shipped" / "notebooks" / f"{name}.ipynb")

    return put


# -- the first report ---------------------------------------------------------------------------------


def test_the_same_input_gives_the_same_bytes_from_any_folder(rendered) -> None:
    _, first, second = rendered
    assert sorted(first) == [
        "figures/maze_gap-gap.pdf",
        "figures/maze_gap-gap.png",
        "figures/maze_gap-gap.svg",
        "reports/maze_gap.html",
        "reports/maze_gap.ipynb",
    ]
    assert [name for name in first if first[name] != second[name]] == []


def test_the_report_names_every_file_that_it_wrote(rendered, workspace: Path) -> None:
    report, _, _ = rendered
    assert report.html == (workspace / "reports" / "maze_gap.html").resolve()
    assert [p.name for p in report.figures] == ["maze_gap-gap.png", "maze_gap-gap.svg", "maze_gap-gap.pdf"]
    assert all(p.is_file() for p in report.figures)
    assert report.warnings == ()


def test_the_page_shows_the_numbers_of_the_result_and_what_it_stands_on(rendered, workspace: Path) -> None:
    report, _, _ = rendered
    page = report.html.read_text()
    study = cilab.open(workspace / "data" / "studies" / "quick_sim")
    result = cilab.gap(study)
    for row in result.sheet().cells.rows():
        for text in row:
            assert f">{text}</td>" in page
    assert "Used 17 rollouts." in page
    assert "1 refused" in page
    assert "Study quick_sim" in page
    assert study.data_hash[:12] in page
    assert "2026-10-09 12:02" in page
    assert "<title>[simulated] The collaboration gap</title>" in page
    assert "say nothing about any real model" in page


def test_the_page_has_no_code_and_takes_nothing_from_elsewhere(rendered) -> None:
    page = rendered[0].html.read_text()
    assert "cilab.open" not in page
    assert "<script" not in page.lower()
    assert "<link" not in page.lower()
    assert re.findall(r"""(?:src|href)=["'](?!data:|#)[^"']*""", page) == []
    assert "url(" not in page
    assert page.count("data:image/png;base64,") == 1


def test_the_page_shows_the_saved_figure_itself(rendered) -> None:
    png = base64.b64encode(rendered[0].figures[0].read_bytes()).decode()
    assert png in re.sub(r"\s", "", rendered[0].html.read_text())


def test_fonts_in_a_pdf_hold_outlines_and_no_rules_for_setting_text(rendered) -> None:
    from fontTools.ttLib import TTFont

    pdf = rendered[0].figures[2].read_bytes()
    streams = [zlib.decompressobj().decompress(s) for s in re.findall(rb"stream\r?\n(x.*?)endstream", pdf, re.DOTALL)]
    fonts = [TTFont(io.BytesIO(s)) for s in streams if s.startswith(b"\0\1\0\0")]
    assert fonts and b"/ToUnicode" in pdf
    for font in fonts:
        assert {"glyf", "hmtx"} <= {*font.keys()} and not {"GSUB", "GPOS", "GDEF"} & {*font.keys()}


def test_neither_page_nor_notebook_holds_a_path_of_this_machine_or_a_time_of_rendering(rendered, workspace) -> None:
    report, _, _ = rendered
    notebook = json.loads(report.notebook.read_text())
    for text in (report.html.read_text(), report.notebook.read_text()):
        assert str(workspace) not in text
        assert sys.prefix not in text
    assert "papermill" not in notebook["metadata"]
    assert all({"papermill", "execution"}.isdisjoint(cell["metadata"]) for cell in notebook["cells"])
    injected = next(c for c in notebook["cells"] if "injected-parameters" in c["metadata"].get("tags", []))
    assert 'data = "../data/studies/quick_sim"' in "".join(injected["source"])
    log = [json.loads(line) for line in (workspace / "reports" / "render.log").read_text().splitlines()]
    assert [entry["ending"] for entry in log] == ["done", "done"]
    assert all(datetime.fromisoformat(entry["at"]).tzinfo for entry in log)


def test_every_figure_file_carries_its_provenance(rendered, workspace: Path) -> None:
    study = cilab.open(workspace / "data" / "studies" / "quick_sim")
    png, svg, pdf = rendered[0].figures
    record = json.loads(Image.open(png).info["Description"])
    assert record["study"] == "quick_sim"
    assert record["data_hash"] == study.data_hash
    assert record["simulated"] is True
    assert record["last_finished_at"] == "2026-10-09T12:02:00+00:00"
    assert record["code_version"] == cilab.__version__
    assert record["parameters"]["maze_size"] == 6
    assert study.data_hash in svg.read_text()
    assert "<dc:date>" not in svg.read_text()
    assert study.data_hash.encode() in pdf.read_bytes()
    assert b"CreationDate" not in pdf.read_bytes()


def test_text_in_the_vector_figure_stays_text(rendered) -> None:
    svg = rendered[0].figures[1].read_text()
    assert ">sim/strong</text>" in svg
    assert "SIMULATED AGENTS</text>" in svg


def test_the_notebook_is_committed_without_outputs_and_with_one_parameters_cell() -> None:
    nb = nbformat.read(paths.shipped("notebooks") / "11_maze_gap.ipynb", as_version=4)
    nbformat.validate(nb)
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in nb.cells) == 1
    assert all(len(cell.source.splitlines()) <= 10 for cell in code)
    assert reports.list_reports()["maze_gap"] == "The collaboration gap"


# -- what the data parameter takes --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["published_round", "hand_worked_round"])
def test_a_data_set_is_loaded_by_name(name: str) -> None:
    assert reports.load(name).data_hash == getattr(datasets, name)().data_hash


def test_every_data_set_that_a_notebook_may_name_exists() -> None:
    assert all(callable(getattr(datasets, name)) for name in reports.DATA_SETS)


def test_anything_else_is_opened_as_a_study(tmp_path: Path) -> None:
    write_study(tmp_path / "mine", ("sim/strong",))
    assert reports.load(tmp_path / "mine").runs.collect().height == 9


@pytest.mark.parametrize("data", ["simulated_mazes", Path("simulated_mazes")])
def test_the_name_of_a_data_set_goes_to_the_notebook_as_it_is(
    data: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rendering._data(data, tmp_path / "reports") == "simulated_mazes"
    (tmp_path / "simulated_mazes").mkdir()  # a folder of that name is what is meant
    assert rendering._data(data, tmp_path / "reports") == "../simulated_mazes"


def test_a_misspelt_data_set_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"simulated_maze: no such folder of data\. Did you mean simulated_mazes"):
        reports.render("maze_gap", data="simulated_maze", out=tmp_path / "r", figures=tmp_path / "f")


# -- what a user can get wrong ------------------------------------------------------------------------


def test_an_unknown_report_and_an_unknown_parameter_are_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"no report named 'maze_gpa'\. Did you mean maze_gap[,?]"):
        reports.render("maze_gpa", out=tmp_path / "r")
    with pytest.raises(ReportError, match=r"no parameter 'ci_levle'\. Did you mean ci_level\?"):
        reports.render("maze_gap", params={"ci_levle": 0.9}, out=tmp_path / "r", figures=tmp_path / "f")
    assert not (tmp_path / "r" / "maze_gap.ipynb").exists()


def test_a_folder_of_data_that_is_not_there_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "quickstart").mkdir()
    with pytest.raises(ReportError, match=r"quickstrat: no such folder of data\. Did you mean quickstart\?"):
        reports.render("maze_gap", data=tmp_path / "quickstrat", out=tmp_path / "r", figures=tmp_path / "f")


def test_an_out_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(ReportError, match="cannot make this folder"):
        reports.render("maze_gap", out=tmp_path / "taken", figures=tmp_path / "f")


def test_a_failing_cell_is_one_line_and_keeps_the_notebook_up_to_there(ship, tmp_path: Path) -> None:
    ship("breaks", "print('before')", "raise ValueError('first line\\nsecond line')", "print('after')")
    with pytest.raises(ReportError) as caught:
        reports.render("breaks", out=tmp_path / "r", figures=tmp_path / "f")
    kept = tmp_path / "r" / "breaks.failed.ipynb"
    assert str(caught.value).startswith("report breaks: cell 3 failed with ValueError: first line. ")
    assert str(kept) in str(caught.value)
    assert "\n" not in str(caught.value)
    text = kept.read_text()
    nbformat.validate(nbformat.reads(text, as_version=4))
    assert "before" in text
    assert not (tmp_path / "r" / "breaks.html").exists()
    log = json.loads((tmp_path / "r" / "render.log").read_text())
    assert "ValueError" in log["ending"]

    ship("breaks", "print('mended')")
    reports.render("breaks", out=tmp_path / "r", figures=tmp_path / "f")
    assert not kept.exists()


def test_what_the_data_cannot_give_is_one_line_in_the_report_and_other_faults_stay_faults(ship, tmp_path: Path) -> None:
    ship(
        "lacks",
        "from cilab import reports; from cilab.core import errors",
        "def compute(error): raise error",
        "found = reports.attempt(compute, errors.TableError('labels: <none> in this study'))\nfound",
        "print('false' if not found else 'true')",
        parameters="n = 1",
    )
    report = reports.render("lacks", out=tmp_path / "r", figures=tmp_path / "f")
    page = report.html.read_text()
    assert report.not_computed == ("labels: <none> in this study",)
    assert "Not computed: labels: &lt;none&gt; in this study" in page
    assert "<pre>false" in page
    assert reports.attempt(max, 1, 2) == 2
    with pytest.raises(ZeroDivisionError):
        reports.attempt(divmod, 1, 0)


def test_a_cell_that_takes_too_long_is_stopped(ship, tmp_path: Path) -> None:
    ship("sleeps", "import time; time.sleep(60)")
    with pytest.raises(ReportError, match="took longer than 1 s"):
        reports.render("sleeps", out=tmp_path / "r", figures=tmp_path / "f", cell_timeout_s=1)


def test_a_kernel_that_dies_is_one_line(ship, tmp_path: Path) -> None:
    ship("dies", "import os; os._exit(3)")
    with pytest.raises(ReportError, match="the kernel died"):
        reports.render("dies", out=tmp_path / "r", figures=tmp_path / "f")


def test_the_kernel_is_this_interpreter_and_the_readers_set_up_stays_out(
    ship, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoy = tmp_path / "jupyter" / "kernels" / "python3"
    decoy.mkdir(parents=True)
    (decoy / "kernel.json").write_text(json.dumps({"argv": ["/bin/false"], "display_name": "x", "language": "python"}))
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text("print('from the startup file')")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    ship("where", "import sys; print(sys.executable)", "import warnings; warnings.warn('to the log')")
    begun = []
    report = reports.render(
        "where", out=tmp_path / "r", figures=tmp_path / "f", progress=lambda *step: begun.append(step)
    )
    page = report.html.read_text()
    assert sys.executable in page
    assert "startup file" not in page
    assert begun == [(i, 3, "Report where") for i in (1, 2, 3)]
    assert any("to the log" in line for line in report.warnings)
    assert "to the log" not in page.split("<footer>")[0]
    assert "to the log" in (tmp_path / "r" / "render.log").read_text()


def test_parameters_reach_the_notebook_with_their_values(ship, tmp_path: Path) -> None:
    ship("says", "print([n, when, where])", parameters="n = 1\nwhen = None\nwhere = ''")
    values = {"n": np.int64(7), "when": date(2026, 10, 9), "where": tmp_path / "data"}
    page = reports.render("says", params=values, out=tmp_path / "r", figures=tmp_path / "f").html.read_text()
    assert "[7, '2026-10-09', '../data']" in html.unescape(page)


# -- the parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        ("text", "text"),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.array([1, 2]), [1, 2]),
        (("a", np.int32(3)), ["a", 3]),
        ({"b", "a"}, ["a", "b"]),
        ({"k": Path("/elsewhere/x")}, {"k": "/elsewhere/x"}),
        (datetime(2026, 10, 9, 1, 2, tzinfo=UTC), "2026-10-09T01:02:00+00:00"),
    ],
)
def test_parameters_become_plain_values(value, plain, tmp_path: Path) -> None:
    found = reports.normalise("p", value, tmp_path / "reports")
    assert found == plain
    assert type(found) is type(plain)


def test_a_value_that_no_notebook_can_hold_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="parameter 'p' is a object"):
        reports.normalise("p", object(), tmp_path)


def test_saving_without_a_folder_writes_nothing_and_a_name_cannot_leave_the_folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs = pl.DataFrame(
        {"version": ["pair"] * 2, "model": "m", "partner_model": "m", "status": "ok", "weighted_outcome": [0.1, 0.2]}
    )
    result = cilab.gap(runs)
    ax = result.plot()
    assert reports.save(ax, "gap", result=result) == ()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ReportError, match="figure name"):
        reports.save(ax, "../gap", result=result, folder=tmp_path)
    saved = reports.save(ax, "gap", result=result, folder=tmp_path / "new")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == sorted(p.name for p in saved)


def test_saving_a_figure_with_characters_that_no_font_has_warns_once(tmp_path: Path) -> None:
    name = "\N{PHOENICIAN LETTER ALF}\N{PHOENICIAN LETTER BET}"
    runs = pl.DataFrame(
        {"version": ["pair"] * 2, "model": name, "partner_model": name, "status": "ok", "weighted_outcome": [0.1, 0.2]}
    )
    result = cilab.gap(runs)
    with pytest.warns(UserWarning, match="no installed font") as told:
        reports.save(result.plot(), "gap", result=result, folder=tmp_path)
    assert len(told) == 1


def test_the_header_of_a_real_study_does_not_say_simulated(tmp_path: Path) -> None:
    write_study(tmp_path / "real", ("gpt-5",))
    head = reports.header(cilab.open(tmp_path / "real"))
    assert "simulated" not in (repr(head) + head._repr_html_()).lower()
    assert "8 ok, 1 refused" in repr(head)


def test_a_frame_of_ones_own_prints_in_words_and_whole() -> None:
    frame = pl.DataFrame({"task_id": [f"t_{i}" for i in range(30)], "mean_value": [0.12345] * 30})
    shown = reports.table(frame, "Odd tasks")
    html = shown._repr_html_()
    assert all(f">t_{i}<" in html for i in range(30))
    assert "Mean value" in html and "0.123<" in html and "Odd tasks" in html and "Mean value" in repr(shown)


DRAWS = """
from matplotlib.figure import Figure
from cilab import reports
from cilab.core.errors import TableError
from cilab.core.frames import Provenance
from cilab.results.result import Result
import polars as pl

def compute():
    if n < 1:
        raise TableError(f"n is {n}; give a number from 1 on")
    origin = Provenance("study", "hash", False, None, "0")
    return Result(table=pl.DataFrame({"x": [n]}), n_used=1, n_left_out={}, provenance=origin)

result = reports.attempt(compute)
for i in range(n):
    reports.save(Figure(), f"draws-{i}", result=result, folder=figures_dir)
result
"""


def test_figures_of_an_earlier_rendering_do_not_outlive_it(tmp_path, ship, monkeypatch) -> None:
    ship("draws", DRAWS, parameters='n = 2\nfigures_dir = ""')
    monkeypatch.setattr("cilab.reports.figures.FORMATS", ("png",))
    places = {"out": tmp_path / "reports", "figures": tmp_path / "figures"}
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "draws-mine.png").write_text("not of a report")
    reports.render("draws", **places)
    there = lambda: {p.stem for p in (tmp_path / "figures").glob("*.png")}  # noqa: E731
    assert there() == {"draws-0", "draws-1", "draws-mine"}
    assert not reports.render("draws", params={"n": 1}, **places).empty
    assert there() == {"draws-0", "draws-mine"}
    nothing = reports.render("draws", params={"n": 0}, **places)
    assert nothing.empty and nothing.not_computed == ("n is 0; give a number from 1 on",)
    assert there() == {"draws-mine"}


def printed_by(code: str) -> list[str]:
    """Words that a new process prints; its errors where it fails."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_what_reports_do_not_need_is_not_loaded_and_left_to_others() -> None:
    code = (
        "import sys; from cilab import reports; reports.parameters('maze_gap')\n"
        "print(*(name in sys.modules for name in ('lark', 'pyarrow.fs', 'boto3', 'scipy.stats')))\n"
        "import jsonschema; jsonschema.validate(1, {'type': 'integer'})\n"
        "import rfc3987_syntax, pyarrow.fs; print('lark' in sys.modules)"
    )
    assert printed_by(code) == ["False"] * 4 + ["True"]


def test_most_statistics_do_without_scipy_stats_which_takes_a_second_to_load() -> None:
    code = (
        "import sys, cilab; study = cilab.datasets.simulated_release(); few = {'resamples': 20}\n"
        "cilab.failures(study, **few), cilab.validity(study, splits=4, **few), cilab.sources(study, **few)\n"
        "cilab.loss(study, **few), cilab.effort(study, **few), cilab.pairs(cilab.datasets.simulated_mazes())\n"
        "print('scipy.stats' in sys.modules)"
    )
    assert printed_by(code) == ["False"]
