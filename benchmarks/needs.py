"""What a benchmark needs beside `make setup`, checked before it begins: some run for 20 minutes.

`python benchmarks/needs.py gcc valgrind` ends with an error, and how to install it, if one is
missing.
"""

import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

# By program: the command that installs it on Debian.
_INSTALL: Final = {
    "gcc": "apt-get install gcc libc6-dev",
    "git": "apt-get install git",
    "nginx": "apt-get install nginx-light",
    "taskset": "apt-get install util-linux",
    "valgrind": "apt-get install valgrind",
    # What compiling the gateway's hot modules needs beside gcc.
    "Python.h": "apt-get install python3-dev",
}
# Programs that Debian puts where only root looks.
_BESIDE: Final = "/usr/sbin"
# To build and run the C upstream and load generator on cores of their own.
LOAD: Final = ("gcc", "taskset")
COMPILED: Final = ("gcc", "Python.h")


def find_program(name: str) -> str | None:
    """Its path, or None."""
    if name == "Python.h":
        header = Path(sysconfig.get_path("include")) / name
        return str(header) if header.exists() else None
    return shutil.which(name) or shutil.which(name, path=_BESIDE)


def missing(
    programs: Iterable[str], find: Callable[[str], str | None] = find_program
) -> dict[str, str]:
    """Of these programs those that are not installed, each with the command that installs it."""
    return {name: _INSTALL[name] for name in sorted(set(programs)) if find(name) is None}


def require(programs: Iterable[str], advice: str = "") -> None:
    """End the benchmark with what to install, if something is missing."""
    lines = [f"{name} is not installed: {install}" for name, install in missing(programs).items()]
    if lines:
        raise SystemExit("\n".join([*lines, advice]).rstrip())


if __name__ == "__main__":
    require(sys.argv[1:])
