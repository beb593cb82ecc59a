"""The system calls that code in the sandbox may not make, as a filter program for the kernel.

Bubblewrap loads it (`--seccomp`). It holds two things that namespaces and rlimits do not: no second process can be
started (RLIMIT_NPROC does not bind root, nor whoever a container maps to root), and no memory can be had that
RLIMIT_AS does not count. Imports nothing of the package.

References
----------
The numbers are those of Linux' `unistd_64.h` (x86_64) and `asm-generic/unistd.h` (aarch64); the program is classic
BPF over `struct seccomp_data`, see seccomp(2).
"""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class _Machine:
    audit_arch: int
    clone: int
    denied: tuple[int, ...]


_MACHINES = {
    "x86_64": _Machine(
        audit_arch=0xC000003E,
        clone=56,
        denied=(
            *(57, 58),  # fork, vfork
            *(29, 64, 68, 240, 319, 447),  # shmget, semget, msgget, mq_open, memfd_create, memfd_secret
            *(101, 310, 311),  # ptrace, process_vm_readv, process_vm_writev
            *(272, 308, 165, 166, 155, 161),  # unshare, setns, mount, umount2, pivot_root, chroot
            *(428, 429, 430, 442, 304),  # open_tree, move_mount, fsopen, mount_setattr, open_by_handle_at
            *(321, 298, 323, 248, 249, 250),  # bpf, perf_event_open, userfaultfd, add_key, request_key, keyctl
            *(425, 426, 427),  # io_uring_setup, io_uring_enter, io_uring_register
        ),
    ),
    "aarch64": _Machine(
        audit_arch=0xC00000B7,
        clone=220,
        denied=(
            *(194, 190, 186, 180, 279, 447),
            *(117, 270, 271),
            *(97, 268, 40, 39, 41, 51),
            *(428, 429, 430, 442, 265),
            *(280, 241, 282, 217, 218, 219),
            *(425, 426, 427),
        ),
    ),
}
_CLONE3 = 435
_CLONE_THREAD = 0x10000
#: x86_64 has a second set of numbers for its 32-bit-pointer programs.
_X32_BIT = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38


def known_machine(machine: str | None = None) -> bool:
    """Whether there is a filter for this processor."""
    return (machine or platform.machine()) in _MACHINES


@cache
def program(machine: str | None = None) -> bytes:
    """The filter for a processor (`x86_64` or `aarch64`; this one by default), as the kernel reads it.

    Threads may be started, processes not. glibc asks for a thread with `clone3` first; its answer here is "no such
    call", upon which glibc uses `clone`, whose flags a filter can see.
    """
    name = machine or platform.machine()
    m = _MACHINES[name]
    end = ("deny", "missing", "kill", "allow")
    steps: list[tuple[int, int, str, str]] = [
        (_LOAD, _ARCH, "", ""),
        (_EQUAL, m.audit_arch, "", "kill"),
        (_LOAD, _NUMBER, "", ""),
        *([(_AT_LEAST, _X32_BIT, "kill", "")] if name == "x86_64" else []),
        (_EQUAL, _CLONE3, "missing", ""),
        *((_EQUAL, number, "deny", "") for number in m.denied),
        (_EQUAL, m.clone, "", "allow"),
        (_LOAD, _FIRST_ARGUMENT, "", ""),
        (_ANY_BIT, _CLONE_THREAD, "allow", "deny"),
    ]
    place = {label: len(steps) + i for i, label in enumerate(end)}

    def jump(here: int, label: str) -> int:
        return place[label] - here - 1 if label else 0

    code = [struct.pack("=HBBI", op, jump(i, yes), jump(i, no), k) for i, (op, k, yes, no) in enumerate(steps)]
    answers = {"deny": _ERRNO | _EPERM, "missing": _ERRNO | _ENOSYS, "kill": _KILL, "allow": _ALLOW}
    return b"".join([*code, *(struct.pack("=HBBI", _RETURN, 0, 0, answers[label]) for label in end)])
