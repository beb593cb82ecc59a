"""Verbs that play: quickstart, run, status, and the second looks regrade, relabel and annotate.

May import everything below the shell, inside the verbs only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from cilab.shell.terminal import Json, Seed, StudyFolder, one_of, say, say_report, stdout_for_us

Out = Annotated[
    str | None, typer.Option("--out", help="The study's folder or URL (s3://...); default data/studies/NAME.")
]
With = Annotated[str, typer.Option("--with", help="The model that grades or annotates; `rules` for code.")]
Judge = Annotated[str, typer.Option("--with", help="The model that judges, named as in a study file.")]
Repeat = Annotated[int, typer.Option("--repeat", help="How often each rollout is looked at.", min=1)]
PerCell = Annotated[
    int | None,
    typer.Option("--sample", help="Rollouts per model, stratified by setting and success (paper: 40).", min=1),
]
PerArm = Annotated[
    int | None,
    typer.Option("--sample", help="Runs per model, effort and arm, spread over the dimensions.", min=1),
]
Budget = Annotated[
    float | None,
    typer.Option("--budget", help="Start no call once the folder's known cost, all before included, is this (USD)."),
]
RouteFile = Annotated[Path | None, typer.Option("--study", help="Study file with the model's route, price and limits.")]


def quickstart(
    out: Annotated[
        Path | None, typer.Option("--out", help="The study's folder; default data/studies/quickstart.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page of reports where there is a screen.")
    ] = True,
) -> None:
    """Play both benchmarks on the embedded models and render their reports. No key, no network."""
    from cilab.shell.quickstart import quickstart as start

    made = start(out, told=say_report)
    if made.left_out:
        say(f"left out: the small real model ({made.left_out})")
    code = tell(made.summary, made.data)
    print(f"data     {made.data}")
    if made.index is not None:
        print(f"reports  {made.index.resolve()}")
    if show and made.index is not None and _has_screen():
        import webbrowser

        webbrowser.open(made.index.resolve().as_uri())
    raise typer.Exit(code or (1 if made.failed else 0))


def run(
    study: Annotated[Path, typer.Argument(help="A study file (YAML).")],
    out: Out = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do and cost.")] = False,
    as_json: Json = False,
    limit: Annotated[int | None, typer.Option(help="At most this many of the planned rollouts.")] = None,
    scale: Annotated[float, typer.Option(help="Factor on the number of tasks.")] = 1.0,
    gate: Annotated[str, typer.Option(help="on or off: off plays what a failed alone run gates out.")] = "on",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler (tcp://HOST:PORT) whose workers play the rollouts.")
    ] = None,
) -> None:
    """Play a study. The same command again continues after any interruption."""
    from cilab.running import forecast, load, play

    one_of("--gate", gate, "on", "off")
    with stdout_for_us() as ours:
        if dry_run:
            found = forecast.forecast_study(study, out=out, scale=scale, limit=limit, gate=gate == "on")
            print(json.dumps(found.as_dict()) if as_json else _forecast_text(found), file=ours)
            return
        plan = load.load_study(study, scale)
        folder = out or str(load.folder_of(plan))
        elsewhere = None
        if scheduler is not None:
            from cilab.running.cluster import Cluster

            elsewhere = Cluster(scheduler, plan)
        summary = play.run_loaded(plan, out=out, limit=limit, gate=gate == "on", elsewhere=elsewhere)
        if as_json:
            print(json.dumps(_summary_dict(summary, folder)), file=ours)
        raise typer.Exit(tell(summary, folder))


def status(
    data: StudyFolder,
    as_json: Json = False,
) -> None:
    """Counts of a study, while it runs or afterwards."""
    from cilab.running.status import status as counts

    found = counts(data)
    if as_json:
        print(json.dumps(found))
        return
    print(f"study     {found['study']}")
    planned = "" if found["planned"] is None else f" of {found['planned']}"
    earlier = f", and {found['earlier']} of earlier plans" if found["earlier"] else ""
    print(f"finished  {found['finished'] - found['earlier']}{planned}{earlier}")
    for name, n in sorted(found["by_status"].items()):
        print(f"  {name:<9} {n}")
    if found["kept_completions"]:
        print(
            f"interrupted rollouts {found['interrupted_rollouts']}, {found['kept_completions']} answers kept for them"
        )
    print(f"cost      {_cost_text(found)}")
    for reason, n in sorted(found["errors"].items(), key=lambda item: -item[1])[:5]:
        print(f"  {n} x {reason}")


def _second_look(module: str, name: str, does: str, keyword: str, model: Any, sample: Any) -> Callable[..., None]:
    """A verb of stored rollouts and a model: `cilab.running.<module>.<name>`, which takes the model as `keyword`."""

    def verb(
        data: StudyFolder,
        model: str,
        repeat: Repeat = 1,
        sample: int | None = None,
        seed: Seed = 0,
        study: RouteFile = None,
        budget: Budget = None,
    ) -> None:
        again = getattr(import_module(f"cilab.running.{module}"), name)
        asked = {keyword: model, "repeat": repeat, "sample": sample, "seed": seed}
        raise typer.Exit(tell(again(data, **asked, study=study, budget_usd=budget), data))

    verb.__name__, verb.__doc__ = name, f"{does} Nothing is replayed."
    verb.__annotations__ |= {"model": model, "sample": sample}
    return verb


regrade = _second_look("again", "regrade", "Grade stored rollouts again with another grader.", "grader", With, PerCell)
relabel = _second_look(
    "relabel", "relabel", "Have stored teamwork messages labelled by another judge.", "judge", Judge, PerArm
)
annotate = _second_look(
    "again", "annotate", "Annotate stored dialogues for grounding and disagreement.", "annotator", With, PerCell
)


# -- words ------------------------------------------------------------------------------------------------


def _cost_text(found: dict[str, Any]) -> str:
    """The known cost, and what is not in it; where no price is known at all, that it is unknown."""
    calls, runs = found["unpriced_calls"], found["unpriced_runs"]
    n, what = (calls, "call") if calls else (runs, "run")
    if not n:
        return f"${found['usd']:.4f}"
    unknown = f"{n} {what}{'' if n == 1 else 's'} of unknown price"
    return f"${found['usd']:.4f} (+{unknown})" if found["usd"] else f"unknown ({unknown})"


def _summary_dict(summary: Any, folder: str | Path) -> dict[str, Any]:
    """For --json: `ok`, `refused` and `gated_out` add up to `finished`; `this_session` is what was done just now."""
    p = summary.progress
    session = {
        "ok": p.ok,
        "refused": p.refused,
        "gated_out": p.gated_out - p.gated_again,
        "errors": p.errors,
        "calls": p.calls,
        "replayed": p.replayed,
        "usd": p.usd - p.usd_before,
        "unpriced_calls": p.unpriced_calls,
        "seconds": summary.seconds,
    }
    return {
        "data": str(folder),
        "planned": p.planned,
        "finished": p.done,
        **p.by_status,
        "this_session": session,
        "errors": dict(summary.errors),
        "missing": summary.missing,
        "calls": p.calls,
        "replayed": p.replayed,
        "usd": p.usd,
        "unpriced_calls": p.unpriced_calls,
        "stopped": summary.stopped,
        "seconds": summary.seconds,
    }


def tell(summary: Any, folder: str | Path) -> int:
    """Say how a session ended and how to go on; returns the exit code."""
    p = summary.progress
    n = summary.unreadable
    unread = f"; {n} answer{'' if n == 1 else 's'} could not be read" if n else ""
    took = f"{summary.seconds:.0f} s, {p.calls} calls, ${p.usd:.4f}"
    say(f"{p.done} of {p.planned} finished in {folder} ({took}){unread}")
    if p.unpriced_calls:
        say(f"{p.unpriced_calls} calls had no known price; they are not in the cost, nor in the budget")
    for reason, n in sorted(summary.errors.items(), key=lambda item: -item[1])[:5]:
        say(f"  {n} failed: {reason}")
    if summary.fatal:
        say(str(summary.fatal))
    if summary.stopped == "budget":
        say("budget reached; raise budget_usd (or --budget) and run the same command again: it continues")
    elif summary.stopped == "interrupted":
        say("interrupted; nothing that arrived is lost. Run the same command again: it continues")
    elif summary.missing:
        say(f"{summary.missing} not finished; {how_to_go_on(summary.errors)}")
    return summary.exit_code


def how_to_go_on(errors: Mapping[str, int]) -> str:
    """What to do about runs that failed: first what asking again will not mend, by the kinds of the errors."""
    from cilab.collect.model import TERMINAL

    key, agent, other = "set the right key", "correct the agent", "mend what is named above"
    found = set()
    for reason in errors:
        kind, _, text = reason.partition(": ")
        if kind in TERMINAL:
            found.add(key if kind in ("auth", "no_key") else agent if text.startswith("python:") else other)
    played = "all runs of an edited agent are played anew" if agent in found else "only these are played"
    again = f"run the same command again: {played}"
    first = " and ".join(what for what in (key, agent, other) if what in found)
    return f"{first}, then {again}" if first else again


def _forecast_text(f: Any) -> str:
    def triple(values: Any, form: str = ",.0f") -> str:
        return " / ".join(format(v, form) for v in values)

    if f.finished is None:
        finished = "how many are finished is not known on this machine; the whole plan is forecast"
    else:
        finished = f"{f.finished:,} finished already"
    lines = [
        f"study      {f.study}",
        f"rollouts   {len(f.run_ids):,} planned, {finished}",
        "           least / expected / most",
        f"calls      {triple(f.calls)}",
        f"tokens in  {triple(f.tokens_in)}",
        f"tokens out {triple(f.tokens_out)}",
        f"USD        {'unknown' if f.usd is None else triple(f.usd, ',.2f')}",
        f"hours      {triple(f.hours, ',.1f')}",
    ]
    if f.unpriced:
        lines.append(f"no price is known for {', '.join(f.unpriced)}: their cost is not in the sum")
    return "\n".join(lines)


def _has_screen() -> bool:
    """A person at a desktop: a text browser in a terminal, or a browser in a script, would be in the way."""
    desktop = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.stdout.isatty() and bool(desktop)
