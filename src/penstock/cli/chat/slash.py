"""Parses a typed line: a message, or a command that begins with a slash."""

from enum import StrEnum
from typing import Final, NamedTuple


class Slash(StrEnum):
    """The commands, as they are typed."""

    MODEL = "/model"
    SYSTEM = "/system"
    IMAGE = "/image"
    TOOLS = "/tools"
    FILES = "/files"
    NEW = "/new"
    HELP = "/help"
    QUIT = "/quit"


HELP: Final = {
    "/model [NAME]": "list the models, or go on with another",
    "/system [TEXT]": "show, set or (with a -) take away the system prompt",
    "/image FILE": "send a picture with the next message",
    "/tools [code on]": "show or switch tools: code on|off, mcp LABEL on|off, off",
    "/files [FOLDER]": "list the files that code made, or save them in a folder",
    "/new": "begin a new session; model and system prompt stay",
    "/help": "this list",
    "/quit": "end, as Ctrl-D does; Ctrl-C stops an answer",
}


class Typed(NamedTuple):
    """One line. `command` is None for a message."""

    command: Slash | None
    text: str


def understand(line: str) -> Typed | None:
    """Parse a line; None for an empty one, ValueError for an unknown command.

    A line with two slashes is a message that begins with one.
    """
    line = line.strip()
    if not line:
        return None
    if not line.startswith("/"):
        return Typed(None, line)
    if line.startswith("//"):
        return Typed(None, line[1:])
    word, _, rest = line.partition(" ")
    return Typed(Slash(word), rest.strip())
