"""The notebooks in JupyterLab as a researcher opens them, in a real browser: Run All, a figure and a table, no error.

Nothing is installed here; without Chromium these tests are skipped. What the browser saw is kept in `reports/browser/`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

#: For one step of the page: a cell that computes on a busy machine is the longest.
PATIENCE_MS = 240_000
PICTURES = Path(__file__).resolve().parents[2] / "reports" / "browser"
NOTEBOOKS = ("00_start_here", "20_ask")

# What a reader meets in JupyterLab beside the reports: results as tables, a table to sort and search, a transcript.
PRINTED = (
    "import cilab\nfrom cilab import datasets\n\nstudy = datasets.simulated_mazes()\ncilab.gap(study)",
    "cilab.gap(study).interactive()",
    'study.show(study.runs.select("run_id").head(1).collect().item())',
)

#: The lowest contrast between the colour of any text below an element and the ground that it stands on (WCAG 2.2).
CONTRAST = """root => {
    const rgba = text => {
        const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
        canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, below) => below.map((v, i) => top[i] * top[3] + v * (1 - top[3]));
    const chain = e => e ? [...chain(e.parentElement), e] : [];
    const ground = e => chain(e).map(x => rgba(getComputedStyle(x).backgroundColor))
        .reduce((below, top) => over(top, below), [255, 255, 255]);
    const light = c => c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    let least = [99, ''];
    for (const e of root.querySelectorAll('*')) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
        if (!own || !e.checkVisibility() || e.closest('.disabled')) continue;  // a dead button may be pale
        const below = ground(e), ink = rgba(getComputedStyle(e).color);
        ink[3] *= chain(e).reduce((all, x) => all * getComputedStyle(x).opacity, 1);
        const [a, b] = [light(over(ink, below)), light(below)].sort((x, y) => y - x);
        const ratio = (a + .05) / (b + .05);
        if (ratio < least[0]) least = [ratio, e.textContent.trim().slice(0, 60)];
    }
    return least;
}"""


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A new page that no other test has seen."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def write_notebook(lab: Any, name: str, sources: tuple[str, ...]) -> None:
    """A notebook in the workspace. Without a kernel's name JupyterLab would ask for one."""
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    nb = new_notebook(cells=[new_code_cell(text) for text in sources], metadata={"kernelspec": kernel})
    nbformat.write(nb, lab.workspace / "notebooks" / f"{name}.ipynb")


def open_notebook(page: Any, lab: Any, name: str) -> None:
    """Open a notebook by its address, and wait for its kernel: the status bar says so last."""
    page.goto(lab.address(f"lab/tree/notebooks/{name}.ipynb") + "&reset")
    page.wait_for_selector(".jp-NotebookPanel .jp-Notebook .jp-CodeCell")
    page.wait_for_function("document.querySelector('#jp-main-statusbar')?.innerText.includes('(ipykernel) | Idle')")


def run_all(page: Any) -> None:
    """Run > Run All Cells, until the last cell has its number or one has failed."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("^Run All Cells")).click()
    page.wait_for_function(
        """() => {
        const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(p => p.innerText);
        const failed = document.querySelector('[data-mime-type="application/vnd.jupyter.error"]');
        return prompts.length && (failed || prompts.every(text => /\\d/.test(text)));
        }"""
    )


def keep(page: Any, name: str) -> Path:
    """A picture of the notebook from its top, as high as it is, for people to look at."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    heights = page.evaluate("[...document.querySelectorAll('.jp-Notebook .jp-Cell')].map(c => c.offsetHeight)")
    page.set_viewport_size({"width": 1400, "height": max(1000, min(8_000, sum(heights) + 200))})
    page.wait_for_timeout(500)
    page.evaluate("document.querySelectorAll('.jp-WindowedPanel-outer').forEach(p => p.scrollTop = 0)")
    page.wait_for_timeout(500)
    page.screenshot(path=str(PICTURES / f"{name}.png"))
    return PICTURES / f"{name}.png"


def errors(page: Any) -> list[str]:
    """What failed, as the page shows it."""
    return page.locator('[data-mime-type="application/vnd.jupyter.error"]').all_inner_texts()


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_run_all_shows_a_figure_and_a_table_and_no_error(page, lab, name):
    open_notebook(page, lab, name)
    run_all(page)
    picture = keep(page, name)
    print(picture)
    assert errors(page) == []
    outputs = page.locator(".jp-OutputArea-output")
    widths = outputs.locator("img").evaluate_all("images => images.map(i => i.complete && i.naturalWidth)")
    assert widths and min(widths) > 300
    rows = outputs.locator("table").evaluate_all("tables => tables.map(t => t.offsetHeight && t.rows.length)")
    assert rows and max(rows) > 2
    assert picture.stat().st_size > 50_000


def test_the_kernel_is_the_python_of_cilab_and_the_first_page_stands_in_notebooks(lab):
    spec = lab.ask("api/kernelspecs")
    assert spec["default"] == "python3"
    assert spec["kernelspecs"]["python3"]["spec"]["argv"][0] == sys.executable
    names = {entry["name"] for entry in lab.ask("api/contents")["content"]}
    assert {"notebooks", "studies", "data", "figures", "reports"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_results_tables_and_transcripts_are_readable_in_the_light_and_in_the_dark_theme(page, lab, theme):
    write_notebook(lab, "printed", PRINTED)
    lab.use("apputils-extension/themes", theme=f"JupyterLab {theme}")
    open_notebook(page, lab, "printed")
    assert page.evaluate("document.body.dataset.jpThemeLight") == str(theme == "Light").lower()
    run_all(page)
    page.wait_for_selector(".dt-container table.dataTable tbody tr:nth-child(9)")
    keep(page, f"printed_{theme.lower()}")
    assert errors(page) == []
    for part in (".cilab-result", ".dt-container", ".cilab-run"):
        page.locator(part).first.wait_for()
        ratio, text = page.locator(part).first.evaluate(CONTRAST)
        print(theme, part, round(ratio, 2), text)
        assert ratio >= 4.5, (part, text)


@pytest.mark.slow
def test_an_interactive_table_searches_and_asks_no_other_server(page, lab):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    write_notebook(lab, "search", PRINTED[:2])
    open_notebook(page, lab, "search")
    run_all(page)
    page.wait_for_selector(".dt-container table.dataTable tbody tr:nth-child(9)")
    page.locator(".dt-search input").fill("sim:S1 pair")
    page.wait_for_function("document.querySelectorAll('.dt-container tbody tr').length === 1")
    assert "sim:S1" in page.locator(".dt-container tbody").inner_text()
    assert [url for url in asked if not url.startswith((lab.url, "data:", "blob:"))] == []
