"""Runs processes in valgrind's callgrind, and reads its profiles: what each function cost."""

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# Counts nothing until `counting`.
_VALGRIND: Final = ("valgrind", "--tool=callgrind", "--instr-atstart=no")
_NAME: Final = re.compile(r"\((\d+)\)(?: (.*))?")


class Profile:
    """Instructions and calls by function."""

    def __init__(self) -> None:
        self.own: dict[str, int] = defaultdict(int)
        self.inclusive: dict[str, int] = defaultdict(int)
        self.calls: dict[str, int] = defaultdict(int)

    @property
    def total(self) -> int:
        return sum(self.own.values())

    def minus(self, other: "Profile") -> "Profile":
        """Return what this one has more than another of the same program."""
        left = Profile()
        for name in {*self.own, *other.own, *self.calls, *other.calls}:
            left.own[name] = self.own.get(name, 0) - other.own.get(name, 0)
            left.inclusive[name] = self.inclusive.get(name, 0) - other.inclusive.get(name, 0)
            left.calls[name] = self.calls.get(name, 0) - other.calls.get(name, 0)
        return left


def read_profile(lines: Iterable[str]) -> Profile:
    """By the format's own names: `fn=` begins a function, `cfn=` and `calls=` announce a call."""
    profile, names = Profile(), dict[str, str]()
    function = callee = ""
    count = 0
    for line in lines:
        key, _, rest = line.strip().partition("=")
        if key == "fn":
            function = _full_name(rest, names)
        elif key == "cfn":
            callee = _full_name(rest, names)
        elif key == "calls":
            count = int(rest.split()[0])
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            cost = int(line.split()[1])
            profile.inclusive[function] += cost
            if count:
                # The line after `calls=` has what the call cost.
                profile.calls[callee] += count
                count = 0
            else:
                profile.own[function] += cost
    return profile


class Dumps:
    """The profiles of one process that runs under `command`, one for each block of `counting`."""

    def __init__(self, out: Path) -> None:
        self.command: Final = [*_VALGRIND, "--trace-children=yes", f"--callgrind-out-file={out}"]
        self._out = out
        self._dumps = 0

    @contextmanager
    def counting(self, pid: int) -> Iterator[None]:
        """Count what the process does in this block."""
        _control("-z", str(pid))
        _control("-i", "on", str(pid))
        try:
            yield
        finally:
            _control("-i", "off", str(pid))

    def take(self, pid: int) -> Profile:
        """Return the profile of the last `counting`."""
        _control("-d", str(pid))
        # callgrind numbers its dumps.
        self._dumps += 1
        dump = self._out.with_suffix(f".{self._dumps}")
        with dump.open() as lines:
            profile = read_profile(lines)
        dump.unlink()
        return profile


def _control(*arguments: str) -> None:
    subprocess.run(["callgrind_control", *arguments], check=True, capture_output=True)


def _full_name(text: str, names: dict[str, str]) -> str:
    """A name is written out once, and then goes by its number."""
    found = _NAME.fullmatch(text)
    if found is None:
        return text
    if found[2] is not None:
        names[found[1]] = found[2]
    return names[found[1]]
