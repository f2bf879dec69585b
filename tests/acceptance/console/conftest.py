"""A Postgres, a browser and somebody who has signed in, for tests of the console's screens."""

from collections.abc import Iterator

import pytest
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


@pytest.fixture
def reader(browser: Browser, cell: ConsoleCell) -> ConsoleReader:
    """An operator who has signed in to a module's cell and sees the first page."""
    found = ConsoleReader(browser, cell.control.url, cell.control.keys.operator)
    found.sign_in()
    return found
