"""Brings a list of messages into the one shape that every provider takes. Pure functions.

Providers differ in what they accept, and the libraries between them and us mend the rest silently
and each in its own way. So the shape is made here, once, before the call, and stored as sent.
May import `cilab.collect.model`. Never calls a model and never changes its input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from cilab.collect.model import Message

#: Stands where a message has no text; providers refuse or silently replace empty ones.
EMPTY = "(empty message)"
#: The user message put in front of a history that does not begin with one.
START = "(start)"
#: Answer to a tool call whose result is missing; providers refuse a call without a result.
NO_RESULT = "(no result)"

System = Literal["keep", "fold"]


def clean(text: str) -> str:
    """`text` as valid UTF-8 without NUL: lone surrogates and NUL become U+FFFD, pairs are joined.

    >>> clean("a" + chr(0xD800) + "b") == "a\\ufffdb"
    True
    """
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_json(value: Any) -> Any:
    """A deep copy of a JSON value with every string, keys included, passed through `clean`."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(k)): clean_json(v) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [clean_json(v) for v in value]
    return value


def normalise(messages: Sequence[Message], *, system: System = "keep") -> list[Message]:
    """The same conversation in a shape that every provider takes.

    Parameters
    ----------
    messages : any list of messages, also an empty one.
    system : `keep` leaves one leading system message; `fold` puts its text in front of the first user
        message, for providers without system messages.

    Returns
    -------
    list of Message
        A new list. At most one system message, and that one first. Then a user message. User and
        assistant alternate: neighbours of one role are joined by a blank line. Tool results count as the
        user's side and stand directly behind the assistant message that called for them, one for
        each call (`NO_RESULT` where it is missing). A result that no call asked for becomes user text,
        and so does a system message in the middle. No content is blank (`EMPTY`), except beside tool
        calls. All text is valid UTF-8. Tool calls are kept as they are. Normalising twice changes nothing.

    Raises
    ------
    ValueError
        `system` is neither `keep` nor `fold`.
    """
    if system not in ("keep", "fold"):
        raise ValueError(f"system must be 'keep' or 'fold', not {system!r}")
    copies = [_copy(m) for m in messages]
    lead = 0
    while lead < len(copies) and copies[lead]["role"] == "system":
        lead += 1
    instructions = _join(m["content"] for m in copies[:lead])
    talk = _alternate(_settle_tools(copies[lead:]))
    if not talk or talk[0]["role"] != "user":
        talk.insert(0, {"role": "user", "content": ""})
        if system == "keep" or not instructions:
            talk[0]["content"] = START
    if system == "fold":
        talk[0]["content"] = _join([instructions, talk[0]["content"]])
    for message in talk:
        if not message["content"].strip() and not message.get("tool_calls"):
            message["content"] = EMPTY
    if system == "keep" and instructions:
        talk.insert(0, {"role": "system", "content": instructions})
    return talk


def _copy(message: Mapping[str, Any]) -> Message:
    """The keys that are part of the protocol, cleaned; content as a string."""
    role = message.get("role")
    out: Message = {"role": "system" if role == "developer" else str(role), "content": _text(message.get("content"))}
    if out["role"] not in ("system", "user", "assistant", "tool"):
        out["role"] = "user"
    if out["role"] == "assistant" and message.get("tool_calls"):
        out["tool_calls"] = clean_json(message["tool_calls"])
    if out["role"] == "tool":
        out["tool_call_id"] = clean(str(message.get("tool_call_id") or ""))
        if message.get("name"):
            out["name"] = clean(str(message["name"]))
    return out


def _text(content: Any) -> str:
    """Content as text: None is '', the text parts of a list are joined."""
    if content is None:
        return ""
    if isinstance(content, str):
        return clean(content)
    if isinstance(content, Sequence):
        return _join(_text(p.get("text") if isinstance(p, Mapping) else p) for p in content)
    return clean(str(content))


def _join(texts: Iterable[str]) -> str:
    """The texts that are not blank, with a blank line between them."""
    return "\n\n".join(t for t in texts if t.strip())


def _settle_tools(messages: list[Message]) -> list[Message]:
    """Give every tool call its result and turn results without a call, and late system messages, into text."""
    out: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message["role"] in ("system", "tool"):
            out.append(_as_user(message))
            continue
        if message["role"] != "assistant" or not message.get("tool_calls"):
            out.append(message)
            continue
        # Two assistant messages in a row are one turn: their calls are answered together.
        while at < len(messages) and messages[at]["role"] == "assistant":
            message = _merged(message, messages[at])
            at += 1
        results = []
        while at < len(messages) and messages[at]["role"] == "tool":
            results.append(messages[at])
            at += 1
        out.extend([message, *_answered(message, results)])
    return out


def _answered(message: Message, results: list[Message]) -> list[Message]:
    """One result for each call of `message`, in the order of the calls; then the others as user text."""
    waiting = list(results)
    out: list[Message] = []
    for call in message["tool_calls"]:
        wanted = str(call.get("id") or "")
        found = next((r for r in waiting if r["tool_call_id"] == wanted), None)
        if found is None:
            found = {"role": "tool", "tool_call_id": wanted, "content": NO_RESULT}
        else:
            waiting.remove(found)
        out.append(found)
    return out + [_as_user(r) for r in waiting]


def _as_user(message: Message) -> Message:
    """A message of another role as a user message; a tool result says what it is."""
    text = message["content"]
    if message["role"] == "tool":
        text = f"Result of {message.get('name') or 'a tool'}:\n{text.strip() or EMPTY}"
    return {"role": "user", "content": text}


def _merged(first: Message, second: Message) -> Message:
    """Two neighbours of one role as one message."""
    out: Message = {"role": first["role"], "content": _join([first["content"], second["content"]])}
    calls = [*first.get("tool_calls", []), *second.get("tool_calls", [])]
    if calls:
        out["tool_calls"] = calls
    return out


def _alternate(messages: list[Message]) -> list[Message]:
    """Join neighbours of one role; tool results stay apart."""
    out: list[Message] = []
    for message in messages:
        if out and message["role"] == out[-1]["role"] != "tool":
            out[-1] = _merged(out[-1], message)
        else:
            out.append(message)
    return out
