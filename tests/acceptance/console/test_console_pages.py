"""Every screen in a real browser: readable by everybody, at any width, and without an error."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.console.axe import axe_source, serious_findings
from tests.acceptance.console.console_cell import (
    ConsoleCell,
    ConsoleReader,
    ConsoleServer,
)
from tests.acceptance.site_browser import Browser

from penstock.console.screens.screens import SCREENS

SEED = 20261119
WIDTHS = (320, 1280)
SCHEMES = ("light", "dark")
_TOO_WIDE = "document.documentElement.scrollWidth - window.innerWidth"


@pytest.fixture(scope="module")
def filled(
    server: ConsoleServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleCell]:
    with server.cell(tmp_path_factory.mktemp("filled"), SEED) as cell:
        yield cell


@pytest.fixture(scope="module")
def empty(server: ConsoleServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleCell]:
    with server.cell(tmp_path_factory.mktemp("empty"), None) as cell:
        yield cell


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def axe() -> str:
    return axe_source()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("width", "scheme"), [(320, "dark")])
def test_screens_without_data_are_readable(
    empty: ConsoleCell, browser: Browser, pictures: Path, axe: str, width: int, scheme: str
) -> None:
    browser.resize(width, 900, is_phone=width < 700)
    browser.prefer(scheme)
    assert _unreadable(empty, browser, pictures / f"empty-{width}-{scheme}", axe) == {}


@pytest.fixture
def in_ci(request: pytest.FixtureRequest, width: int, scheme: str) -> None:
    """Skip two of the four pictures of each page where time is short."""
    is_short = not request.config.getoption("--full")
    if is_short and (width, scheme) not in {(320, "dark"), (1280, "light")}:
        pytest.skip("the other two of four: `make nightly`, or --full")


@pytest.mark.usefixtures("in_ci")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_screens_are_readable(
    filled: ConsoleCell, browser: Browser, pictures: Path, axe: str, width: int, scheme: str
) -> None:
    browser.resize(width, 900, is_phone=width < 700)
    browser.prefer(scheme)
    assert _unreadable(filled, browser, pictures / f"filled-{width}-{scheme}", axe) == {}


def _unreadable(
    cell: ConsoleCell, browser: Browser, folder: Path, axe: str
) -> dict[str, tuple[list[object], int]]:
    """What axe finds, and by how much a page is too wide, on every page; with a picture of each."""
    reader = ConsoleReader(browser, cell.control.url, cell.control.keys.operator)
    reader.sign_in()
    folder.mkdir()
    print("pictures are in", folder)
    wrong = {}
    for name, path in _pages(reader, cell).items():
        reader.open(path)
        browser.picture(folder / f"{name}.png", is_whole=True)
        wide = browser.evaluate(_TOO_WIDE)
        found = serious_findings(browser, axe)
        reader.check_quiet(refused=404 if name == "nothing" else 0)
        if found or wide > 0:
            wrong[name] = (found, wide)
    return wrong


def _pages(reader: ConsoleReader, cell: ConsoleCell) -> dict[str, str]:
    """The address of every page, also of those that need an id, and of the short periods."""
    pages = {each.name: each.path for each in SCREENS}
    pages["spend-1h"] = "/console/spend?period=1h"
    pages["stability-7d"] = "/console/?period=7d"
    pages["nothing"] = "/console/nothing"
    if cell.incident is None:
        return pages
    lists = {"one-request": "/console/requests?order=dear", "one-session": "/console/sessions"}
    for name, path in lists.items():
        reader.open(path)
        pages[name] = reader.browser.evaluate(
            "(a => a.pathname + a.search)(document.querySelector('main a.first'))"
        )
    pages["one-account"] = f"/console/accounts?account={cell.incident.account}"
    return pages
