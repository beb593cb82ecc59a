"""Files of a report: folders, whole files or none, and the side log.

May import `cilab.core`. A file is written beside its place and renamed: after a crash the old one stands, or the new.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cilab.core.errors import CilabError, ReportError
from cilab.core.redact import hide_values


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder, made where it is not there; a ReportError where it cannot be."""
    folder = Path(path).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ReportError(f"{folder}: cannot make this folder ({e.strerror}); choose another") from None
    return folder


class replacing:
    """Context manager: write to a temporary name beside `target`, then rename. Half a file is never seen."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")

    def __enter__(self) -> Path:
        make_folder(self.target.parent)
        return self.temporary

    def __exit__(self, kind: type | None, error: BaseException | None, _: Any) -> None:
        try:
            if error is None:
                os.replace(self.temporary, self.target)
        except OSError as e:
            error = e
        self.temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, CilabError):
            raise ReportError(f"{self.target}: cannot be written ({error.strerror or error})") from None


def write_text(target: Path, text: str) -> None:
    """Write a text whole or not at all; a ReportError where the folder cannot be written."""
    with replacing(target) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def log_rendering(
    out: Path, name: str, asked: Mapping[str, Any], began: float, ending: str, warnings: Sequence[str]
) -> None:
    """One line of JSON on this rendering in `render.log`, the only place where its time stands."""
    entry = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "report": name,
        "seconds": round(time.monotonic() - began, 2),
        "parameters": dict(asked),
        "ending": ending,
        "stderr": list(warnings),
    }
    try:
        with (out / "render.log").open("a", encoding="utf-8") as f:
            f.write(hide_values(json.dumps(entry)) + "\n")
    except OSError as e:
        raise ReportError(f"{out / 'render.log'}: cannot be written ({e.strerror})") from None
