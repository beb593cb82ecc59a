"""Model string -> `ChatModel`: `sim/…`, `local/…`, `python:…`, everything else by LiteLLM.

May import `cilab.core` and its neighbours in `cilab.collect`. Never calls a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cilab.collect.model import ChatModel
from cilab.collect.shape import System
from cilab.core.errors import StudyError, nearest
from cilab.core.vocabulary import SIM

if TYPE_CHECKING:
    from cilab.core.registry import Price


def resolve(
    name: str,
    *,
    simulated: Callable[[str], ChatModel],
    api_base: str | None = None,
    system: System = "keep",
    price: Price | Sequence[float | None] | None = None,
) -> ChatModel:
    """The model behind a string; loads LiteLLM only where it is needed.

    Parameters
    ----------
    name : `sim/<profile>`, `local/<name>`, `python:module:factory`, or LiteLLM's `provider/model`.
    simulated : profile name -> simulated agent.
    api_base : another server for a LiteLLM model.
    system : `fold` for models that take no system message.
    price : USD per million tokens in, out and cached (the last may be None), in place of LiteLLM's table.

    Raises
    ------
    StudyError
        No provider goes by that name.
    CallError
        `setup`: a local model or the user's code cannot be had.
    """
    if name.startswith(SIM):
        return simulated(name.removeprefix(SIM))
    if name.startswith("local/"):
        from cilab.collect.local_model import LocalModel

        return LocalModel(name)
    if name.startswith("python:"):
        from cilab.collect.user_model import UserModel

        return UserModel(name)
    from cilab.collect.litellm_model import LiteLLMModel, find_provider

    if not name.isprintable() or find_provider(name) is None:
        raise StudyError(_unknown(name))
    return LiteLLMModel(name, api_base=api_base, system=system, price=_price(price))


def _price(price: Price | Sequence[float | None] | None) -> Price | None:
    from cilab.core.registry import Price

    if price is None or isinstance(price, Price):
        return price
    tokens_in, tokens_out, cached = (*price, None)[:3]
    if tokens_in is None or tokens_out is None:
        return None
    return Price(tokens_in, tokens_out, cached)


def _unknown(name: str) -> str:
    """One line for a string that no provider answers to."""
    from cilab.collect.litellm_model import known_models, known_providers

    prefix, slash, _ = name.partition("/")
    if slash:
        hits = nearest(prefix, ["sim", "local", *known_providers()])
        return f"unknown provider {prefix!r} in {name!r}.{hits} Write PROVIDER/MODEL as LiteLLM names them."
    hits = nearest(name, known_models())
    return f"unknown model {name!r}.{hits} Write PROVIDER/MODEL, e.g. openai/gpt-4.1, local/smollm2 or sim/strong."
