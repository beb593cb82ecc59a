"""The user's own agent: every form it may have, and every way its code can fail."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
from pathlib import Path

import pytest

from cilab.collect import user_model
from cilab.collect.model import CallError, ChatModel, Completion, Refusal, Sampling, Usage
from cilab.collect.retry import Deadline, SystemClock
from cilab.collect.user_model import UserModel

ASKED = [{"role": "user", "content": "Where are you?"}]
SAMPLING = Sampling(max_tokens=20, seed=3)
_counter = itertools.count()


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """Write a module into the working folder and name an agent in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def make(code: str, factory: str = "make") -> UserModel:
        module = f"users_agent_{next(_counter)}"
        (tmp_path / f"{module}.py").write_text(code)
        return UserModel(f"python:{module}:{factory}")

    return make


def ask(model, messages=ASKED, tools=None):
    return asyncio.run(model.complete(messages, tools=tools, sampling=SAMPLING))


FORMS = {
    "object, async, all arguments": """
class Agent:
    async def complete(self, messages, *, tools, sampling):
        return f"{messages[-1]['content']} {tools} {sampling.seed}"
def make():
    return Agent()
""",
    "object, async, **kwargs": """
class Agent:
    async def complete(self, messages, **more):
        return f"{messages[-1]['content']} {more['tools']} {more['sampling'].seed}"
def make():
    return Agent()
""",
    "object, sync, sampling only": """
class Agent:
    def complete(self, messages, sampling):
        return f"{messages[-1]['content']} None {sampling.seed}"
make = Agent
""",
    "factory of an async function": """
def make():
    async def answer(messages):
        return messages[-1]["content"] + " None 3"
    return answer
""",
    "factory of a function": """
def make():
    return lambda messages: messages[-1]["content"] + " None 3"
""",
    "the function itself": """
def make(messages):
    return messages[-1]["content"] + " None 3"
""",
}


@pytest.mark.parametrize("form", FORMS)
def test_an_agent_may_be_an_object_or_a_function_async_or_not(form, agent):
    model = agent(FORMS[form])
    assert isinstance(model, ChatModel)
    answer = ask(model)
    assert answer.content == "Where are you? None 3"
    assert (answer.usage, answer.cost_usd, answer.wire) == (Usage(), None, ASKED)
    assert model.provider == "python"


def test_a_completion_is_passed_on_with_clean_text(agent):
    model = agent("""
from cilab.collect.model import Completion, ToolCall, Usage
def make(messages):
    call = ToolCall("1", "read", '{"a": "\\ud800"}', None)
    return Completion("x\\ud800\\0", (call,), "tool_calls", Usage(5, 6), 0.25, "mine")
""")
    answer = ask(model)
    assert isinstance(answer, Completion)
    assert answer.content == "x\ufffd\ufffd"
    assert answer.tool_calls[0].arguments_json == '{"a": "\ufffd"}'
    assert (answer.usage, answer.cost_usd, answer.model_returned) == (Usage(5, 6), 0.25, "mine")


def test_an_agent_that_changes_its_messages_changes_nothing_here(agent):
    model = agent("def make(messages):\n    messages[0]['content'] = 'forged'\n    return 'x'\n")
    given = [dict(m) for m in ASKED]
    assert ask(model, given).wire == ASKED
    assert given == ASKED


def test_the_agent_gets_normalised_messages(agent):
    model = agent("def make(messages):\n    return ' '.join(m['role'] for m in messages)\n")
    history = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": ""}, *ASKED]
    assert ask(model, history).content == "user assistant user"


def test_code_that_is_not_async_does_not_hold_up_the_loop(agent):
    model = agent("import time\ndef make(messages):\n    time.sleep(0.3)\n    return 'x'\n")

    async def main():
        calls = asyncio.gather(*(model.complete(ASKED, sampling=SAMPLING) for _ in range(3)))
        ticks = 0
        while not calls.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks

    assert asyncio.run(main()) > 5


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def make(messages):\n    x = 1\n    return {}['key']\n", r"KeyError: 'key' \(users_agent_\d+\.py line 3\)"),
        (
            "import json\ndef make(messages):\n    return json.loads('{')\n",
            r"JSONDecodeError: .* \(users_agent_\d+\.py line 3\)",
        ),
        ("async def make(messages):\n    raise RuntimeError\n", r"RuntimeError \(users_agent_\d+\.py line 2\)"),
        ("def make(messages):\n    return 7\n", "returned int, not a text or a Completion"),
        ("def make(messages):\n    pass\n", "returned NoneType"),
        # What would end the process, or the event loop.
        ("import sys\ndef make(messages):\n    sys.exit(3)\n", r"SystemExit: 3 \(users_agent_\d+\.py line 3\)"),
        ("async def make(messages):\n    exit('bye')\n", r"SystemExit: bye \(users_agent_\d+\.py line 2\)"),
        ("def make(messages):\n    raise KeyboardInterrupt\n", r"KeyboardInterrupt \(users_agent_\d+\.py line 2\)"),
        ("async def make(messages):\n    raise KeyboardInterrupt\n", r"KeyboardInterrupt \(users_agent_\d+\.py"),
        ("def make(messages):\n    raise StopIteration\n", r"StopIteration \(users_agent_\d+\.py line 2\)"),
        ("async def make(messages):\n    next(iter([]))\n", r": StopIteration \(users_agent_\d+\.py line 2\)"),
        ("def make(messages):\n    raise GeneratorExit\n", r"GeneratorExit \(users_agent_\d+\.py line 2\)"),
        ("async def make(messages):\n    raise GeneratorExit\n", r"GeneratorExit \(users_agent_\d+\.py line 2\)"),
        (
            "import asyncio\nasync def make(messages):\n    raise asyncio.CancelledError\n",
            r"CancelledError \(users_agent_\d+\.py line 3\)",
        ),
        # Where no line of the agent was reached, and where an error names a place that is none.
        ("\ndef make(a, b):\n    return ''\n", r"missing 1 .*'b' \(users_agent_\d+\.py line 2\)"),
        ("\nasync def make(a, b):\n    return ''\n", r"missing 1 .*'b' \(users_agent_\d+\.py line 2\)"),
        (
            "class Agent:\n    def complete(self):\n        return ''\ndef make():\n    return Agent()\n",
            r"takes 1 .* but 2 were given \(users_agent_\d+\.py line 2\)",
        ),
        (
            "class Agent:\n    def __call__(self):\n        return ''\ndef make():\n    return Agent()\n",
            r"takes 1 .* but 2 were given \(users_agent_\d+\.py line 2\)",
        ),
        (
            "from functools import partial\ndef answer(messages, a, b): pass\nmake = lambda: partial(answer, a=1)\n",
            r"missing 1 .*'b' \(users_agent_\d+\.py line 2\)",
        ),
        (
            "import ast\ndef make(messages):\n    return ast.literal_eval('1 +')\n",
            r"SyntaxError: .* \(users_agent_\d+\.py line 3\)",
        ),
        # A Completion with something in it that it cannot have.
        *(
            (f"from cilab.collect.model import *\ndef make(messages):\n    return Completion({given})\n", says)
            for given, says in (
                ("None", "returned a Completion with content None"),
                ("'x', cost_usd='cheap'", "returned a Completion with cost_usd 'cheap'"),
                ("'x', cost_usd=float('nan')", "returned a Completion with cost_usd nan"),
                ("'x', usage={'tokens_in': 3}", r"returned a Completion with usage \{'tokens_in': 3\}"),
                ("'x', usage=Usage(1.5)", r"returned a Completion with usage Usage\(tokens_in=1.5"),
                ("'x', tool_calls=None", "returned a Completion with tool_calls None"),
                ("'x', tool_calls=['read']", r"returned a Completion with tool_calls \['read'\]"),
            )
        ),
    ],
)
def test_a_failing_agent_is_one_line_with_its_place_and_not_asked_again(code, says, agent):
    with pytest.raises(CallError, match=says) as caught:
        ask(agent(code))
    assert (caught.value.kind, caught.value.retryable, caught.value.wire) == ("bad_request", False, ASKED)
    assert "\n" not in str(caught.value)


def test_a_key_in_an_agents_exception_does_not_get_through(agent):
    with pytest.raises(CallError) as caught:
        ask(agent("def make(messages):\n    raise ValueError('refused sk-abcdefgh12345678')\n"))
    assert "abcdefgh" not in str(caught.value)


def test_typed_errors_of_an_agent_are_its_own_to_choose(agent):
    code = "from cilab.collect.model import CallError, Refusal\ndef make(messages):\n    raise {}\n"
    with pytest.raises(CallError) as caught:
        ask(agent(code.format("CallError('server', 'down')")))
    assert caught.value.retryable
    with pytest.raises(Refusal):
        ask(agent(code.format("Refusal('filtered')")))


@pytest.mark.parametrize(
    ("code", "factory", "says"),
    [
        ("def make(:\n", "make", r"SyntaxError: invalid syntax \(users_agent_\d+\.py line 1\)"),
        ("x = 1\nx.y\n", "make", r"AttributeError: .* \(users_agent_\d+\.py line 2\)"),
        ("import not_there_at_all\n", "make", r"No module named 'not_there_at_all' \(users_agent_\d+\.py line 1\)"),
        ("def make(): pass\n", "mak", r"has no function mak\. Did you mean make\?"),
        (
            "def make():\n    raise ValueError('no')\n",
            "make",
            r"factory failed: ValueError: no \(users_agent_\d+\.py line 2\)",
        ),
        ("def make(): return 3\n", "make", r"returned int, which has no complete\(\)"),
        ("import sys\nsys.exit(1)\n", "make", r"cannot import .*: SystemExit: 1 \(users_agent_\d+\.py line 2\)"),
        ("def make():\n    quit()\n", "make", r"factory failed: SystemExit.* \(users_agent_\d+\.py line 2\)"),
        (
            "class make:\n    def __init__(self, key):\n        pass\n",
            "make",
            r"factory failed: TypeError: .* missing 1 .*'key' \(users_agent_\d+\.py line 2\)",
        ),
    ],
)
def test_what_cannot_be_loaded_says_where_and_why(code, factory, says, agent):
    with pytest.raises(CallError, match=says) as caught:
        agent(code, factory)
    assert caught.value.kind == "setup"
    assert "\n" not in str(caught.value)


def test_a_call_that_is_cancelled_stays_cancelled(agent):
    """An abort, and a deadline, must reach the task: they are no failures of the agent."""
    wait = "import asyncio, time\n{}def make(messages):\n    {}(20)\n    return 'x'\n"
    for code in (wait.format("async ", "await asyncio.sleep"), wait.format("", "time.sleep")):
        model = agent(code)

        async def main(model=model):
            task = asyncio.create_task(model.complete(ASKED, sampling=SAMPLING))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.wait([task], timeout=10)
            assert task.cancelled()
            with pytest.raises(CallError, match=r"no answer within 0\.05 s") as caught:
                await Deadline(model, 0.05, SystemClock()).complete(ASKED, sampling=SAMPLING)
            assert caught.value.kind == "timeout"

        began = time.monotonic()
        asyncio.run(main())
        assert time.monotonic() - began < 10  # nor does the end of the loop wait for the thread


def test_calls_in_flight_do_not_wait_for_each_other_so_a_deadline_counts_the_agents_own_time(agent):
    model = agent("import time\ndef make(messages):\n    time.sleep(0.5)\n    return 'x'\n")
    in_flight = 64  # the executor of asyncio would take them in rounds of (processors + 4)

    async def main():
        patient = Deadline(model, 5.0, SystemClock())
        return await asyncio.gather(*(patient.complete(ASKED, sampling=SAMPLING) for _ in range(in_flight)))

    assert max(answer.latency_s for answer in asyncio.run(main())) < 4.0


def test_calls_that_hang_leave_room_for_the_others_and_for_the_loops_own_threads(agent):
    model = agent("""
import threading
never = threading.Event()
def make(messages):
    if messages[-1]["content"] == "hang":
        never.wait()
    return "x"
""")

    async def main():
        short = Deadline(model, 0.2, SystemClock())
        hung = (short.complete([{"role": "user", "content": "hang"}], sampling=SAMPLING) for _ in range(40))
        failed = await asyncio.gather(*hung, return_exceptions=True)
        assert [e.kind for e in failed] == ["timeout"] * 40
        assert await asyncio.to_thread(lambda: "a part is written") == "a part is written"
        return await model.complete(ASKED, sampling=SAMPLING)

    assert asyncio.run(asyncio.wait_for(main(), 30)).content == "x"
    left = [t for t in threading.enumerate() if t.name == model.name]
    assert len(left) == 40 and all(t.daemon for t in left)  # none of them holds up the end of the process
    sys.modules[model.name.split(":")[1]].never.set()
    for thread in left:
        thread.join(10)


def test_an_agent_of_which_every_call_hangs_is_not_given_threads_without_end(agent, monkeypatch):
    monkeypatch.setattr(user_model, "_MOST_LOST", 3)
    model = agent(
        "import threading\nnever = threading.Event()\ndef make(messages):\n    never.wait()\n    return 'x'\n"
    )

    async def main():
        short = Deadline(model, 0.05, SystemClock())
        for _ in range(3):
            with pytest.raises(CallError, match="no answer within"):
                await short.complete(ASKED, sampling=SAMPLING)
        with pytest.raises(CallError, match="3 calls that were given up still run") as caught:
            await short.complete(ASKED, sampling=SAMPLING)
        assert not caught.value.retryable
        sys.modules[model.name.split(":")[1]].never.set()
        for thread in model._lost:
            thread.join(10)
        return await model.complete(ASKED, sampling=SAMPLING)

    assert asyncio.run(main()).content == "x"  # those that came back after all make room


@pytest.mark.parametrize("name", ["python:", "python:mod", "python::make", "python:a:b:c"])
def test_a_name_of_another_form_says_how_to_write_it(name):
    with pytest.raises(CallError, match="python:MODULE:FACTORY"):
        UserModel(name)


@pytest.mark.parametrize("name", ["python:no_such_module_here:make", "python:json.nothing:make"])
def test_a_missing_module_says_where_it_was_looked_for(name, agent, tmp_path):
    with pytest.raises(CallError, match="there is no module") as caught:
        UserModel(name)
    assert str(tmp_path) in str(caught.value)


def test_the_example_in_the_docs_asks_twice_and_counts_both_calls(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2] / "docs" / "examples")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    model = UserModel("python:my_agent:make")
    seen = []

    class Inner:
        name, provider = "fake/inner", "fake"

        async def complete(self, messages, *, tools=None, sampling):
            seen.append([m["content"] for m in messages])
            cost = None if len(seen) > 2 else 0.5
            return Completion(f"version {len(seen)}", usage=Usage(10, 3), cost_usd=cost)

    model._agent.model = Inner()
    answer = ask(model)
    assert answer.content == "version 2"
    assert seen[1][:2] == ["Where are you?", "version 1"]
    assert (answer.usage.tokens_in, answer.usage.tokens_out, answer.cost_usd) == (20, 6, 1.0)
    assert ask(model).cost_usd is None
