"""Reads a profile of callgrind: what each function cost by itself, and with all that it called."""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

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


def _full_name(text: str, names: dict[str, str]) -> str:
    """A name is written out once, and then goes by its number."""
    found = _NAME.fullmatch(text)
    if found is None:
        return text
    if found[2] is not None:
        names[found[1]] = found[2]
    return names[found[1]]
