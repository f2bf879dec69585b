"""The filter of containers, run by an interpreter of BPF that stands here for the kernel's."""

import struct

import pytest

from penstock.sandbox.seccomp import seccomp_filter
from penstock.sandbox.system_calls import allowed_numbers

ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, EINVAL, ENOTTY, ENOSYS = 1, 22, 25, 38
X86, ARM = 0xC000003E, 0xC00000B7
READ, IOCTL, SOCKET, SOCKETPAIR, CLONE, MOUNT, PTRACE, UNSHARE, CLONE3 = (
    *(0, 16, 41, 53, 56, 165, 101, 272, 435),
)  # fmt: skip
BPF, KEYCTL, IO_URING, PRCTL, PRLIMIT = 321, 250, 425, 157, 302


def _verdict(number: int, *arguments: int, architecture: int = X86, machine: str = "x86_64") -> int:
    """What the kernel would do with a call."""
    six = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=iIQ6Q", number, architecture, 0, *six)
    steps = list(struct.iter_unpack("=HBBI", seccomp_filter(machine)))
    at = value = 0
    while True:
        operation, when_true, when_false, operand = steps[at]
        at += 1
        if operation == 0x06:
            return int(operand)
        if operation == 0x20:
            [value] = struct.unpack_from("=I", data, operand)
            continue
        is_so = {
            0x15: value == operand,
            0x25: value > operand,
            0x35: value >= operand,
            0x45: bool(value & operand),
        }[operation]
        at += when_true if is_so else when_false


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_exactly_the_listed_calls_are_allowed(machine: str) -> None:
    architecture = {"x86_64": X86, "aarch64": ARM}[machine]
    special = {"x86_64": {16, 53, 56, 157, 302}, "aarch64": {29, 167, 199, 220, 261}}[machine]
    allowed = set(allowed_numbers(machine))
    for number in set(range(600)) - special:
        wanted = ALLOW if number in allowed else FAIL | ENOSYS
        assert _verdict(number, architecture=architecture, machine=machine) == wanted, number


@pytest.mark.parametrize("number", [SOCKET, MOUNT, PTRACE, UNSHARE, CLONE3, BPF, KEYCTL, IO_URING])
def test_what_reaches_out_does_not_exist(number: int) -> None:
    assert _verdict(number) == FAIL | ENOSYS


def test_other_architectures_are_killed() -> None:
    assert _verdict(READ, architecture=0x40000003) == KILL
    assert _verdict(READ, architecture=ARM) == KILL
    assert _verdict(READ | 0x40000000) == KILL
    assert _verdict(-1) == KILL


def test_threads_are_cloned_and_namespaces_are_not() -> None:
    thread = 0x3D0F00
    assert _verdict(CLONE, thread) == ALLOW
    assert _verdict(CLONE, 0x11) == ALLOW
    for flag in (
        0x80,
        0x20000,
        0x2000000,
        0x4000000,
        0x8000000,
        0x10000000,
        0x20000000,
        0x40000000,
    ):
        assert _verdict(CLONE, 0x11 | flag) == FAIL | EPERM


def test_calls_are_judged_by_their_arguments() -> None:
    assert _verdict(SOCKETPAIR, 1) == ALLOW
    assert _verdict(SOCKETPAIR, 2) == FAIL | EPERM
    assert _verdict(IOCTL, 1, 0x5401) == ALLOW
    assert _verdict(IOCTL, 1, 0x5451) == ALLOW
    # PR_SET_NAME, and PR_SET_SECCOMP, which attaches a filter.
    assert _verdict(PRCTL, 15) == ALLOW
    assert _verdict(PRCTL, 22) == FAIL | EINVAL
    # RLIMIT_DATA, and RLIMIT_CORE, on which the host's handler of crashes depends.
    assert _verdict(PRLIMIT, 0, 2) == ALLOW
    assert _verdict(PRLIMIT, 0, 4) == FAIL | EPERM
    # TIOCSTI types into somebody's terminal.
    assert _verdict(IOCTL, 1, 0x5412) == FAIL | ENOTTY


def test_it_is_short() -> None:
    assert len(seccomp_filter("x86_64")) < 4096


def test_unknown_machine_has_none() -> None:
    with pytest.raises(KeyError):
        seccomp_filter("riscv64")
