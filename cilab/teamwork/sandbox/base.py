"""What the parts of the sandbox share: its error, its limits, and the two ways to hold a process.

Imports `cilab.core.errors` only. Starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from cilab.core.errors import CilabError

#: `bwrap`: bubblewrap holds the process. `none`: only rlimits and an empty environment do, on the user's word.
Isolation = Literal["bwrap", "none"]

#: Where the files lie in the eyes of the code that runs.
ROOT = "/work"


class SandboxError(CilabError):
    """Code cannot be run here, or a task asks the sandbox for something impossible."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a run may use.

    Attributes
    ----------
    file_bytes, files, total_bytes : of the workspace: bytes of one file, number of files, bytes of all files.
    output_chars : characters of one text that a tool gives back.
    seconds : wall-clock time of one execution. For `evaluate`, of all calls together.
    call_seconds : wall-clock time of one call of `evaluate`.
    cpu_seconds : processor time of one process.
    memory_bytes : address space of the process. There is only one: the sandbox lets none be started.
    disk_bytes : size of each of the two disks in memory, the folder of the files and /tmp.
    disk_files : files and folders on each of these disks.
    written_file_bytes : size of a file that is written while code runs.
    threads : threads of the process.
    open_files : open file descriptors.
    raw_output_bytes : bytes written to stdout and stderr before the process is stopped.
    """

    file_bytes: int = 128 * 2**10
    files: int = 200
    total_bytes: int = 2 * 2**20
    output_chars: int = 12_000
    seconds: float = 10.0
    call_seconds: float = 2.0
    cpu_seconds: int = 10
    memory_bytes: int = 512 * 2**20
    disk_bytes: int = 16 * 2**20
    disk_files: int = 2_000
    written_file_bytes: int = 8 * 2**20
    threads: int = 32
    open_files: int = 64
    raw_output_bytes: int = 2**20

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
                raise SandboxError(f"sandbox limit {field.name} is {value!r}; give a number above 0")


def shorten(text: str, limit: int) -> str:
    """At most about `limit` characters: the beginning and the end, and a note on what is left out between."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n[... {len(text) - limit} characters left out ...]\n{text[-tail:]}"
