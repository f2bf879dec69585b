"""A source of weights, and the folder that it is fetched to."""

import os
from pathlib import Path

import pytest
from tests.unit.fleet.weight_sources import MEGABYTE

from penstock.fleet.weights.weight_folder import folder_of


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A folder with 24 MB in three files."""
    folder = tmp_path / "origin"
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "tokenizer" / "vocabulary.json").write_bytes(os.urandom(MEGABYTE))
    (folder / "model-1.safetensors").write_bytes(os.urandom(20 * MEGABYTE))
    (folder / "model-2.safetensors").write_bytes(os.urandom(3 * MEGABYTE))
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return folder_of(str(tmp_path / "weights"), "/origin")
