"""`penstock chat` with tools: code runs on the gateway, is shown, and its files are saved."""

import io
from pathlib import Path

from rich.console import Console
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.imitated_sandbox import ImitatedSandbox
from tests.integration.turns.turn_requests import code

from penstock.cli.chat.command import Playground
from penstock.cli.chat.conversation import Conversation
from penstock.cli.chat.gateway_stream import GatewayStream


def chat(cell: Cell, *lines: str) -> str:
    """Return what the screen shows of a chat with these lines."""
    screen = io.StringIO()
    gateway = GatewayStream(cell.gateway.url, cell.authorization()["authorization"][7:])
    out = Console(file=screen, width=200, color_system=None)
    Playground(gateway, Conversation(CHAT, "chat-test"), out).run(iter(lines))
    return screen.getvalue()


def test_code_runs_is_shown_and_its_files_are_saved(
    cell: Cell, host: ImitatedSandbox, tmp_path: Path
) -> None:
    before, containers = len(host.calls), len(host.containers)
    shown = chat(
        cell,
        "/tools code on",
        code("print(6*7)"),
        code("plot()"),
        f"/files {tmp_path / 'made'}",
        "/tools off",
        "And now without.",
    )
    assert "▸ runs Python\n│ print(6*7)\n▸ printed\n│ 42\n" in shown
    assert "cost unknown" not in shown
    assert [call.code for call in host.calls[before:]] == ["print(6*7)", "plot()"]
    # The second turn ran in the container of the first; the one of the check has ended.
    assert len(host.containers) == containers + 1
    saved = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    assert saved.pop("table.csv") == b"a,b\n1,2\n"
    assert list(saved.values()) == [b"\x89PNG figure"]
    assert "3 turns" in shown


def test_a_gateway_without_a_sandbox_says_so(cells: CellFactory) -> None:
    with cells.open() as cell:
        cell.set_up(CHAT)
        shown = chat(cell, "/tools code on", "/tools", "Hello.")
    assert "This gateway cannot run code now: it has no sandbox host" in shown
    assert "tools: none" in shown
    assert "1 turn " in shown


def test_a_server_that_the_gateway_does_not_know_is_named(cell: Cell) -> None:
    shown = chat(cell, "/tools mcp nowhere on", "Hello.", "/tools off", "Hello.")
    assert "/tools off goes on without tools." in shown
    assert "1 turn " in shown
