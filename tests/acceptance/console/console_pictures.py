"""Draws the docs' pictures of the console, and of the commands that show the same.

Run it as `python -m tests.acceptance.console.console_pictures`. It also writes down by what files
each picture is made. A test compares, so that a picture is drawn, and looked at, again when a page
or a command has changed.
"""

import contextlib
import hashlib
import io
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from PIL import Image
from tests.acceptance.cli_run import PENSTOCK
from tests.acceptance.console.console_cell import (
    ConsoleCell,
    ConsoleReader,
    ConsoleServer,
    console_server,
)
from tests.acceptance.console.marks import click_largest, click_marked
from tests.acceptance.site_browser import Browser
from tests.acceptance.terminal_picture import Terminal
from tests.integration.cells.incident_rows import MODEL

from penstock.testing import ScriptedEngine

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = ROOT / "docs" / "assets"
RECORD: Final = ROOT / "docs" / "figures" / "console-pictures.json"
HOW: Final = "draw it and look at it: python -m tests.acceptance.console.console_pictures"
ALL_BYTES_MAX: Final = 1_000_000
SEED: Final = 20261119
_SIZE: Final = (1280, 720)
_COLOURS: Final = 64
_TERMINAL_SECONDS: Final = 30.0
_CONSOLE: Final = "src/penstock/console"
_FRAME: Final = (
    *(f"{_CONSOLE}/templates/{name}.html" for name in ("base", "page", "parts")),
    *(f"{_CONSOLE}/static/console.{kind}" for kind in ("css", "js")),
    *(f"{_CONSOLE}/{name}.py" for name in ("charts", "chart_tables", "screens/figures")),
)
_PRINTING: Final = (
    *(f"src/penstock/cli/{name}.py" for name in ("table", "requests", "explain")),
    "src/penstock/cli/usage/difference_table.py",
    f"{_CONSOLE}/formats.py",
    "tests/acceptance/terminal_picture.py",
)
_ANSWER: Final = (
    "Green tea, about 80 °C: boiling water makes it bitter. Two to three minutes are enough."
)


class Drawing(msgspec.Struct, frozen=True):
    """What a picture was drawn of, and the picture, as digests."""

    sources: str
    picture: str


class Desk(NamedTuple):
    """What a picture is drawn at: somebody who has signed in, a runtime key, and a folder."""

    reader: ConsoleReader
    runtime_key: str
    folder: Path


class Picture(NamedTuple):
    """How one picture is drawn, and the files that make what it shows."""

    draw: Callable[[Desk, Path], None]
    sources: tuple[str, ...]


def _page(template: str, *ways: str | Callable[[Browser], None], scheme: str = "light") -> Picture:
    """A page of the console, by its address and what is clicked on from there."""

    def draw(desk: Desk, file: Path) -> None:
        reader = desk.reader
        for way in ways:
            if isinstance(way, str):
                reader.open(way)
            else:
                reader.go(lambda click=way: click(reader.browser))  # type: ignore[misc]
        reader.browser.prefer(scheme)
        reader.browser.settle()
        reader.browser.picture(file)

    return Picture(draw, (*_FRAME, f"{_CONSOLE}/templates/{template}.html"))


def _one_session(browser: Browser) -> None:
    browser.click("main tbody a")


def _playground(desk: Desk, file: Path) -> None:
    reader = desk.reader
    reader.open("/console/playground")
    reader.browser.click("main input[name=key]")
    reader.browser.type(desk.runtime_key)
    reader.click("main form button.main")
    reader.browser.choose("#ask [name=model]", MODEL)
    reader.browser.click("#text")
    reader.browser.type("How hot should the water for green tea be?")
    reader.browser.click("#say button.main")
    reader.browser.wait_for("!!document.querySelector('#talk .dim a')", "no answer")
    reader.browser.prefer("light")
    reader.browser.picture(file)


def _command(size: tuple[int, int], words: str) -> Picture:
    """A command in a terminal of so many columns and rows; `ID` in it is the slowest request."""

    def draw(desk: Desk, file: Path) -> None:
        line = words
        if "ID" in words:
            desk.reader.open("/console/requests?order=slow")
            desk.reader.click("main tbody a")
            line = words.replace("ID", desk.reader.text("main code"))
        program = shlex.join(PENSTOCK)
        script = f"printf '\\e[1m$ penstock {line}\\e[0m\\n'; {program} {line}"
        variables = {
            "PENSTOCK_OPERATOR_URL": desk.reader.url,
            "PENSTOCK_OPERATOR_KEY": desk.reader.key,
        }
        folder = desk.folder / file.stem
        columns, rows = size
        terminal = Terminal(
            folder, ["bash", "-c", script], columns=columns, rows=rows, variables=variables
        )
        with terminal:
            code = terminal.wait_for_end(_TERMINAL_SECONDS)
            assert code == 0, terminal.lines
            if line == words:
                # Sentences about one request are left to the terminal to wrap.
                terminal.check_layout()
            terminal.picture(file)

    return Picture(draw, _PRINTING)


PICTURES: Final[Mapping[str, Picture]] = {
    "console-stability": _page("stability", "/console/"),
    "console-stability-dark": _page("stability", "/console/", scheme="dark"),
    "console-policy": _page("policy", "/console/policy"),
    "console-spend": _page("spend", "/console/spend"),
    "console-dear": _page("requests", "/console/", click_marked),
    "console-break": _page("request", "/console/", click_marked, click_marked),
    "console-fleet": _page("fleet", "/console/", click_largest),
    "console-slowest": _page("requests", "/console/", click_largest, click_marked),
    "console-slow": _page("request", "/console/", click_largest, click_marked, click_marked),
    "console-session": _page("sessions", "/console/sessions", _one_session),
    "console-flex": _page("flex", "/console/flex"),
    "console-accounts": _page("accounts", "/console/accounts", _one_session),
    "console-playground": Picture(
        _playground,
        (*_FRAME, f"{_CONSOLE}/templates/playground.html", f"{_CONSOLE}/static/playground.js"),
    ),
    "terminal-spend": _command((116, 14), "usage diff --since 24h"),
    "terminal-dear": _command((116, 13), "requests --dear --since 24h --limit 4"),
    "terminal-slow": _command((116, 13), "requests --slow --since 24h --limit 4"),
    "terminal-explain": _command((116, 28), "explain ID"),
}


# Drawn at a cell that has a gateway and a model.
_LIVE: Final = ("console-playground",)


def draw(names: Iterable[str], folder: Path) -> None:
    """Draw pictures into a folder: first those of the incident, then those that need a model."""
    wanted = [[name for name in names if (name in _LIVE) is is_live] for is_live in (False, True)]
    with contextlib.ExitStack() as running:
        server = running.enter_context(console_server())
        browser = Browser(Path(running.enter_context(tempfile.TemporaryDirectory())))
        running.callback(browser.close)
        browser.resize(*_SIZE, is_phone=False)
        for names_now, open_cell in zip(wanted, (_with_incident, _with_model), strict=True):
            if not names_now:
                continue
            with tempfile.TemporaryDirectory() as place, open_cell(server, Path(place)) as cell:
                reader = ConsoleReader(browser, cell.control.url, cell.control.keys.operator)
                reader.sign_in()
                at = Desk(reader, _runtime_key(cell) if cell.gateway else "", Path(place))
                for name in names_now:
                    browser.prefer("light")
                    PICTURES[name].draw(at, folder / f"{name}.png")
                    _shrink(folder / f"{name}.png")


@contextlib.contextmanager
def _with_incident(server: ConsoleServer, folder: Path) -> Iterator[ConsoleCell]:
    with server.cell(folder, SEED) as cell:
        yield cell


@contextlib.contextmanager
def _with_model(server: ConsoleServer, folder: Path) -> Iterator[ConsoleCell]:
    with ScriptedEngine(model="kimi") as engine, server.cell(folder, None, engine) as cell:
        engine.control(text=_ANSWER, interval=0.01)
        yield cell


def sources_of(name: str) -> str:
    """Return the digest of the files that make what a picture shows."""
    digest = hashlib.sha256()
    for source in PICTURES[name].sources:
        digest.update(f"{source}\n".encode())
        # Line ends are not the same on all machines.
        digest.update("\n".join((ROOT / source).read_text().splitlines()).encode())
    return digest.hexdigest()[:16]


def digest_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def read_record() -> dict[str, Drawing]:
    return msgspec.json.decode(RECORD.read_bytes(), type=dict[str, Drawing])


def _runtime_key(cell: ConsoleCell) -> str:
    with cell.control.client() as client:
        account = client.post("/accounts", json={"name": "Team A"}).json()["id"]
        made = client.post("/keys", json={"role": "runtime", "account": account, "name": "a"})
    return str(made.json()["secret"])


def _shrink(file: Path) -> None:
    """Write a picture again with fewer colours, which no reader misses."""
    with Image.open(io.BytesIO(file.read_bytes())) as whole:
        whole.convert("RGB").quantize(_COLOURS).save(file, optimize=True)


def main() -> None:
    names = sys.argv[1:] or list(PICTURES)
    draw(names, FOLDER)
    record = {**(read_record() if sys.argv[1:] else {})}
    for name in names:
        record[name] = Drawing(sources_of(name), digest_of(FOLDER / f"{name}.png"))
    text = msgspec.json.format(msgspec.json.encode(record, order="sorted"), indent=2)
    RECORD.write_bytes(text + b"\n")


if __name__ == "__main__":
    main()
