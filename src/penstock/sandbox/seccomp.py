"""Builds the seccomp filter of containers: a list of allowed system calls, as a BPF program. Pure.

A call that is not listed fails with ENOSYS, as on a kernel that lacks it, so that libraries fall
back to another one. A call by another architecture's numbers kills the process.
"""

import struct
from collections.abc import Sequence
from typing import Final

from penstock.sandbox.system_calls import (
    CLONE,
    IOCTL,
    PRCTL,
    PRLIMIT,
    SOCKETPAIR,
    allowed_numbers,
)

# Offsets in `struct seccomp_data`; an argument has 64 bits, its lower half first.
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
# Operations of classic BPF.
_LOAD, _EQUAL, _GREATER, _NOT_LESS, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _EINVAL, _ENOTTY, _ENOSYS = 1, 22, 25, 38

_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# From this number on, x86-64 has calls with pointers of 32 bits, which no list knows.
_X32_FIRST = 0x40000000
# Flags by which `clone` makes namespaces: time, mounts, control groups, host name, IPC, users,
# processes, network.
_NAMESPACES = (
    0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
)
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX: what Python asks of files and pipes.
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ,
# PR_GET_NO_NEW_PRIVS: what programs ask. Others attach filters, or change what the kernel protects.
_PRCTLS = (1, 2, 3, 15, 16, 23, 39)
_AF_UNIX = 1
# A process that could lower this limit to 0 would make the host's handler of crashes run again.
_RLIMIT_CORE = 4


def seccomp_filter(machine: str) -> bytes:
    """Return the filter for `bwrap --seccomp`; a machine without a table raises KeyError."""
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, _ARCHITECTURES[machine], when_true=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        program += [_step(_NOT_LESS, _X32_FIRST, when_false=1), _step(_RETURN, _KILL)]
    program += _with_argument(SOCKETPAIR[machine], _FIRST, (_AF_UNIX,), _EPERM)
    program += _with_argument(IOCTL[machine], _SECOND, _IOCTLS, _ENOTTY)
    program += _with_argument(PRCTL[machine], _FIRST, _PRCTLS, _EINVAL)
    program += [
        _step(_EQUAL, PRLIMIT[machine], when_false=4),
        _step(_LOAD, _SECOND),
        _step(_EQUAL, _RLIMIT_CORE, when_false=1),
        _step(_RETURN, _FAIL | _EPERM),
        _step(_RETURN, _ALLOW),
        _step(_EQUAL, CLONE[machine], when_false=4),
        _step(_LOAD, _FIRST),
        _step(_ANY_BIT, _NAMESPACES, when_false=1),
        _step(_RETURN, _FAIL | _EPERM),
        _step(_RETURN, _ALLOW),
    ]
    for first, last in _ranges(allowed_numbers(machine)):
        program += [
            _step(_NOT_LESS, first, when_false=2),
            _step(_GREATER, last, when_true=1),
            _step(_RETURN, _ALLOW),
        ]
    program.append(_step(_RETURN, _FAIL | _ENOSYS))
    return b"".join(program)


def _with_argument(number: int, offset: int, allowed: Sequence[int], error: int) -> list[bytes]:
    """Allow a call if the argument at this offset has one of these values."""
    values = [
        _step(_EQUAL, value, when_true=len(allowed) - place) for place, value in enumerate(allowed)
    ]
    return [
        _step(_EQUAL, number, when_false=len(values) + 3),
        _step(_LOAD, offset),
        *values,
        _step(_RETURN, _FAIL | error),
        _step(_RETURN, _ALLOW),
    ]


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return runs of adjacent numbers: the kernel tests each run at every call."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _step(operation: int, value: int, *, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, when_true, when_false, value)
