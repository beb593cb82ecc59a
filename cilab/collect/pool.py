"""The models of one process, each with its provider's limits and its retries.

May import its neighbours in `cilab.collect`. The engine has one, and so has each worker of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cilab.collect.limits import Limit, Limited, Provider
from cilab.collect.model import ChatModel
from cilab.collect.retry import Retrying, RetryPolicy

#: Providers that cost nothing and are answered in this process: no limits, no retries.
FREE = ("sim",)


class ModelPool:
    """Models by name, made once and wrapped: retrying around limited.

    Parameters
    ----------
    resolve : model string -> ChatModel.
    limits : by provider name; `default` for the others.
    policy : how failed calls are tried again.
    on_wait : told +1 when a wait for a retry begins and -1 when it ends.
    """

    def __init__(
        self,
        resolve: Callable[[str], ChatModel],
        limits: Mapping[str, Limit] | None = None,
        policy: RetryPolicy | None = None,
        on_wait: Callable[[int], None] | None = None,
    ):
        self._resolve, self._limits = resolve, dict(limits or {})
        self._policy, self._on_wait = policy or RetryPolicy(), on_wait
        self._models: dict[str, ChatModel] = {}
        self._providers: dict[str, Provider] = {}

    def get(self, name: str) -> ChatModel:
        """The model of that name."""
        if name not in self._models:
            model = self._resolve(name)
            if model.provider not in FREE:
                provider = self._provider(model.provider)
                model = Retrying(
                    model, self._policy, on_wait=self._on_wait, within=lambda inner: Limited(inner, provider)
                )
            self._models[name] = model
        return self._models[name]

    @property
    def waiting(self) -> int:
        """Calls that wait for their provider's limit."""
        return sum(provider.waiting for provider in self._providers.values())

    def _provider(self, name: str) -> Provider:
        if name not in self._providers:
            self._providers[name] = Provider(name, self._limits.get(name) or self._limits.get("default") or Limit())
        return self._providers[name]
