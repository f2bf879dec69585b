"""A console with rows in its database, of a module's own, and somebody who has signed in."""

from collections.abc import Iterator

import pytest
from tests.integration.cells.control_process import ControlProcess
from tests.integration.console.console_browser import Browser
from tests.integration.console.console_cell import filled, patient_control
from tests.integration.console.console_rows import ConsoleRows


@pytest.fixture(scope="module")
def rows(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> ConsoleRows:
    return filled(module_dsn, tmp_path_factory.mktemp("journal"))


@pytest.fixture(scope="module")
def control(
    module_dsn: str, tmp_path_factory: pytest.TempPathFactory, rows: ConsoleRows
) -> Iterator[ControlProcess]:
    """One process for all tests of a module: none of them may harm it."""
    with patient_control(module_dsn, tmp_path_factory.mktemp("control")) as control:
        yield control


@pytest.fixture(scope="module")
def browser(control: ControlProcess) -> Iterator[Browser]:
    with Browser(control) as browser:
        yield browser
