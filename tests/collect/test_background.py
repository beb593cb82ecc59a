"""The loop in the background: what runs on it cannot end it, and where it ends all the same, nobody waits in vain."""

from __future__ import annotations

import asyncio

import pytest

from cilab.collect import background
from cilab.core.errors import CilabError

PATIENCE_S = 20.0


@pytest.fixture(autouse=True)
def _loop_of_its_own():
    """A loop that a test may break."""
    background._started.cache_clear()
    yield
    background._started.cache_clear()


async def _answer() -> int:
    await asyncio.sleep(0.05)
    return 42


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_task_that_would_end_the_process_ends_itself_and_the_others_go_on(error):
    async def end() -> None:
        raise error

    async def main() -> str:
        task = asyncio.create_task(end())
        try:
            await task
        except BaseException as e:
            return repr(e)
        return "nothing"

    other, hit, direct = (background.submit(work) for work in (_answer(), main(), end()))
    assert other.result(PATIENCE_S) == 42
    assert hit.result(PATIENCE_S) == repr(error)
    with pytest.raises(type(error)):
        direct.result(PATIENCE_S)
    assert background.submit(_answer()).result(PATIENCE_S) == 42


def test_a_loop_that_somebody_stops_goes_on():
    async def stop() -> int:
        asyncio.get_running_loop().stop()
        return await _answer()

    assert background.submit(stop()).result(PATIENCE_S) == 42


def test_whoever_waits_hears_of_a_loop_that_broke_and_the_next_work_gets_another():
    async def forever() -> None:
        await asyncio.sleep(1000)

    async def cut() -> None:
        def select(_: object) -> None:
            raise OSError(9, "Bad file descriptor")  # somebody's code closed all open files

        asyncio.get_running_loop()._selector.select = select
        await asyncio.sleep(1000)

    broken = background.loop()
    waiting = [background.submit(forever()), background.submit(cut())]
    for future in waiting:
        with pytest.raises(CilabError, match=r"the calls broke \(OSError: .*Bad file.*\)\. Run it again") as caught:
            future.result(PATIENCE_S)
        assert "\n" not in str(caught.value)
    assert background.loop() is not broken
    assert background.submit(_answer()).result(PATIENCE_S) == 42
