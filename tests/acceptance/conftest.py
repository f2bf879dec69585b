"""The cell that real clients run against. Each pytest process starts its own, on first use."""

from collections.abc import Iterator

import pytest
from tests.acceptance.client_cell import (
    KIMI_NEXT,
    SCRIPTED_CONTEXT_TOKENS,
    ClientCell,
    running_cell,
)
from tests.acceptance.client_contracts import apply_contracts
from tests.acceptance.code_cell import CodeCell, running_code_cell

from penstock.catalogue.models import BUILTIN_FOLDER
from penstock.clock import new_id


@pytest.fixture(scope="session")
def scripted_cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientCell]:
    """Engines that do as the prompt says: for what is about the protocol.

    The one of `KIMI_NEXT` is asked by chat, also for Responses.
    """
    folder = tmp_path_factory.mktemp("scripted")
    (folder / "models").mkdir()
    entry = next(each for each in BUILTIN_FOLDER.glob("*.toml") if KIMI_NEXT in each.read_text())
    (folder / "models" / entry.name).write_text(f'responses = "chat"\n{entry.read_text()}')
    (folder / "penstock.toml").write_text('[catalogue]\nfolder = "models"\n')
    with running_cell(folder, SCRIPTED_CONTEXT_TOKENS) as cell:
        yield cell


@pytest.fixture(scope="session")
def contracted_cell(
    scripted_cell: ClientCell, tmp_path_factory: pytest.TempPathFactory
) -> ClientCell:
    """The same cell, with contracts for workflows that only their tests name."""
    apply_contracts(scripted_cell.state, tmp_path_factory.mktemp("contracts"))
    return scripted_cell


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
