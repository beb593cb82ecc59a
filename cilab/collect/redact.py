"""Takes keys out of texts. Every error text passes through here before it reaches anyone or any file.

May import nothing of the package. Never logs and never stores a key.
"""

from __future__ import annotations

import os
import re

#: What stands in the place of a secret.
REDACTED = "[redacted]"

_SECRET_NAME = re.compile(
    r"(API_?KEY|APIKEY|ACCESS_KEY(_ID)?|PRIVATE_KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)\d*$", re.IGNORECASE
)
#: Shorter values are no keys, and replacing them would garble texts.
_SHORTEST = 8

_PATTERNS = (
    # name: value, name=value and "name": "value", also inside a URL's query
    re.compile(
        r"(?P<keep>(?:authorization|(?:x-)?(?:goog-)?api[-_ ]?key|access[-_]token|client[-_]secret|[?&]key)"
        r"[\"']?\s*[:=]\s*[\"']?(?!(?:bearer\s+|basic\s+)?\[redacted\])(?:(?:bearer|basic)\s+)?)[^\s\"'&,;}\]]+",
        re.IGNORECASE,
    ),
    re.compile(r"(?P<keep>\b(?:bearer|basic)\s+)(?!\[redacted\])[A-Za-z0-9._~+/=*-]{8,}", re.IGNORECASE),
    re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]*://)(?!\[redacted\])[^\s/@\"']+(?=@)", re.IGNORECASE),
    re.compile(r"(?P<keep>)\b(?:sk|pk|rk|gsk|xai|hf|r8|pplx|nvapi|ghp|tgp)[-_][A-Za-z0-9_*-]{8,}"),
    re.compile(r"(?P<keep>)\bAIza[A-Za-z0-9_-]{20,}"),
    re.compile(r"(?P<keep>)\b(?:AKIA|ASIA)[A-Z0-9]{12,}"),
    re.compile(r"(?P<keep>)\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
)


def secret_values() -> list[str]:
    """Values of the environment variables whose names look like keys, longest first."""
    found = {v for k, v in os.environ.items() if _SECRET_NAME.search(k) and len(v) >= _SHORTEST}
    return sorted(found, key=len, reverse=True)


def redact(text: str, *known: str | None) -> str:
    """`text` without keys: each becomes `[redacted]`.

    Parameters
    ----------
    text : any text, an error message above all.
    known : further secrets to take out, such as a key that was passed in by hand; None is skipped.

    Returns
    -------
    str
        Without the values of key-like environment variables (`..._API_KEY`, `..._TOKEN`, `..._SECRET`
        and the like, of 8 characters or more), authorization headers, `sk-...` and other providers'
        key shapes, and user names and passwords in URLs.

    >>> redact("401 for Bearer abcdefgh1234")
    '401 for Bearer [redacted]'
    """
    for secret in sorted((k for k in known if k), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    for secret in secret_values():
        text = text.replace(secret, REDACTED)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<keep>{REDACTED}", text)
    return text


def one_line(text: str, limit: int = 400) -> str:
    """`text` redacted, on one line, cut to `limit` characters."""
    flat = " ".join(redact(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
