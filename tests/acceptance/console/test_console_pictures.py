"""The docs' pictures of the console are of the pages as they are now, and small."""

from pathlib import Path

from PIL import Image
from tests.acceptance.console.console_cell import console_server
from tests.acceptance.console.console_pictures import (
    BYTES_MAX,
    FOLDER,
    PICTURES,
    ROOT,
    SEED,
    SIZE,
    draw,
    read_words,
)
from tests.acceptance.site_browser import Browser


def test_pictures_are_of_the_pages_as_they_are(tmp_path: Path) -> None:
    with console_server() as server, server.cell(tmp_path, SEED) as cell:
        browser = Browser(tmp_path / "chromium")
        try:
            words = draw(browser, cell, tmp_path)
        finally:
            browser.close()
    how = "draw them again: python -m tests.acceptance.console.console_pictures"
    assert words == read_words(), how
    for name in PICTURES:
        with (
            Image.open(tmp_path / f"{name}.png") as now,
            Image.open(FOLDER / f"{name}.png") as kept,
        ):
            assert now.size == kept.size == SIZE, how


def test_pictures_are_small_and_shown() -> None:
    page = (ROOT / "docs" / "first-week-on-call.md").read_text()
    for name in PICTURES:
        assert (FOLDER / f"{name}.png").stat().st_size <= BYTES_MAX
        assert f"](assets/{name}.png)" in page
    assert len(list(FOLDER.glob("console-*.png"))) == len(PICTURES)
