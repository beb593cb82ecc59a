"""Takes keys out of texts. Every error text passes through here before it reaches anyone or any file.

`redact` takes out what is known and what looks like a key, and is for texts about what went wrong. What must otherwise
stay as it is (a model's words, a study file, a notebook) passes `hide_values` or `hide_credentials`, not guessing.
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

#: User name and password of a URL, and a key in its query.
_URL_USER = re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]*:/{1,2})(?!\[redacted\])[^\s/@\"']+(?=@)", re.IGNORECASE)
_URL_KEY = re.compile(
    r"(?P<keep>\b[a-z][a-z0-9+.-]*:/{1,2}[^\s\"']*?[?&](?:api[-_]?key|key|token|access_token|sig|signature)=)"
    r"(?!\[redacted\])[^\s&\"']+",
    re.IGNORECASE,
)

_PATTERNS = (
    # name: value, name=value and "name": "value", also inside a URL's query
    re.compile(
        r"(?P<keep>(?:authorization|(?:x-)?(?:goog-)?api[-_ ]?key|access[-_]token|client[-_]secret|[?&]key)"
        r"[\"']?\s*[:=]\s*[\"']?(?!(?:bearer\s+|basic\s+)?\[redacted\])(?:(?:bearer|basic)\s+)?)[^\s\"'&,;}\]]+",
        re.IGNORECASE,
    ),
    re.compile(r"(?P<keep>\b(?:bearer|basic)\s+)(?!\[redacted\])[A-Za-z0-9._~+/=*-]{8,}", re.IGNORECASE),
    _URL_USER,
    re.compile(r"(?P<keep>)\b(?:sk|pk|rk|gsk|xai|hf|r8|pplx|nvapi|ghp|tgp)[-_][A-Za-z0-9_*-]{8,}"),
    re.compile(r"(?P<keep>)\bAIza[A-Za-z0-9_-]{20,}"),
    re.compile(r"(?P<keep>)\b(?:AKIA|ASIA)[A-Z0-9]{12,}"),
    re.compile(r"(?P<keep>)\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
)


def secret_values() -> list[str]:
    """Values of the environment variables whose names look like keys, longest first."""
    found = {v for k, v in os.environ.items() if _SECRET_NAME.search(k) and len(v) >= _SHORTEST}
    return sorted(found, key=len, reverse=True)


def hide_values(text: str, *known: str | None) -> str:
    """`text` without the values of key-like environment variables and without `known`; all else as it is."""
    for secret in [*sorted((k for k in known if k), key=len, reverse=True), *secret_values()]:
        if secret in text:
            text = text.replace(secret, REDACTED)
    return text


def hide_credentials(text: str, *known: str | None) -> str:
    """As `hide_values`, and without user names, passwords and keys in URLs.

    >>> hide_credentials("http://ann:opensesame@host/v1?key=abc&n=1")
    'http://[redacted]@host/v1?key=[redacted]&n=1'
    """
    text = hide_values(text, *known)
    for pattern in (_URL_USER, _URL_KEY):
        text = pattern.sub(rf"\g<keep>{REDACTED}", text)
    return text


def credentials_of(url: str | None) -> list[str]:
    """What a URL gives away: its user name and password where there is one, and keys in its query."""
    from urllib.parse import parse_qsl, unquote, urlsplit

    if not url:
        return []
    try:
        parts = urlsplit(url)
        found = [parts.password, *([parts.username] if not parts.password else [])]
    except ValueError:
        return []
    found += [v for k, v in parse_qsl(parts.query) if _URL_KEY.search(f"x://?{k}=x")]
    return [v for text in found if text and len(text) >= _SHORTEST for v in dict.fromkeys((text, unquote(text)))]


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
    text = hide_values(text, *known)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<keep>{REDACTED}", text)
    return text


def one_line(text: str, limit: int = 400) -> str:
    """`text` redacted, on one line, cut to `limit` characters."""
    flat = " ".join(redact(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
