"""A gateway that stores responses and has a sandbox host that imitates running code."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.imitated_sandbox import TOKEN, ImitatedSandbox, Scripted
from tests.integration.cells.stored_cell import STORING

from penstock.testing import ScriptedEngine
from penstock.wire.resources.sandbox import Failed, Output, WholePicture


@pytest.fixture(scope="module")
def host() -> Iterator[ImitatedSandbox]:
    with ImitatedSandbox() as running:
        running.script = {
            "print(6*7)": Scripted([Output("stdout", "42\n")]),
            "x = 1": Scripted(),
            "1/0": Scripted([Failed("ZeroDivisionError", "ZeroDivisionError: division by zero")]),
            "plot()": Scripted([WholePicture(b"\x89PNG figure")], {"table.csv": b"a,b\n1,2\n"}),
            "slow()": Scripted(seconds=30.0),
            "flood()": Scripted([Output("stdout", "y" * 300_000)]),
            "die()": Scripted(dies=True),
        }
        yield running


@pytest.fixture(scope="module")
def running(
    cells: CellFactory, host: ImitatedSandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cell, ScriptedEngine]]:
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)
    settings: dict[str, Any] = {
        **STORING,
        "tools.sandbox_hosts": [host.url],
        "tools.sandbox_token_file": str(token),
        "tools.allow_shared_kernel": True,
    }
    with cells.open(settings) as opened:
        yield opened, opened.set_up(CHAT)


@pytest.fixture
def cell(running: tuple[Cell, ScriptedEngine]) -> Cell:
    return running[0]


@pytest.fixture
def engine(running: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return running[1]
