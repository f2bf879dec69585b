"""`GET /` in a real browser: light and dark, desktop and phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.client_cell import KIMI, ClientCell
from tests.acceptance.site_browser import Browser

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    running = Browser(tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_shows_the_models_and_fetches_nothing(
    scripted_cell: ClientCell, browser: Browser, tmp_path: Path, size: str, scheme: str
) -> None:
    browser.resize(*SIZES[size], is_phone=size == "phone")
    browser.prefer(scheme)
    browser.open(scripted_cell.url + "/")
    browser.picture(tmp_path / f"front-{size}-{scheme}.png")
    assert KIMI in browser.evaluate("document.body.innerText")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.evaluate(wide) <= 0
    ground = browser.evaluate("getComputedStyle(document.documentElement).colorScheme")
    assert ground == "light dark"
    assert browser.requests == [scripted_cell.url + "/"]
    assert browser.errors == []
