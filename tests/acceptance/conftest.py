"""The two cells that real clients are run against, each started once and only if it is needed."""

from collections.abc import Iterator

import pytest
from tests.acceptance.client_cell import SCRIPTED_CONTEXT_TOKENS, ClientCell, running_cell

from penstock.clock import new_id


@pytest.fixture(scope="session")
def scripted_cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientCell]:
    """Engines that do as the prompt says: for what is about the protocol."""
    with running_cell(tmp_path_factory.mktemp("scripted"), SCRIPTED_CONTEXT_TOKENS) as cell:
        yield cell


@pytest.fixture(scope="session")
def real_cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientCell]:
    """vLLM on the CPU with SmolLM2: real weights, too small to be right or to call tools."""
    with running_cell(tmp_path_factory.mktemp("real"), {}) as cell:
        yield cell


@pytest.fixture
def session() -> str:
    """A session's name that nobody has used."""
    return f"ses_{new_id()}"
