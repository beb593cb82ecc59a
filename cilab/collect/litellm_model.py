"""Every real provider, through LiteLLM: one request out, one `Completion`, `Refusal` or `CallError` back.

LiteLLM is imported at the first use (it takes seconds). Its own retries, price look-ups on the network,
prints and loggers are off. May import `cilab.core` and its neighbours in `cilab.collect`. Never
retries (see `retry.py`), never stores a key, never lets a key into an error text.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from cilab.collect.answer import cost_usd, json_object, text_of, tool_calls_of, usage_of, without_keys
from cilab.collect.model import CallError, Completion, Message, Refusal, Sampling, Usage
from cilab.collect.shape import System, clean, normalise
from cilab.core.redact import credentials_of, one_line, redact

if TYPE_CHECKING:
    from cilab.core.registry import Price


@functools.cache
def load_litellm() -> Any:
    """The module `litellm`, quiet and off line; imported once, at the first call (about 3 seconds)."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # before the import, or it asks the network
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    import litellm

    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    # A provider's odd token counts, which are dealt with here.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    return litellm


class LiteLLMModel:
    """A model of any provider that LiteLLM knows.

    Parameters
    ----------
    name : LiteLLM's model string, e.g. `openai/gpt-4.1`, `anthropic/claude-sonnet-4-5`.
    api_base : address of another server that speaks the provider's protocol.
    api_key : key to send; None takes the provider's environment variable. With an `api_base`, a missing
        key is no error, since many local servers ask for none.
    effort : reasoning setting where the call's sampling has none.
    price : USD per million tokens, in place of LiteLLM's price table.
    system : `fold` for models that take no system message.
    timeout_s : when LiteLLM itself gives up. `Retrying` has the deadline that counts.

    Raises
    ------
    CallError
        `setup`: no provider goes by that name.
    """

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        effort: str | None = None,
        price: Price | None = None,
        system: System = "keep",
        timeout_s: float = 600.0,
    ):
        self.name = name
        self.api_base = api_base
        self.effort = effort
        self.price = price
        self.system: System = system
        self.timeout_s = timeout_s
        self._api_key = api_key
        self._parameters: dict[tuple[Any, ...], dict[str, Any]] = {}
        found = find_provider(name)
        if found is None:
            raise CallError("setup", f"{name}: LiteLLM knows no such provider; write PROVIDER/MODEL")
        self.model_id, self.provider = found

    def __repr__(self) -> str:
        return f"LiteLLMModel({self.name!r})"

    def check_ready(self) -> None:
        """Raise CallError('no_key') where a call could not be made for want of a key."""
        missing = self._missing_key()
        if missing:
            raise CallError("no_key", f"{self.name}: no API key; set {missing} in the environment")

    def as_sent(self, messages: Sequence[Message], sampling: Sampling) -> tuple[list[Message], dict[str, Any]]:
        """The messages and settings that a call would send."""
        wire = normalise(messages, system=self.system)
        for message in wire:
            if message.get("tool_calls"):
                message["tool_calls"] = [_sendable(c) for c in message["tool_calls"]]
        parameters = self._sent_parameters(sampling)
        honoured = {("effort" if k == "reasoning_effort" else k): v for k, v in parameters.items()}
        return wire, honoured

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """One request. Raises `Refusal` or `CallError`, both with what was sent."""
        wire, honoured = self.as_sent(messages, sampling)
        begun = time.monotonic()
        result = await self._ask(wire, honoured, tools, sampling)
        if isinstance(result, Completion):
            return result
        result.wire, result.sampling_honoured = wire, honoured
        result.latency_s = time.monotonic() - begun
        raise result

    async def _ask(
        self,
        wire: list[Message],
        honoured: dict[str, Any],
        tools: Sequence[Mapping[str, Any]] | None,
        sampling: Sampling,
    ) -> Completion | CallError | Refusal:
        """Send, and read what comes; what went wrong is returned, so that no traceback holds a request."""
        try:
            self.check_ready()
        except CallError as error:
            return error
        litellm = load_litellm()
        seen: list[Any] = []
        extra: dict[str, Any] = {"tools": list(tools)} if tools else {}
        if self.api_base:
            extra["api_base"] = self.api_base
        key = self._key()
        if key:
            extra["api_key"] = key
        begun = time.monotonic()
        try:
            response = await litellm.acompletion(
                model=self.name,
                messages=wire,
                timeout=self.timeout_s,
                max_retries=0,
                num_retries=0,
                drop_params=True,
                logger_fn=_keep_raw(seen),
                **self._sent_parameters(sampling),
                **extra,
            )
            data = _plain(response)
            cost = response._hidden_params.get("response_cost")
        except Exception as error:
            data = _rescued(error, seen)
            cost = None
            if data is None:
                return to_error(error, self.name, self._key(), *credentials_of(self.api_base))
        raw = _raw_json(seen)
        if raw is not None and isinstance(raw.get("choices"), list):
            data["usage"] = raw.get("usage")
        answer = self._read(data, cost, wire, honoured, time.monotonic() - begun)
        secrets = (self._api_key, *credentials_of(self.api_base))
        return without_keys(answer, *secrets) if isinstance(answer, Completion) else answer

    def _read(
        self, data: Mapping[str, Any], cost: Any, wire: list[Message], honoured: dict[str, Any], latency_s: float
    ) -> Completion | CallError | Refusal:
        """A completion out of an answer in the OpenAI shape."""
        choice = next(iter(data.get("choices") or ()), None)
        message = choice.get("message") if isinstance(choice, Mapping) else None
        if not isinstance(message, Mapping):
            return CallError("bad_response", f"{self.name}: the answer holds no choices")
        content, calls = text_of(message), tool_calls_of(message)
        usage = usage_of(data.get("usage"), content)
        paid = self._cost(cost, usage)
        finish = str(choice.get("finish_reason") or "stop")
        if finish in ("content_filter", "refusal", "safety"):
            return Refusal(f"{self.name}: the provider's content filter stopped the answer", usage, paid)
        return Completion(
            content=content,
            tool_calls=calls,
            finish_reason=clean(finish),
            usage=usage,
            cost_usd=paid,
            model_returned=_text_or_none(data.get("model")),
            system_fingerprint=_text_or_none(data.get("system_fingerprint")),
            sampling_honoured=honoured,
            wire=wire,
            latency_s=latency_s,
        )

    def _cost(self, reported: Any, usage: Usage) -> float | None:
        """Our price, else LiteLLM's; None where a count is unknown, since a price of nothing is 0."""
        if self.price is not None:
            return cost_usd(self.price, usage)
        if isinstance(reported, bool) or not isinstance(reported, int | float) or reported < 0:
            return None
        return None if usage.tokens_in is None or usage.tokens_out is None else float(reported)

    def _key(self) -> str | None:
        """The key to pass on; a stand-in for servers of one's own, without which LiteLLM sends nothing."""
        if self._api_key or not self.api_base:
            return self._api_key
        return "none" if self._missing_in_environment() else None

    def _missing_key(self) -> str | None:
        """Name of the environment variable that lacks, or None."""
        return None if self._api_key or self.api_base else self._missing_in_environment()

    def _missing_in_environment(self) -> str | None:
        """As LiteLLM names it. Clouds that take other credentials than keys are left to themselves."""
        missing = load_litellm().validate_environment(self.name)["missing_keys"]
        keys = [k for k in missing if re.search(r"(API_KEY|APIKEY|API_TOKEN)$", k)]
        return " or ".join(sorted(keys)) or None

    def _sent_parameters(self, sampling: Sampling) -> dict[str, Any]:
        """The settings that the model takes, in OpenAI's words; `max_tokens` always."""
        effort = sampling.effort if sampling.effort is not None else self.effort
        shape = (sampling.temperature, sampling.top_p, sampling.max_tokens, effort, sampling.seed is not None)
        if shape not in self._parameters:
            self._parameters[shape] = self._supported(sampling, effort)
        out = dict(self._parameters[shape])
        if "seed" in out:
            out["seed"] = sampling.seed
        return out

    def _supported(self, sampling: Sampling, effort: str | None) -> dict[str, Any]:
        """What is left of the settings once LiteLLM has dropped those that the model does not take."""
        litellm = load_litellm()
        asked = {k: v for k, v in sampling.as_dict().items() if k not in ("effort", "choices")}
        if effort is not None:
            asked["reasoning_effort"] = effort
        known = litellm.get_supported_openai_params(model=self.model_id, custom_llm_provider=self.provider) or []
        out = {k: v for k, v in asked.items() if k in known or k == "max_tokens"}
        mapped = litellm.get_optional_params(
            model=self.model_id, custom_llm_provider=self.provider, drop_params=True, **out
        )
        names = {k.lower().replace("_", "") for k in mapped}
        out = {k: v for k, v in out.items() if k not in ("temperature", "top_p") or k.replace("_", "") in names}
        thinking = mapped.get("thinking")
        if isinstance(thinking, Mapping):
            # Claude refuses these beside thinking, and a limit that its thinking budget fills.
            out.pop("temperature", None)
            out.pop("top_p", None)
            out["max_tokens"] = sampling.max_tokens + int(thinking.get("budget_tokens") or 0)
        return out


def find_provider(name: str) -> tuple[str, str] | None:
    """(model id at the provider, provider) as LiteLLM resolves the string; None where it does not."""
    litellm = load_litellm()
    try:
        model_id, provider, _, _ = litellm.get_llm_provider(name)
    except litellm.exceptions.BadRequestError:
        return None
    return model_id, str(getattr(provider, "value", provider))


def known_providers() -> list[str]:
    """Every provider prefix that LiteLLM knows."""
    return sorted({str(getattr(p, "value", p)) for p in load_litellm().provider_list})


def known_models() -> list[str]:
    """Every model string in LiteLLM's own table."""
    return [str(m) for m in load_litellm().model_list]


# -- reading answers ------------------------------------------------------------------------------------


def _keep_raw(seen: list[Any]) -> Any:
    """A logger for one call that keeps the provider's answer as it came.

    LiteLLM throws a whole (paid) answer away when a token count in it is a text, and writes 0 where
    there is no usage at all. The raw answer says what was there.
    """

    def keep(details: Mapping[str, Any]) -> None:
        raw = details.get("original_response")
        if raw:
            seen.append(raw)

    return keep


def _raw_json(seen: Sequence[Any]) -> dict[str, Any] | None:
    """The last raw answer as a JSON object, or None."""
    raw = seen[-1] if seen else None
    if isinstance(raw, str):
        try:
            raw = json.loads(raw)
        except ValueError:
            return None
    return raw if isinstance(raw, dict) else None


def _rescued(error: Exception, seen: Sequence[Any]) -> dict[str, Any] | None:
    """The answer that LiteLLM could not take apart, where it is whole; None where there was none."""
    raw = _raw_json(seen)
    if raw is None or any(hasattr(e, "response") and _http_status(e) for e in _chain(error)):
        return None
    choices = raw.get("choices")
    return dict(raw) if isinstance(choices, list) and choices else None


def _plain(response: Any) -> dict[str, Any]:
    """LiteLLM's response as plain data."""
    choices = []
    for choice in response.choices or []:
        message = choice.message
        fields = getattr(message, "provider_specific_fields", None) or {}
        choices.append(
            {
                "finish_reason": choice.finish_reason,
                "message": {
                    "content": message.content,
                    "tool_calls": [c.model_dump() for c in message.tool_calls or ()],
                    "refusal": getattr(message, "refusal", None) or fields.get("refusal"),
                },
            }
        )
    return {
        "choices": choices,
        "usage": getattr(response, "usage", None),
        "model": response.model,
        "system_fingerprint": response.system_fingerprint,
    }


def _text_or_none(value: Any) -> str | None:
    return clean(value) if isinstance(value, str) and value else None


def _sendable(call: Mapping[str, Any]) -> dict[str, Any]:
    """A tool call of the history whose arguments are a JSON object; LiteLLM fails on others for some providers.

    Arguments that are none are sent inside one, so that the model sees what it wrote.
    """
    function = dict(call.get("function") or {})
    text = function.get("arguments")
    if not isinstance(text, str) or json_object(text) is None:
        function["arguments"] = json.dumps({"malformed_arguments": text})
    return {**call, "function": function}


# -- reading errors -------------------------------------------------------------------------------------

_REFUSED = re.compile(
    r"content[ _]?filter|content[ _]management[ _]policy|content[ _]policy|safety system|responsible[ _]ai"
    r"|usage polic|was flagged|requires moderation",
    re.IGNORECASE,
)
_OVERFLOW = re.compile(
    r"context[ _](length|window|size)|exceed_context|prompt is too long|input is too long|too many (input )?tokens"
    r"|maximum (number of )?(input )?tokens|reduce the length",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(r"insufficient_quota|billing_hard_limit|credit balance is too low|exceeded your current quota")
_BY_STATUS = {
    400: "bad_request",
    401: "auth",
    402: "auth",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    422: "bad_request",
    429: "rate_limit",
}
_IN_WORDS = {
    "auth": "the provider refuses the key or the account",
    "forbidden": "the key may not use this model",
    "not_found": "no such model at the provider",
    "rate_limit": "rate limit",
    "timeout": "no answer in time",
    "server": "the provider's server failed",
    "connection": "the connection failed",
    "bad_request": "the provider refuses the request",
    "bad_response": "the answer cannot be read",
    "context_overflow": "the messages are too long for the model",
    "setup": "something is missing on this machine",
}


def to_error(error: Exception, name: str, *keys: str | None) -> CallError | Refusal:
    """What an exception of LiteLLM means: a `CallError` of one kind, or a `Refusal` by a content filter.

    The text is one line, without `keys` and others.
    """
    told = redact(_told(error), *keys)
    kind = _kind(error, told)
    if kind == "refused":
        return Refusal(one_line(f"{name}: the provider refused: {told}"))
    retry_after = retry_after_s(_headers(error)) if kind in ("rate_limit", "server", "timeout") else None
    return CallError(kind, one_line(f"{name}: {_IN_WORDS[kind]}: {told}"), retry_after_s=retry_after)


def _kind(error: Exception, told: str) -> str:
    """The kind by HTTP status where there was an answer, else by what broke."""
    import httpx
    import openai

    litellm = load_litellm()
    chain = list(_chain(error))
    codes = " ".join(str(getattr(e, "code", "") or "") for e in chain)
    status = next((s for e in chain if (s := _http_status(e))), None)
    if status is None:
        if any(isinstance(e, ImportError) for e in chain):
            return "setup"
        if any(isinstance(e, openai.APITimeoutError | httpx.TimeoutException | TimeoutError) for e in chain):
            return "timeout"
        if any(isinstance(e, httpx.TransportError | ConnectionError) for e in chain) or _cut(chain):
            return "connection"
        if _unreadable(chain, told):
            return "bad_response"
        status = getattr(error, "status_code", None)
    if isinstance(error, litellm.exceptions.ContentPolicyViolationError):
        return "refused"
    if status in (400, 403, 422) and _REFUSED.search(f"{codes} {told}"):
        return "refused"
    if isinstance(error, litellm.exceptions.ContextWindowExceededError):
        return "context_overflow"
    if status in (400, 413, 422) and _OVERFLOW.search(f"{codes} {told}"):
        return "context_overflow"
    if status in (400, 429) and _NO_CREDIT.search(f"{codes} {told}"):
        return "auth"  # will not pass by waiting
    if isinstance(status, int):
        return _BY_STATUS.get(status, "server" if status >= 500 else "bad_request")
    return "bad_request"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those behind it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _http_status(error: BaseException) -> int | None:
    """The status that a server really sent; LiteLLM's own guesses do not count."""
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code
    return None


def _cut(chain: list[BaseException]) -> bool:
    """Whether the connection broke, as the HTTP library underneath calls it."""
    import openai

    if any(type(e).__module__.startswith("aiohttp") for e in chain):
        return True
    return any(isinstance(e, openai.APIConnectionError) and type(e).__module__.startswith("openai") for e in chain)


def _unreadable(chain: list[BaseException], told: str) -> bool:
    """Whether an answer came but made no sense."""
    import openai
    import pydantic

    kinds = (json.JSONDecodeError, openai.APIResponseValidationError, pydantic.ValidationError, UnicodeDecodeError)
    return any(isinstance(e, kinds) for e in chain) or "no 'choices'" in told or "Invalid response object" in told


def _told(error: Exception) -> str:
    """The provider's own words, without what LiteLLM puts around them."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping) and isinstance(body.get("message"), str):
        return body["message"]
    text = str(getattr(error, "message", None) or error)
    text = text.partition("Traceback (most recent call last)")[0]
    while match := re.match(r"\s*(litellm\.)?\w*(Error|Exception|Timeout)( Error)?\s*(:|-)\s+", text):
        text = text[match.end() :]
    return _inner_message(text) or text.strip() or type(error).__name__


def _inner_message(text: str) -> str | None:
    """The message of an error object in JSON that a text begins with."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        return None
    inner = value.get("error", value) if isinstance(value, Mapping) else None
    message = inner.get("message") if isinstance(inner, Mapping) else None
    return message if isinstance(message, str) else None


def _headers(error: Exception) -> Mapping[str, str]:
    """The headers of the answer behind an error, lower case."""
    for link in _chain(error):
        for found in (getattr(link, "litellm_response_headers", None), getattr(link, "response", None)):
            headers = getattr(found, "headers", found)
            if isinstance(headers, Mapping) and any(str(k).lower().startswith("retry-after") for k in headers):
                return {str(k).lower(): str(v) for k, v in headers.items()}
    return {}


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds to wait by `retry-after-ms` or `retry-after` (seconds or an HTTP date); None without a usable one.

    >>> retry_after_s({"retry-after": "2.5"})
    2.5
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text) * unit
    try:
        when = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
