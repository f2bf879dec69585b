"""A whole Penstock with real engines: `penstock up` in a folder, as the README says."""

from collections.abc import Iterator

import pytest
from tests.engine.real_cell import Cell, running_up


@pytest.fixture(scope="session")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    """One cell for the whole suite: text, vision and vectors."""
    folder = tmp_path_factory.mktemp("up")
    models = ("--model", "smollm2", "--model", "tiny-vision", "--model", "smollm2-embeddings")
    with running_up(folder, *models) as started:
        yield started
