"""Every report at once: rendered in parallel over processes, with an index page of thumbnails.

May import `cilab.reports` and what it may. A report that fails leaves its partial notebook and a one-line reason, and
does not stop the others.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from string import Template
from typing import Any

from cilab import reports
from cilab.core import plugins
from cilab.core.errors import CilabError, ReportError, first_line, nearest

#: Called with (finished, in all, name, reason or None) as each report ends.
Told = Callable[[int, int, str, str | None], None]

#: A fork would take Polars' locks along.
_CONTEXT = get_context("spawn")


@dataclass(frozen=True, slots=True)
class Batch:
    """What came of rendering many reports.

    Attributes
    ----------
    rendered : name -> report.
    failed : name -> one line.
    left_out : name -> why it was not tried: the data hold no runs of its benchmark.
    index : the page that leads to them.
    """

    rendered: Mapping[str, reports.RenderedReport]
    failed: Mapping[str, str]
    left_out: Mapping[str, str]
    index: Path


def render_all(
    names: Sequence[str] | None = None,
    *,
    data: str | os.PathLike[str] | None = None,
    params: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] = "reports",
    figures: str | os.PathLike[str] = "figures",
    workers: int | None = None,
    told: Told | None = None,
) -> Batch:
    """Render reports in parallel and write `index.html`.

    Parameters
    ----------
    names : which; None takes every one that the data can feed.
    data : a study's folder or a data set's name; None lets each notebook take its own.
    params : values for parameters; each report gets those that it takes.
    out, figures : as in `reports.render`.
    workers : processes; default one per processor.
    told : called as each report ends.

    Raises
    ------
    ReportError
        No such report; a parameter that none of them takes; data that are not there.
    """
    chosen = [reports.find_report(name).name for name in names] if names else list(reports.list_reports())
    taken = {name: reports.parameters(name) for name in chosen}
    _refuse_stray(params or {}, taken)
    fitting, left_out = _fitting(taken, data) if names is None else (chosen, {})
    jobs = {name: {k: v for k, v in (params or {}).items() if k in taken[name]} for name in fitting}
    rendered: dict[str, reports.RenderedReport] = {}
    failed: dict[str, str] = {}
    n = max(1, min(workers or os.cpu_count() or 1, len(jobs) or 1))
    render_one = partial(_render, data=data, out=os.fspath(out), figures=os.fspath(figures))
    for name, ended in _in_processes(render_one, jobs, n):
        if isinstance(ended, str):
            failed[name] = ended
        else:
            rendered[name] = ended
        if told is not None:
            told(len(rendered) + len(failed), len(jobs), name, failed.get(name))
    order = [name for name in chosen if name in rendered]
    return Batch({n: rendered[n] for n in order}, failed, left_out, write_index(out, failed=failed))


def _in_processes(
    render_one: Callable[..., reports.RenderedReport], jobs: Mapping[str, Mapping[str, Any]], n: int
) -> Iterator[tuple[str, reports.RenderedReport | str]]:
    """(name, report or one line on what went wrong) as each ends, rendered by `n` processes.

    When a process dies, its whole pool goes with it, and nobody can say which report it was. Those that had not ended
    are then rendered in pools of one: the report that kills its process fails alone.
    """
    left = dict(jobs)
    with ProcessPoolExecutor(n, _CONTEXT) as pool:
        # The last notebook draws everything and takes longest: begun first, it holds up no other.
        tasks = {pool.submit(render_one, name, params=jobs[name]): name for name in reversed(jobs)}
        for done in as_completed(tasks):
            if not isinstance(done.exception(), BrokenProcessPool):
                del left[tasks[done]]
                yield tasks[done], _outcome(tasks[done], done)
    with ThreadPoolExecutor(n) as threads:
        alone = {threads.submit(_alone, render_one, name, mine): name for name, mine in left.items()}
        for done in as_completed(alone):
            yield alone[done], _outcome(alone[done], done)


def _alone(
    render_one: Callable[..., reports.RenderedReport], name: str, params: Mapping[str, Any]
) -> reports.RenderedReport:
    with ProcessPoolExecutor(1, _CONTEXT) as pool:
        return pool.submit(render_one, name, params=params).result()


def _outcome(name: str, done: Future[reports.RenderedReport]) -> reports.RenderedReport | str:
    e = done.exception()
    if e is None:
        return done.result()
    if isinstance(e, CilabError):
        return str(e)
    if isinstance(e, BrokenProcessPool):
        return f"report {name}: the process that rendered it died (out of memory, or killed from outside)"
    return f"report {name}: {type(e).__name__}: {first_line(e, 'no reason given')}"


def _render(
    name: str, *, data: str | os.PathLike[str] | None, params: Mapping[str, Any], out: str, figures: str
) -> reports.RenderedReport:
    return reports.render(name, data=data, params=params, out=out, figures=figures)


def _refuse_stray(params: Mapping[str, Any], taken: Mapping[str, Mapping[str, str]]) -> None:
    known = sorted({key for mine in taken.values() for key in mine})
    for key in params:
        if key not in known:
            raise ReportError(f"no report has a parameter {key!r}.{nearest(key, known)} They take: {', '.join(known)}")


def _fitting(
    taken: Mapping[str, Mapping[str, str]], data: str | os.PathLike[str] | None
) -> tuple[list[str], dict[str, str]]:
    """The reports whose benchmark the data hold; the others with the reason.

    Which benchmark's runs a report reads is told by the data set that its notebook takes by itself.
    """
    if data is None:
        return list(taken), {}
    study = reports.load(data)
    there = set(study.runs.select("benchmark").unique().collect()["benchmark"])
    benchmark_of = {own: name for name, b in plugins.loaded(plugins.BENCHMARKS).items() for own in b.data_sets}
    left_out = {}
    for name, parameters in taken.items():
        own = parameters.get("data", "").strip("\"'")
        if (wanted := benchmark_of.get(own)) is not None and wanted not in there:
            left_out[name] = f"needs {wanted} runs; {study.name} has none"
    return [name for name in taken if name not in left_out], left_out


# -- the index ------------------------------------------------------------------------------------------------

_INDEX = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>Reports</title>
<style>
:root { color-scheme: light dark; --line: #c9c9c9; --soft: #666; }
@media (prefers-color-scheme: dark) { :root { --line: #444; --soft: #aaa; } }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; margin: 0 auto;
  padding: 2rem 1.25rem 3rem; max-width: 76rem; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .75rem; }
p { color: var(--soft); margin: .25rem 0 0; }
ul { list-style: none; padding: 0; margin: 0; display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); }
li { border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
li a { display: block; color: inherit; text-decoration: none; height: 100%; }
li a:hover, li a:focus { outline: 3px solid #0b5394; outline-offset: -3px; }
.picture { background: #fff; height: 11rem; display: flex; align-items: center; justify-content: center; }
.picture img { max-width: 100%; max-height: 11rem; display: block; }
.words { padding: .6rem .8rem .8rem; } .words strong { display: block; line-height: 1.3; }
.words span { color: var(--soft); font-size: .85rem; }
.simulated { color: #b2182b; } .failed { color: #b2182b; overflow-wrap: anywhere; }
</style>
</head>
<body>
<h1>Reports</h1>
<p>$counts</p>
$groups
$failures
</body>
</html>
""")


def write_index(out: str | os.PathLike[str], *, failed: Mapping[str, str] | None = None) -> Path:
    """`index.html` over the reports that lie in `out`, with a thumbnail of each one's first figure.

    Returns
    -------
    Path
        The page. It holds no time: the same reports give the same bytes.

    Raises
    ------
    ReportError
        The folder cannot be written.
    """
    folder = Path(out)
    cards: dict[str, list[str]] = {}
    titles = reports.list_reports()
    for name in titles:
        page = folder / f"{name}.html"
        if page.is_file() and name not in (failed or {}):
            head = reports.head(page)
            simulated = bool(head["record"].get("simulated"))
            study = str(head["record"].get("study", "")) + (" · simulated" if simulated else "")
            cards.setdefault(study, []).append(_card(name, titles[name], simulated, head["thumbnail"]))
    groups = "\n".join(
        f"<h2>{html.escape(study or 'Other')}</h2>\n<ul>\n{''.join(found)}</ul>"
        for study, found in sorted(cards.items())
    )
    lines = "".join(
        f"<li class='failed'><div class='words'>{html.escape(why)}</div></li>" for why in (failed or {}).values()
    )
    total = sum(map(len, cards.values()))
    text = _INDEX.substitute(
        counts=f"{total} report{'s' if total != 1 else ''}, each with its data and parameters at its end.",
        groups=groups,
        failures=f"<h2>Failed</h2>\n<ul>{lines}</ul>" if lines else "",
    )
    target = folder / "index.html"
    reports.write_text(target, text)
    return target


def _card(name: str, title: str, simulated: bool, picture: str) -> str:
    mark = '<span class="simulated">simulated</span>' if simulated else "<span>collected or published data</span>"
    shown = f'<img alt="" src="data:image/png;base64,{html.escape(picture)}">' if picture else "<span>no figure</span>"
    return (
        f'<li><a href="{html.escape(name)}.html"><div class="picture">{shown}</div>'
        f'<div class="words"><strong>{html.escape(title)}</strong>{mark}</div></a></li>\n'
    )
