"""Plays one maze rollout: solo with a critic step, a pair, or a relay; then grades it.

May import `cilab.maze`, `cilab.collect.model`, `cilab.collect.spec`. Calls models only through `Seats`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cilab.collect.model import Completion, Message
from cilab.collect.spec import RULES, Rollout, RunSpec, Seats, seat_sampling
from cilab.maze import texts
from cilab.maze.grid import Maze, split
from cilab.maze.plan import maze_of, seat_players

#: Version of what turns a transcript into an outcome; stands in `rule_version`.
RULE_VERSION = "maze-1"
#: What stands for an answer without text in the other agent's view.
EMPTY = "(no text)"


async def play(spec: RunSpec, seats: Seats) -> Rollout:
    """Play and grade `spec`. The transcript is kept in `seats.rollout` while it grows."""
    maze = maze_of(spec)
    rollout = seats.rollout
    if spec.version.startswith("solo"):
        await _solo(spec, maze, seats, rollout)
    else:
        await _pair(spec, maze, seats, rollout)
    said = [m for m in rollout.messages if m["seat_kind"] == "under_test"]
    rollout.run |= {"messages": len(said), "rounds": len(said)}
    rollout.run |= await _grade(spec, maze, said, seats)
    return rollout


# -- solo -------------------------------------------------------------------------------------------------


async def _solo(spec: RunSpec, maze: Maze, seats: Seats, rollout: Rollout) -> None:
    prompt = _with_arm(spec, texts.solo_prompt(maze, spec.version == "solo_distributed"))
    model, sampling = seats.model(spec.model, "1"), seat_sampling(spec, "1", spec.effort)
    history: list[Message] = [{"role": "user", "content": prompt}]
    _note(rollout, "user", prompt, ["1"])
    answer = await model.complete(history, sampling=sampling)
    _say(rollout, 0, "1", spec.model, answer, ["user"])
    if spec.settings["critic"]:
        critic = texts.critic_prompt()
        history += [{"role": "assistant", "content": answer.content or EMPTY}, {"role": "user", "content": critic}]
        _note(rollout, "user", critic, ["1"])
        answer = await model.complete(history, sampling=sampling)
        _say(rollout, 1, "1", spec.model, answer, ["user"])
    rollout.run["ended"] = "completed"


# -- pairs and relays -------------------------------------------------------------------------------------


async def _pair(spec: RunSpec, maze: Maze, seats: Seats, rollout: Rollout) -> None:
    prompts = [_with_arm(spec, texts.pair_prompt(copy)) for copy in split(maze)]
    for seat, prompt in enumerate(prompts, 1):
        _note(rollout, "user", prompt, [str(seat)])
    said: list[str] = []
    if spec.version == "relay":
        said = await _prefix(spec, seats, rollout)
        if len(said) < spec.settings["relay_k"] or texts.COMPLETION in said[-1]:
            # The prefix ended before the swap: it is kept, and counted, as it is.
            rollout.run["ended"] = "ended_before_swap"
            return
    names, efforts = zip(*seat_players(spec), strict=True)
    players = [seats.model(name, str(seat)) for seat, name in enumerate(names, 1)]
    samplings = [seat_sampling(spec, str(seat), effort) for seat, effort in enumerate(efforts, 1)]
    rollout.run["ended"] = "turn_cap"
    for turn in range(len(said), spec.settings["max_turns"]):
        me = turn % 2
        answer = await players[me].complete(view(prompts[me], said, me), sampling=samplings[me])
        said.append(answer.content or EMPTY)
        _say(rollout, turn, str(me + 1), names[me], answer, [str(2 - me)])
        if texts.COMPLETION in answer.content:
            rollout.run["ended"] = "completed"
            return


async def _prefix(spec: RunSpec, seats: Seats, rollout: Rollout) -> list[str]:
    """The first K turns of the stored pair, copied into this rollout; nothing is paid again."""
    said = []
    for row in await seats.transcript(spec.settings["prefix_run_id"]):
        if row["seat_kind"] == "under_test" and len(said) < spec.settings["relay_k"]:
            kept = {k: v for k, v in row.items() if k not in ("run_id", "tokens_in", "tokens_out", "cost_usd")}
            rollout.messages.append(kept | {"index": len(rollout.messages)})
            said.append(row["content"] or EMPTY)
    return said


def view(prompt: str, said: Sequence[str], me: int) -> list[Message]:
    """The dialogue as agent `me` (0 starter, 1 follower) sees it (paper, appendix B.2, explicit prefixes).

    One system message; the task as the first user message; its own messages as assistant, the other's as
    user messages with a prefix. The other's opening message to the follower joins the task message, since
    many APIs refuse two user messages in a row.
    """
    messages: list[Message] = [
        {"role": "system", "content": texts.system_prompt()},
        {"role": "user", "content": prompt},
    ]
    for turn, text in enumerate(said):
        if turn % 2 == me:
            messages.append({"role": "assistant", "content": text})
        elif messages[-1]["role"] == "user":
            messages[-1] = {"role": "user", "content": f"{prompt}\n\n{texts.OTHER_PREFIX} {text}"}
        else:
            messages.append({"role": "user", "content": f"{texts.OTHER_PREFIX} {text}"})
    return messages


def _with_arm(spec: RunSpec, prompt: str) -> str:
    text = spec.settings.get("arm_text")
    return f"{prompt}\n\n{text}" if text else prompt


def _note(rollout: Rollout, seat: str, content: str, to: list[str]) -> None:
    rollout.messages.append(
        {
            "index": len(rollout.messages),
            "kind": "message",
            "seat": seat,
            "seat_kind": "user",
            "content": content,
            "delivered_to": to,
        }
    )


def _say(rollout: Rollout, turn: int, seat: str, model: str, answer: Completion, to: list[str]) -> None:
    rollout.messages.append(
        {
            "index": len(rollout.messages),
            "round": turn,
            "kind": "message",
            "seat": seat,
            "seat_kind": "under_test",
            "model": model,
            "content": answer.content,
            "delivered_to": to,
            "tokens_in": answer.usage.tokens_in,
            "tokens_out": answer.usage.tokens_out,
            "cost_usd": answer.cost_usd,
        }
    )


# -- grading ----------------------------------------------------------------------------------------------


async def _grade(spec: RunSpec, maze: Maze, said: Sequence[Mapping[str, Any]], seats: Seats) -> dict[str, Any]:
    from cilab.maze import grade

    grader = spec.judges["grader"]
    if grader == RULES:
        return run_columns(grade.grade_by_rules(maze, said, spec.version))
    model = seats.model(grader, "grader", "grade", under_test=False, fallbacks=spec.hints.get("grader_fallbacks", ()))
    verdict, _ = await grade.grade_with_model(model, maze, said, spec.version, seat_sampling(spec, "grader", None))
    return run_columns(verdict)


def run_columns(verdict: Any) -> dict[str, Any]:
    """Columns of the runs table from a grade; all null when the grader's answer could not be read."""
    if verdict is None:
        return {"outcome": "ungraded", "rule_version": RULE_VERSION}
    return {
        "weighted_outcome": verdict.weighted_outcome,
        "success": verdict.success,
        "score": 1.0 if verdict.success else 0.0,
        "passed": verdict.success,
        "outcome": outcome_word(verdict),
        "rule_version": RULE_VERSION,
    }


def outcome_word(verdict: Any) -> str:
    """A short name of what came out: goal, split_up, no_move, illegal_<reason> or stopped_short."""
    if verdict.success:
        return "goal"
    if verdict.split_up:
        return "split_up"
    if verdict.n_valid == 0 and verdict.first_illegal is None:
        return "no_move"
    return f"illegal_{verdict.first_illegal}" if verdict.first_illegal else "stopped_short"
