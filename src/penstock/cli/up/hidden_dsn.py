"""Takes the value of `--dsn` out of the process list, where every local user could read it."""

import os
import sys
from collections.abc import Sequence

from penstock.config import export

_OPTION = "--dsn"


def hide_dsn(dsn: str) -> None:
    """Run this program anew with the DSN in its environment, if its command line names one.

    The environment of a process is readable by its own user alone. The process keeps its pid, its
    parent and its terminal; nothing may have been started before.
    """
    kept = without_dsn(sys.orig_argv)
    if kept == sys.orig_argv:
        return
    export({"store.dsn": dsn})
    os.execv(sys.executable, kept)  # noqa: S606 - ourselves, with our own arguments


def without_dsn(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without `--dsn VALUE` and `--dsn=VALUE`."""
    kept: list[str] = []
    is_value = False
    for argument in arguments:
        if is_value:
            is_value = False
        elif argument == _OPTION:
            is_value = True
        elif not argument.startswith(f"{_OPTION}="):
            kept.append(argument)
    return kept
