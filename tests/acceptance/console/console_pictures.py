"""Draws the pictures of docs/first-week-on-call.md.

Run it as `python -m tests.acceptance.console.console_pictures`. Beside them stand the headings
and columns of each page. A test compares, so that a page that has changed is drawn, and looked
at, again.
"""

import io
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from PIL import Image
from tests.acceptance.console.console_cell import ConsoleCell, ConsoleReader, console_server
from tests.acceptance.site_browser import Browser

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = ROOT / "docs" / "assets"
WORDS: Final = ROOT / "docs" / "figures" / "console-pictures.json"
BYTES_MAX: Final = 120_000
SIZE: Final = (1280, 720)
SEED: Final = 20261119
_COLOURS: Final = 128
_WORDS: Final = """[...document.querySelectorAll('nav a, h1, h2, thead th')]
    .filter(each => each.checkVisibility()).map(each => each.textContent)"""


def _open_break(reader: ConsoleReader) -> None:
    reader.open("/console/spend")
    reader.click("main .first")
    reader.click("main .first")


def _open_slow(reader: ConsoleReader) -> None:
    reader.open("/console/fleet")
    reader.click("main .first")
    reader.click("main .first")


PICTURES: Final[Mapping[str, Callable[[ConsoleReader], None]]] = {
    "console-stability": lambda reader: reader.open("/console/"),
    "console-spend": lambda reader: reader.open("/console/spend"),
    "console-break": _open_break,
    "console-fleet": lambda reader: reader.open("/console/fleet"),
    "console-slow": _open_slow,
}


def draw(browser: Browser, cell: ConsoleCell, folder: Path) -> dict[str, list[str]]:
    """Draw all pictures into a folder; return the headings of their pages."""
    browser.resize(*SIZE, is_phone=False)
    browser.prefer("light")
    reader = ConsoleReader(browser, cell.control.url, cell.control.keys.operator)
    reader.sign_in()
    found = {}
    for name, show in PICTURES.items():
        show(reader)
        shot = folder / f"{name}.png"
        browser.picture(shot)
        _shrink(shot)
        # A column for each cause of a change is there if its cause is, which the hour decides.
        found[name] = [each for each in browser.evaluate(_WORDS) if not each.startswith("By ")]
    return found


def read_words() -> Any:
    return msgspec.json.decode(WORDS.read_bytes())


def _shrink(file: Path) -> None:
    """Write a picture again with fewer colours, which no reader misses."""
    with Image.open(io.BytesIO(file.read_bytes())) as whole:
        whole.convert("RGB").quantize(_COLOURS).save(file, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, console_server() as server:
        browser = Browser(Path(folder) / "chromium")
        try:
            with server.cell(Path(folder), SEED) as cell:
                words = draw(browser, cell, FOLDER)
        finally:
            browser.close()
    WORDS.write_bytes(msgspec.json.format(msgspec.json.encode(words), indent=2) + b"\n")


if __name__ == "__main__":
    main()
