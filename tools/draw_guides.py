"""Runs the cells of the guides to statistics, and writes what they print, their pictures and the tables of studies.

    python tools/draw_guides.py          # writes the outputs and pictures of the pages, and the tables
    python tools/draw_guides.py --check  # says whether all of it is as the package and the stored studies have it

The cells of a page are its blocks of Python, run in order in one namespace. The block of text after a cell is what it
prints. The picture of a page is the `drawn` of its last cell, saved as docs/images/statistics/<page>.png. The tables
come from the studies that are stored in tests/golden. `tests/test_guides.py` calls the same functions.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INDEX, PAGES, IMAGES = DOCS / "statistics.md", DOCS / "statistics", DOCS / "images" / "statistics"
GOLDEN = ROOT / "tests" / "golden"
#: How frames are printed; docs/statistics.md says so.
SHOWN = {
    "float_precision": 2,
    "tbl_hide_column_data_types": True,
    "tbl_hide_dataframe_shape": True,
    "tbl_cols": -1,
    "tbl_rows": 30,
    "tbl_width_chars": 116,
    "fmt_str_lengths": 60,
}
_DPI = 110
_CELL = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL)
_BORDERS = str.maketrans(dict.fromkeys("┌┐└┘├┤┬┴┼─│┆╞╡╪═", " "))
_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?$")


# -- cells ------------------------------------------------------------------------------------------------------


class Ran(NamedTuple):
    """A page whose cells were run: what each printed, and the figure of the last."""

    outputs: list[str]
    drawn: Any


def pages() -> list[Path]:
    """The pages, by name."""
    return sorted(PAGES.glob("*.md"))


@contextlib.contextmanager
def one_release() -> Iterator[None]:
    """While it lasts, all cells share the simulated release: its frames are never changed."""
    from cilab import datasets

    with mock.patch.object(datasets, "simulated_release", cache(datasets.simulated_release)):
        yield


def run(page: Path) -> Ran:
    """Run the cells of a page."""
    import matplotlib

    matplotlib.use("agg")
    import polars as pl

    names: dict[str, Any] = {}
    outputs = []
    with pl.Config(**SHOWN):
        for at, found in enumerate(_CELL.finditer(page.read_text(encoding="utf-8")), 1):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(found["code"], f"{page.name}, cell {at}", "exec"), names)
            outputs.append("".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines()))
    return Ran(outputs, names.get("drawn"))


def with_outputs(text: str, outputs: Sequence[str]) -> str:
    """The text of a page with these outputs after its cells."""
    left = iter(outputs)

    def put(found: re.Match[str]) -> str:
        output = next(left)
        return f"```python\n{found['code']}```\n" + (f"\n```text\n{output}```\n" if output else "")

    return _CELL.sub(put, text)


def shown_outputs(text: str) -> list[str]:
    """What a page says that its cells print."""
    return [found["output"] or "" for found in _CELL.finditer(text)]


def same(shown: str, printed: str) -> bool:
    """Whether two outputs have the same words, and numbers that differ by one in the last digit at most.

    >>> same("score 82.7", "score 82.8"), same("score 82.7", "score 83.7"), same("no interval", "an interval")
    (True, False, False)
    """
    one, other = (text.translate(_BORDERS).split() for text in (shown, printed))
    return len(one) == len(other) and all(map(_alike, one, other))


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    a, b = (word.strip("()[];:%").rstrip(".,") for word in (one, other))
    if not (_NUMBER.match(a) and _NUMBER.match(b)):
        return False
    digits = len(a.partition(".")[2])
    x, y = (float(word.replace("−", "-").replace(",", "")) for word in (a, b))
    return digits > 0 and abs(x - y) <= 1.01 * 10**-digits


def picture(page: Path) -> Path:
    """Where the picture of a page is."""
    return IMAGES / f"{page.stem}.png"


def save(page: Path, drawn: Any) -> None:
    """Save the picture of a page, in few colours so that it is small."""
    from matplotlib import pyplot
    from PIL import Image

    IMAGES.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    drawn.get_figure(root=True).savefig(packed, format="png", dpi=_DPI)
    Image.open(packed).convert("RGB").quantize(128).save(picture(page), optimize=True)
    pyplot.close("all")


# -- tables -----------------------------------------------------------------------------------------------------


def stored(name: str) -> dict[str, Any]:
    """A stored study."""
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def table(head: Sequence[str], lines: Iterable[Sequence[Any]], *, words: int = 1) -> str:
    """A Markdown table; the first `words` columns are words, the others numbers."""
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in (head, rule, *lines))


def fraction(value: float | None, digits: int = 3) -> str:
    """A share without its leading zero.

    >>> fraction(0.9575), fraction(1.0), fraction(None)
    ('.958', '1.000', '–')
    """
    if value is None:
        return "–"
    text = f"{value + 1e-12:.{digits}f}"
    return text.removeprefix("0") if value < 1 else text


def made(study: dict[str, Any], more: str = "") -> str:
    """How to remake what stands above."""
    return f"\n\nRemake: `{study['made_by']}`.{more}"


def coverage(dimensions: int, sizes: Sequence[int]) -> str:
    """Coverage of the rule, with the plain percentile in brackets."""
    found = stored("interval_coverage")
    at = {(x["design"], x["rate"], x["units"]): x for x in found["lines"] if x["dimensions"] == dimensions}
    kinds = dict.fromkeys((design, rate) for design, rate, _ in at)
    lines = [[design, f"{rate:g}", *(_beside(at[design, rate, n]) for n in sizes)] for design, rate in kinds]
    return table(["design", "true rate", *(f"{n} units" for n in sizes)], lines) + made(found)


def _beside(line: dict[str, Any]) -> str:
    return f"{fraction(line['coverage'])} ({fraction(line['percentile_coverage'], 2)})"


def extremes() -> str:
    """The least and the largest coverage, in words."""
    found = stored("interval_coverage")
    lines = [x for x in found["lines"] if x["coverage"] is not None]
    least = min(lines, key=lambda x: x["coverage"])
    where = "the overall score" if least["dimensions"] > 1 else "one dimension"
    of_30 = [x["coverage"] for x in lines if x["units"] >= 30 and (x["dimensions"] > 1 or x["design"] != "binary")]
    error = (0.95 * 0.05 / found["data_sets"]) ** 0.5
    below = sum(x["coverage"] < 0.93 for x in lines)
    overall = [x["coverage"] for x in lines if x["dimensions"] > 1 and x["units"] >= 3]
    above = sum(c > 0.97 for c in overall)
    return (
        f"{found['data_sets']:,} simulated data sets a cell (standard error of a coverage {fraction(error, 4)}; of a "
        f"percentile's, on 100 of them, about .02 to .05). Lowest of {len(lines)} cells: {fraction(least['coverage'])} "
        f"({least['design']}, rate {least['rate']:g}, {least['units']} units a dimension, {where}). "
        f"Cells below .93: {below}. From 30 units on, without the binary design in one dimension: "
        f"{fraction(min(of_30))} to {fraction(max(of_30))}. Of the overall score from 3 units on, {above} of "
        f"{len(overall)} cells are above .97, "
        f"the highest {fraction(max(overall))}.{made(found)}"
    )


def clopper_pearson() -> str:
    """The rule beside Clopper and Pearson's interval, for tasks that are passed or not."""
    found = stored("interval_coverage")
    lines = [
        [
            f"{x['rate']:g}",
            x["units"],
            fraction(x["exact_coverage"]),
            fraction(x["clopper_pearson_coverage"]),
            f"{100 * x['exact_width']:.1f}",
            f"{100 * x['clopper_pearson_width']:.1f}",
            f"{x['exact_width'] / x['clopper_pearson_width']:.2f}",
        ]
        for x in found["lines"]
        if "exact_coverage" in x and x["coverage"] is not None
    ]
    head = ["true rate", "units", "coverage", "Clopper-Pearson", "width (points)", "Clopper-Pearson", "ratio of widths"]
    return table(head, lines) + made(found, " These are sums over the binomial, without simulation error.")


def without() -> str:
    """How often there is no interval."""
    found = stored("interval_coverage")
    lines = []
    for units in dict.fromkeys(x["units"] for x in found["lines"]):
        of = {
            d: [x["without_interval"] for x in found["lines"] if (x["units"], x["dimensions"]) == (units, d)]
            for d in (1, 8)
        }
        lines.append([f"{units} units a dimension", *(f"{100 * max(of[d]):.1f}" for d in (1, 8))])
    tenth = found["tenth_of_a_study"]
    few = [100 * tenth["dimension_cells_without"], 100 * tenth["overall_without"]]
    lines.append(["a tenth of a study (3 tasks a dimension, gate)", *(f"{x:.1f}" for x in few)])
    head = ["data", "dimension scores without an interval (%)", "overall scores without (%)"]
    of_overall = f" In the last line the overall score's interval covers {fraction(tenth['overall_coverage'])}."
    return table(head, lines) + made(found, of_overall)


def errors() -> str:
    """Family-wise error of comparisons on null data, in percent."""
    found = stored("comparison_errors")
    lines = [
        [
            "tasks" if x["tasks_per_unit"] == 1 else f"families of {x['tasks_per_unit']}",
            x["units"],
            x["seeds"],
            f"{x['lowest']:g}",
            f"{x['any_dimension_pct']:.1f}",
            f"{x['overall_pct']:.1f}",
            f"{x['any_dimension_ignoring_clusters_pct']:.1f}" if "any_dimension_ignoring_clusters_pct" in x else "–",
        ]
        for x in sorted(found["errors"], key=lambda x: x["tasks_per_unit"])
    ]
    head = ["unit", "units a dimension", "seeds", "lowest chance of a task", "any of 8 dimensions (%)", "overall (%)"]
    error = 100 * (0.05 * 0.95 / found["data_sets"]) ** 0.5
    more = f" {found['data_sets']} data sets a line; the standard error of 5 % is {error:.1f} points."
    return table([*head, "any, by tasks (%)"], lines) + made(found, more)


def power_of_flips() -> str:
    """Power of sign flips beside the paired t's, 30 tasks a dimension."""
    found = stored("comparison_errors")
    lines = [
        [
            f"{100 * x['difference']:.0f}",
            x["seeds"],
            f"{x['lowest']:g}",
            *(f"{x[key]:.1f}" for key in ("flips_pct", "t_pct", "overall_flips_pct", "overall_t_pct")),
        ]
        for x in found["power"]
    ]
    head = ["difference (points)", "seeds", "lowest chance of a task", "a dimension, flips (%)", "paired t (%)"]
    return table([*head, "overall, flips (%)", "paired t (%)"], lines, words=0) + made(found)


def pairs() -> str:
    """Coverage of all pairs together."""
    found = stored("comparison_errors")
    lines = [
        [
            x["units"],
            x["seeds"],
            f"{x['lowest']:g}",
            f"{100 * x['difference']:.0f}",
            f"{x['all_inside_pct']:.1f}",
            f"{x['width_points']:.1f}",
        ]
        for x in found["pairs"]
    ]
    head = [
        "units a dimension",
        "seeds",
        "lowest chance of a task",
        "difference (points)",
        "all pairs inside (%)",
        "mean width (points)",
    ]
    return table(head, lines, words=0) + made(found)


def mazes() -> str:
    """Coverage of the maze statistics, with plain standard errors of rollouts in brackets."""
    found = stored("maze_coverage")
    at: dict[tuple[int, int], dict[tuple[str, str], Any]] = {}
    for x in found["lines"]:
        at.setdefault((x["mazes"], x["repeats"]), {})[x["number"], x["outcome"]] = x
    kinds = [(n, o) for o in ("weighted_outcome", "success") for n in ("pair", "gap")]
    lines = [
        [
            *key,
            *(f"{fraction(of[k]['coverage'])} ({fraction(of[k]['coverage_by_rollout'])})" for k in kinds),
            f"{100 * max(x['without_interval'] for x in of.values()):.1f}",
        ]
        for key, of in at.items()
    ]
    names = {"weighted_outcome": "weighted outcome", "success": "success"}
    head = ["mazes", "repeats", *(f"{'mean' if n == 'pair' else 'gap'}, {names[o]}" for n, o in kinds)]
    return table([*head, "without an interval, at most (%)"], lines, words=0) + made(found)


def lite_scores() -> str:
    """Predictions of lite_score on models left out."""
    found = stored("lite_score")
    keys = (
        "coverage_pct",
        "mean_width_points",
        "error_points",
        "plain_mean_error_points",
        "random_subset_error_points",
        "rank_coverage_pct",
    )
    sets = {**found["data_sets"], "together": found["together"]}
    lines = [[name.replace("_", " "), x["leave_outs"], *(f"{x[key]:.1f}" for key in keys)] for name, x in sets.items()]
    head = ["data", "models left out", "coverage (%)", "width (points)", "error (points)"]
    return table([*head, "plain mean's error", "random subset's error", "rank coverage (%)"], lines) + made(found)


def corrections() -> str:
    """Coverage of corrected shares, over all judges and shares of a line."""
    found = stored("correction_coverage")
    groups: dict[tuple[str, str, int], list[Any]] = {}
    for x in found["cases"]:
        groups.setdefault((x["method"], x["kind"], x["labels"]), []).append(x)
    lines = [
        [
            method.replace("_", " "),
            kind,
            labels,
            len(of),
            f"{min(x['coverage_pct'] for x in of):.1f} to {max(x['coverage_pct'] for x in of):.1f}",
            f"{max(x['without_interval_pct'] for x in of):.1f}",
            f"{sum(x['mean_width_points'] for x in of) / len(of):.1f}",
            f"{max(abs(x['bias_points']) for x in of):.1f}",
            f"{max(abs(x['judged_bias_points']) for x in of):.1f}",
        ]
        for (method, kind, labels), of in groups.items()
    ]
    head = [
        "method",
        "data",
        "labels",
        "cases",
        "coverage (%)",
        "without an interval, at most (%)",
        "mean width (points)",
    ]
    more = f" {found['data_sets']:,} data sets of {found['units']:,} units a case."
    return table([*head, "largest bias", "largest bias of the judge"], lines, words=2) + made(found, more)


def mediation() -> str:
    """Coverage of the indirect effect by the number of clusters."""
    found = stored("few_clusters")
    lines = [[x["clusters"], f"{x['coverage_pct']:.1f}", f"{x['mean_half_width']:.2f}"] for x in found["sizes"]]
    more = f" {found['data_sets']:,} data sets of {found['rows_per_cluster']} rows a cluster."
    return table(["clusters", "coverage (%)", "mean half width"], lines, words=0) + made(found, more)


TABLES: dict[str, Callable[[], str]] = {
    "coverage in one dimension": lambda: coverage(1, (3, 5, 10, 30)),
    "coverage of the overall score": lambda: coverage(8, (2, 3, 5, 10, 30)),
    "extremes of coverage": extremes,
    "width against Clopper-Pearson": clopper_pearson,
    "cells without an interval": without,
    "family-wise error": errors,
    "power": power_of_flips,
    "all pairs": pairs,
    "mazes": mazes,
    "few clusters": mediation,
    "lite_score": lite_scores,
    "corrections": corrections,
}


def with_tables(text: str) -> str:
    """The text of the index with the tables between their markers."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}: made by tools/draw_guides.py -->\n", f"\n<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"{INDEX.name} has no markers of {name!r}")
        text = f"{before}{begin}{make()}{end}{after}"
    return text


# -- all of it --------------------------------------------------------------------------------------------------


def _texts(drawn: Any) -> list[Any]:
    from matplotlib.text import Text

    return drawn.get_figure(root=True).findobj(Text)


def stale_page(page: Path, ran: Ran) -> str | None:
    """What of a page is not as its cells have it, in words; None where all is."""
    shown = shown_outputs(page.read_text(encoding="utf-8"))
    for at, (one, other) in enumerate(zip(shown, ran.outputs, strict=True), 1):
        if not same(one, other):
            return f"{page.name}: cell {at} prints\n{other}"
    if ran.drawn is None:
        return f"{page.name}: no cell gives `drawn`"
    if not any("SIMULATED" in text.get_text() for text in _texts(ran.drawn)):
        return f"{page.name}: the figure does not say that its data are simulated"
    return None if picture(page).is_file() else f"{page.name}: no picture"


def main(argv: list[str]) -> int:
    """Write, or check with `--check`."""
    text = INDEX.read_text(encoding="utf-8")
    stale = []
    with one_release():
        for page in pages():
            ran = run(page)
            if "--check" in argv:
                stale.append(stale_page(page, ran))
                continue
            page.write_text(with_outputs(page.read_text(encoding="utf-8"), ran.outputs), encoding="utf-8")
            if ran.drawn is not None:
                save(page, ran.drawn)
    if "--check" not in argv:
        INDEX.write_text(with_tables(text), encoding="utf-8")
        return 0
    stale += [None if with_tables(text) == text else f"{INDEX.name}: tables"]
    words = [line for line in stale if line]
    print("\n".join([*words, "run: python tools/draw_guides.py"] if words else ["as it is"]))
    return int(bool(words))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main(sys.argv[1:]))
