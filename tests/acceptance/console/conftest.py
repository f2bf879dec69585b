"""A Postgres, a browser and somebody who has signed in, for tests of the console's screens."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.console.axe import Look, axe_source, unreadable
from tests.acceptance.console.console_cell import (
    ConsoleCell,
    ConsoleReader,
    ConsoleServer,
    console_server,
)
from tests.acceptance.site_browser import Browser


@pytest.fixture(scope="module")
def server() -> Iterator[ConsoleServer]:
    with console_server() as server:
        yield server


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("chromium"))
    opened.resize(1280, 900, is_phone=False)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def axe() -> str:
    return axe_source()


@pytest.fixture
def look(
    browser: Browser, axe: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Look]:
    """Looks at the open page in both schemes and at both widths, and draws it."""
    print("pictures are in", tmp_path)
    is_full = bool(request.config.getoption("--full"))
    yield lambda name: unreadable(browser, axe, tmp_path / name, is_full=is_full)
    browser.resize(1280, 900, is_phone=False)


@pytest.fixture(autouse=True)
def heard_from_now_on(request: pytest.FixtureRequest) -> None:
    """What the pages of one test ask for and log is judged by that test."""
    if "browser" in request.fixturenames:
        browser = request.getfixturevalue("browser")
        browser.settle()
        browser.forget()


@pytest.fixture
def reader(browser: Browser, cell: ConsoleCell) -> Iterator[ConsoleReader]:
    """An operator who has signed in to a module's cell and sees the first page.

    At the end of each test, nothing has gone wrong on any of its pages.
    """
    found = ConsoleReader(browser, cell.control.url, cell.control.keys.operator)
    found.sign_in()
    yield found
    found.check_quiet()
