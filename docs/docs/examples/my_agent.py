"""An agent of one's own: it writes a draft, reads it again, and sends the better version.

Use it in a study as `model: python:my_agent:make`. The model inside is `local/smollm2` (no key
needed) unless the environment variable MY_AGENT_MODEL names another, e.g. `openai/gpt-4.1`.
"""

import os

from cilab.collect.model import Completion, Usage
from cilab.collect.models import resolve

CHECK = (
    "Before your message is sent: does it fit what you see and what your partner said? "
    "Answer with the message to send, and nothing else."
)


class ReadsAgain:
    """Asks its model twice for every message."""

    def __init__(self, model):
        self.model = model

    async def complete(self, messages, *, sampling):
        draft = await self.model.complete(messages, sampling=sampling)
        again = [
            *messages,
            {"role": "assistant", "content": draft.content},
            {"role": "user", "content": CHECK},
        ]
        final = await self.model.complete(again, sampling=sampling)
        return Completion(
            content=final.content,
            finish_reason=final.finish_reason,
            # Both calls count. Where one of the numbers is not known, the sum is not known either.
            usage=Usage(
                tokens_in=add(draft.usage.tokens_in, final.usage.tokens_in),
                tokens_out=add(draft.usage.tokens_out, final.usage.tokens_out),
            ),
            cost_usd=add(draft.cost_usd, final.cost_usd),
            model_returned=final.model_returned,
        )


def add(first, second):
    """The sum, or None where one part is unknown."""
    return None if first is None or second is None else first + second


def no_simulation(profile):
    """This agent needs a real model inside."""
    raise ValueError(f"sim/{profile} knows the lab's tasks only; give MY_AGENT_MODEL a real model")


def make():
    """What the study calls, once."""
    return ReadsAgain(resolve(os.environ.get("MY_AGENT_MODEL", "local/smollm2"), simulated=no_simulation))
