"""The code blocks of a Markdown page, and what each says it needs.

A mark is a comment line above a fence: `<!-- block: dry: needs a GPU host -->`. Nothing is run
here; what each mark does is said where it is done, in `docs_page.py`.
"""

import re
import textwrap
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

SHELLS = frozenset({"bash", "sh", "console"})
PROGRAMS = frozenset({"python", "js", "mjs"})
READ = frozenset({"toml", "json", "jsonc"})
SHOWN = frozenset({"", "text", "mermaid"})

# Marks that say something, `<!-- block: NAME: TEXT -->`, and what their text is.
SAYING = {
    "dry": "why it is checked and not run: it needs a GPU host, several hosts, root",
    "shown": "why it is not even checked: another program's format",
    "save": "the file that it is written to, instead of being run",
    "stays": "what it prints once it is ready; it then runs on until the page's end",
    "exit": "the status that it ends with, if not 0",
    "given": "NAME=value: run before it, and the value stands in NAME's place in it",
    "on": "the hosts that it is typed on, on a page of several: head, or each of the others",
    "after": "a command that succeeds once it has run; $PRINTED is what it printed",
}
# Marks that say nothing more, and what they mean.
SILENT = {
    "answer": "has the keys, or the words, of what the block before has printed",
    "clients": "runs with the real clients of clients/setup-python and setup-node",
    "parse": "belongs to another program: only its format is checked",
}
# A catalogue entry, or what is laid over the built-in entry that it names.
EITHER = {"catalogue": "a built-in entry's file name, without .toml"}

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,}) *(?P<language>[\w+-]*)[^`]*$")
_MARK = re.compile(r"^ *<!-- block: (?P<name>\w+)(?:: (?P<text>.+?))? -->$")
_PAGE_MARK = re.compile(r"^<!-- page: (.+?) -->$", re.MULTILINE)


class BlockError(ValueError):
    """A block that says nothing about how it is run, or something that is not understood."""


class Way(StrEnum):
    """What is done with a block."""

    RUN = "run"
    READ = "read by the reader of its format, or compared with an answer"
    DRY = "dry-run"
    SHOWN = "not run"


class Cell(StrEnum):
    """What runs beside a page."""

    SCRIPTED = "scripted cell"
    NONE = "no cell"
    # Its own test makes the hosts.
    FOUR_HOSTS = "four hosts"
    # So does `make chaos-kubernetes`.
    CLUSTER = "cluster"


class Block(msgspec.Struct, frozen=True):
    """One fence. `text` is what stands in it, without the indentation that it has as a whole."""

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str] = {}

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def way(self) -> Way:
        """Raises BlockError when there is none."""
        if "dry" in self.marks:
            return Way.DRY
        if "shown" in self.marks:
            return Way.SHOWN
        if "save" in self.marks or self.language in SHELLS | PROGRAMS:
            return Way.RUN
        if "answer" in self.marks or self.language in READ:
            return Way.READ
        if self.language in SHOWN:
            return Way.SHOWN
        raise BlockError(f"{self.name}: {self.language}: no way to run it, and no mark")


class Page(msgspec.Struct, frozen=True):
    """A page and its blocks, in order."""

    name: str
    cell: Cell
    blocks: tuple[Block, ...]

    def having(self, way: Way) -> list[Block]:
        return [block for block in self.blocks if block.way is way]


def read_page(path: Path, root: Path) -> Page:
    name = str(path.relative_to(root))
    text = path.read_text()
    said = _PAGE_MARK.search(text)
    try:
        cell = Cell(said[1]) if said else Cell.SCRIPTED
    except ValueError:
        raise BlockError(f"{name}: a page has no mark {said and said[1]!r}") from None
    return Page(name, cell, tuple(_blocks(name, text)))


def shell_lines(block: Block) -> str:
    """What a reader types: all of it, or what stands behind the `$ ` of a console."""
    if block.language != "console":
        return block.text
    typed, goes_on = [], False
    for line in block.text.splitlines():
        if goes_on or line.startswith("$ "):
            typed.append(line if goes_on else line[2:])
            goes_on = line.endswith("\\")
    if not typed:
        raise BlockError(f"{block.name}: a console in which no line begins with `$ `")
    return "\n".join(typed) + "\n"


def _blocks(page: str, text: str) -> Iterator[Block]:
    marks: dict[str, str] = {}
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if mark := _MARK.match(line):
            name, said = mark["name"], mark["text"] or ""
            _check_mark(f"{page}:{number}", name, said)
            marks[name] = said
        elif fence := _FENCE.match(line):
            body = _until_closed(f"{page}:{number}", lines, fence["ticks"])
            yield Block(page, number, fence["language"], _without(fence["indent"], body), marks)
            marks = {}
        elif line.strip(" >").startswith(("```", "~~~", "<!-- block")):
            raise BlockError(f"{page}:{number}: neither a fence nor a mark: {line}")
        elif line.strip() and marks:
            raise BlockError(f"{page}:{number}: a mark belongs directly above a fence")


def _check_mark(place: str, name: str, said: str) -> None:
    known = SAYING | SILENT | EITHER
    if name not in known:
        raise BlockError(f"{place}: no mark `{name}`; there are {', '.join(known)}")
    if name in SAYING and not said:
        raise BlockError(f"{place}: `{name}` lacks its text: {SAYING[name]}")
    if name in SILENT and said:
        raise BlockError(f"{place}: `{name}` takes no text")


def _until_closed(place: str, lines: Iterator[tuple[int, str]], ticks: str) -> list[str]:
    body: list[str] = []
    for _, line in lines:
        if line.strip().startswith(ticks) and not line.strip(" `~"):
            return body
        body.append(line)
    raise BlockError(f"{place}: the fence is never closed")


def _without(indent: str, body: list[str]) -> str:
    """A fence in a list or a tab is indented as a whole; what is indented in it stays so."""
    if any(line.strip() and not line.startswith(indent) for line in body):
        return textwrap.dedent("\n".join(body)) + "\n"
    return "\n".join(line[len(indent) :] for line in body) + "\n"
