"""A whole Penstock with real engines: `penstock up` in an empty folder, as the README says."""

from collections.abc import Iterator

import pytest
from tests.engine.real_cell import Cell, running_up


@pytest.fixture(scope="session")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    models = ("--model", "smollm2", "--model", "tiny-vision")
    with running_up(tmp_path_factory.mktemp("up"), *models) as started:
        yield started
