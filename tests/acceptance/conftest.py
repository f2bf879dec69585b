"""The cell that real clients run against. Each pytest process starts its own, on first use."""

from collections.abc import Iterator

import pytest
from tests.acceptance.client_cell import SCRIPTED_CONTEXT_TOKENS, ClientCell, running_cell
from tests.acceptance.code_cell import CodeCell, running_code_cell

from penstock.clock import new_id


@pytest.fixture(scope="session")
def scripted_cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientCell]:
    """Engines that do as the prompt says: for what is about the protocol."""
    with running_cell(tmp_path_factory.mktemp("scripted"), SCRIPTED_CONTEXT_TOKENS) as cell:
        yield cell


@pytest.fixture(scope="session")
def code_cell(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[CodeCell]:
    """A cell with a real sandbox host and a real MCP server, for models that run tools."""
    worker = getattr(request.config, "workerinput", {}).get("workerid", "gw0")
    number = int(worker.removeprefix("gw"))
    with running_code_cell(tmp_path_factory.mktemp("code"), number) as running:
        yield running


@pytest.fixture
def session() -> str:
    """A session's name that nobody has used."""
    return f"ses_{new_id()}"
