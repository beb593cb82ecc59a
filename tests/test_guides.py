"""The guides to statistics: cells run and print what pages say, pictures exist, tables are as the studies."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import draw_guides  # noqa: E402

PAGES = draw_guides.pages()
#: What a guide must show (issue 14, part 11), as its cells write it.
SHOWN = [
    *("bradley_terry(", "krippendorff(", "mediate(", "corrected(", "item_quality(", "pairwise(", "all_pairs("),
    *("sensitivity(", "power(", "lite_score(", "variance_components(", "margin=", "allow_partial=", "cluster="),
    *('"gate": "off"', '"common_tasks": True', 'interval="percentile"'),
]
_BLOCKS = re.compile(r"```.*?```", re.DOTALL)
_DECIMAL = re.compile(r"(?<![\d.:/])\d+\.\d+(?![\d.])")


@pytest.fixture(scope="module", autouse=True)
def _release():
    with draw_guides.one_release():
        yield


def cells() -> str:
    found = (f["code"] for page in PAGES for f in draw_guides._CELL.finditer(page.read_text(encoding="utf-8")))
    return "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_cell_of_a_page_runs_and_prints_what_the_page_says_and_its_picture_is_there(page):
    assert draw_guides.stale_page(page, draw_guides.run(page)) is None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page_has_a_question_a_short_answer_its_own_picture_pitfalls_and_references(page):
    text = page.read_text(encoding="utf-8")
    assert re.match(r"# .+\n\n\*\*Short answer\.\*\* ", text)
    assert re.search(rf"!\[[^\]]*simulated[^\]]*\]\(\.\./images/statistics/{page.stem}\.png\)", text)
    assert "\n## Pitfalls\n" in text and "\n## References\n" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_decimals_in_the_words_of_a_page_stand_in_what_its_cells_print(page):
    text, _, _ = page.read_text(encoding="utf-8").partition("\n## References\n")
    words = re.sub(r"\]\([^)]*\)", "]", _BLOCKS.sub("", text))
    blocks = "".join(_BLOCKS.findall(text))
    assert [n for n in _DECIMAL.findall(words) if not re.search(rf"(?<!\d){re.escape(n)}(?!\d)", blocks)] == []


def test_a_number_that_is_off_and_a_word_that_is_another_are_seen():
    page = draw_guides.shown_outputs((ROOT / "docs/statistics/a-new-model-cheaply.md").read_text(encoding="utf-8"))[1]
    assert draw_guides.same(page, page)
    number = re.search(r"\d+\.\d", page)[0]
    assert not draw_guides.same(page.replace(number, f"{float(number) + 5:.1f}"), page)
    assert not draw_guides.same(page.replace("sim:C1", "sim:C2"), page)
    assert not draw_guides.same(page.replace("rank 10", "rank 11"), page)  # whole numbers are exact


@pytest.mark.parametrize("name", SHOWN)
def test_the_cells_of_the_guides_use(name):
    assert name in cells()


def test_the_index_leads_to_every_page_and_no_picture_is_left_over():
    linked = re.findall(r"\]\(statistics/([a-z-]+)\.md\)", draw_guides.INDEX.read_text(encoding="utf-8"))
    assert sorted(linked) == [page.stem for page in PAGES]
    assert sorted(p.stem for p in draw_guides.IMAGES.iterdir()) == [page.stem for page in PAGES]


def test_the_old_numbers_come_back_as_the_page_on_changed_numbers_has_it():
    text = (ROOT / "docs" / "changed-numbers.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict = {}
    exec(code, names)
    assert names["board"].table["lo_pct"].is_not_null().all()


def test_the_tables_of_the_index_are_as_the_stored_studies_have_them():
    text = draw_guides.INDEX.read_text(encoding="utf-8")
    assert draw_guides.with_tables(text) == text


def test_every_study_behind_a_table_has_the_script_that_remakes_it():
    text = draw_guides.INDEX.read_text(encoding="utf-8")
    scripts = set(re.findall(r"`python (benchmarks/\S+) --write`", text))
    assert len(scripts) >= 5 and all((ROOT / script).is_file() for script in scripts)
