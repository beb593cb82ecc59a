"""Run collection on the simulated path: rollouts per CPU-second, bytes per rollout, memory as a study grows.

500 rollouts of 4 turns with messages of about 500 characters, everything journalled and in Parquet.
The peer is inspect_ai with its mock model and its log on, in the same run, when it is installed:

    pip install inspect_ai        (it is not in requirements.lock; or into another environment, see --peer-python)
    python benchmarks/collect.py [--json] [--rollouts 500] [--growth] [--peer-python PYTHON]

Every measurement runs in a process of its own; CPU seconds are user + system of that process and its
children, as the operating system counts them, imports left out on both sides.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lines import line, show

TURNS = 4
#: Promised: rollouts per CPU-second of inspect_ai, bytes of disk a rollout, growth of memory over forty times as many.
LEAST_TIMES, MOST_BYTES, MOST_GROWTH = 15, 2000, 1.5
_WORDS = tuple(
    """
    able about above across act after again agree air all along also always amount and angle answer any apple
    area arm around arrive art ask at away baby back ball bank base beat bed before begin behind believe bell
    below best better between big bird black blue board boat body bone book born both bottom box bread break
    bridge bright bring broad brother brown build burn busy buy call came camp can capital captain car card
    care carry case cat catch cause cell center century certain chair chance change character charge chart
    check chief child choose chord circle city claim class clean clear climb clock close clothe cloud coast
    coat cold collect colony color column come common company compare complete condition connect consider
    consonant contain continent continue control cook cool copy corn corner correct cost cotton could count
    country course cover cow create crop cross crowd cry current cut dance danger dark day dead deal dear
    death decide decimal deep degree depend describe desert design determine develop dictionary differ
    difficult direct discuss distant divide division doctor dog dollar door double down draw dream dress drink
    drive drop dry during each ear early earth ease east eat edge effect egg eight either electric element
    else end enemy energy engine enough enter equal equate especially even evening event ever every exact
    example except excite exercise expect experience experiment eye face fact fair fall family famous far farm
    fast fat father favor fear feed feel feet fell field fight figure fill final find fine finger finish fire
    first fish fit five flat floor flow flower fly follow food foot for force forest form forward found four
    fraction free fresh friend from front fruit full fun game garden gas gather general gentle girl give glad
    glass go gold gone good govern grand grass gray great green grew ground group grow guess guide gun hair
    half hand happen happy hard hat have head hear heart heat heavy held help here high hill his history hit
    hold hole home hope horse hot hour house how huge human hundred hunt hurry ice idea imagine inch include
    indicate industry insect instant instrument interest invent iron island job join joy jump just keep key
    kill kind king knew know lady lake land language large last late laugh law lay lead learn least leave left
    leg length less letter level lie life lift light like line liquid list listen little live locate log lone
    long look lost lot loud love low machine made magnet main major make man many map mark market mass master
    match material matter may mean meant measure meat meet melody men metal method middle might mile milk
    million mind mine minute miss mix modern molecule moment money month moon more morning most mother motion
    mount mountain mouth move much multiply music must
    """.split()  # noqa: SIM905
)


class WordModel:
    """Answers with words drawn from a list; the seed and the length of the dialogue decide which."""

    name, provider = "sim/words", "sim"

    async def complete(self, messages: Sequence[Mapping[str, Any]], *, tools: Any = None, sampling: Any) -> Any:
        """About 500 characters."""
        from cilab.collect.model import Completion, Usage

        rng = random.Random(sampling.seed * 64 + len(messages))
        text = " ".join(rng.choices(_WORDS, k=84))
        return Completion(
            text, usage=Usage(sum(len(m["content"]) for m in messages) // 4, len(text) // 4), cost_usd=0.0
        )


def text_of(seed: int, position: int) -> str:
    """The same text as `WordModel`, for the peer."""
    return " ".join(random.Random(seed * 64 + position).choices(_WORDS, k=84))


async def play(spec: Any, seats: Any) -> Any:
    """Four turns of one model that continues its own dialogue."""
    from cilab.collect.spec import seat_sampling

    model, history = seats.model(spec.model, "1"), [{"role": "user", "content": "Please go on."}]
    rollout = seats.rollout
    for turn in range(TURNS):
        answer = await model.complete(history, sampling=seat_sampling(spec, "1"))
        history += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": "Please go on."}]
        rollout.messages.append(
            {
                "index": turn,
                "round": turn,
                "kind": "message",
                "seat": "1",
                "seat_kind": "under_test",
                "model": spec.model,
                "content": answer.content,
                "delivered_to": ["user"],
                "tokens_in": answer.usage.tokens_in,
                "tokens_out": answer.usage.tokens_out,
                "cost_usd": answer.cost_usd,
            }
        )
    rollout.run |= {"ended": "completed", "score": 1.0, "passed": True, "rounds": TURNS, "messages": TURNS}
    return rollout


def measure_ours(rollouts: int) -> dict[str, float]:
    """Play into a temporary folder; returns cpu_s, wall_s, bytes, peak_mb, stored."""
    from cilab import store
    from cilab.collect import background
    from cilab.collect.engine import Engine, rollout_job
    from cilab.collect.spec import RunSpec

    specs = lambda: (RunSpec("bench", f"t{i}", f"h{i}", "alone", "sim/words", i) for i in range(rollouts))  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Path(folder), study="bench", resolve=lambda name: WordModel())
        store.finished_jobs(Path(folder))
        began, wall = time.process_time(), time.monotonic()
        background.submit(engine.run(lambda: (rollout_job(s, play) for s in specs()))).result()
        cpu, wall = time.process_time() - began, time.monotonic() - wall
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
        study = store.Study(Path(folder))
        stored = study.runs.collect()["run_id"].n_unique()
        messages = study.messages.select("run_id").collect().height
    assert stored == rollouts and messages == TURNS * rollouts
    return {
        "cpu_s": cpu,
        "wall_s": wall,
        "bytes": size,
        "peak_mb": peak,
        "stored": stored,
    }


def measure_inspect(rollouts: int) -> dict[str, float]:
    """The same work in inspect_ai: its mock model, its log on."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.solver import Generate, TaskState, solver

    position = iter(range(10**9))

    def answer(*_: Any) -> ModelOutput:
        text = text_of(next(position), 1)
        output = ModelOutput.from_content("mockllm/model", text)
        output.usage = ModelUsage(input_tokens=100, output_tokens=len(text) // 4, total_tokens=100 + len(text) // 4)
        return output

    model = get_model("mockllm/model", custom_outputs=answer)

    @solver
    def dialogue():
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            from inspect_ai.model import ChatMessageUser

            for turn in range(TURNS):
                state = await generate(state)
                if turn < TURNS - 1:
                    state.messages.append(ChatMessageUser(content="Please go on."))
            return state

        return solve

    with tempfile.TemporaryDirectory() as folder:
        task = Task(MemoryDataset([Sample("Please go on.", id=i) for i in range(rollouts)]), solver=dialogue())
        began, wall = time.process_time(), time.monotonic()
        log = eval(task, model=model, log_dir=folder, display="none", max_samples=64)[0]
        cpu, wall = time.process_time() - began, time.monotonic() - wall
        size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    assert log.status == "success"
    return {
        "cpu_s": cpu,
        "wall_s": wall,
        "bytes": size,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "stored": rollouts,
    }


def in_process(which: str, rollouts: int, python: str = sys.executable) -> dict[str, float] | None:
    """A measurement in a process of its own; None when the peer is not installed."""
    command = [python, __file__, "--measure", which, "--rollouts", str(rollouts)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 3:
        return None
    if done.returncode:
        raise SystemExit(f"{which} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compared(n: int, python: str) -> list[dict[str, Any]]:
    """Rollouts per CPU-second, disk and memory, against inspect_ai where it is."""
    ours, peer = in_process("ours", n), in_process("inspect", n, python)
    assert ours is not None
    missing = "" if peer else "inspect_ai is not installed: no peer"

    def of(what: Any) -> dict[str, Any]:
        return {"ours": what(ours), "peer": what(peer) if peer else None}

    return [
        line("rollouts per CPU-second", **of(lambda m: n / m["cpu_s"]), unit="1/s", least=LEAST_TIMES, note=missing),
        line("disk per rollout", **of(lambda m: m["bytes"] / n), unit="bytes", most=MOST_BYTES, of="ours"),
        line("peak memory", **of(lambda m: m["peak_mb"]), unit="MB"),
    ]


def growth(n: int) -> dict[str, Any]:
    """Peak memory at forty times as many rollouts; the peer is the smaller study."""
    small, large = in_process("ours", n), in_process("ours", 40 * n)
    assert small is not None and large is not None
    name = f"peak memory at {40 * n} over {n} rollouts"
    return line(name, large["peak_mb"], "MB", peer=small["peak_mb"], most=MOST_GROWTH)


def main() -> int:
    """Measure and print; exit code 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--growth", action="store_true", help="also 20,000 rollouts, for memory (about 3 minutes)")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has inspect_ai, if another one")
    parser.add_argument("--measure", choices=["ours", "inspect"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure == "ours":
        print(json.dumps(measure_ours(args.rollouts)))
        return 0
    if args.measure == "inspect":
        try:
            import inspect_ai  # noqa: F401
        except ImportError:
            return 3
        print(json.dumps(measure_inspect(args.rollouts)))
        return 0
    found = compared(args.rollouts, args.peer_python)
    return show([*found, growth(args.rollouts)] if args.growth else found, args.json)


if __name__ == "__main__":
    sys.exit(main())
