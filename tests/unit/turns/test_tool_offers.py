"""How many requests may ask servers for their tools at once."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import OutOfCapacity
from penstock.tools.mcp import McpTool
from penstock.turns.tool_offers import ToolOffers
from penstock.wire.apis.server_tools import ServerTools


class SlowServer:
    """One server that answers when it is told to."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()

    def choose(self, *_: object) -> list[Any]:
        return [SimpleNamespace(server=SimpleNamespace(label="slow"), secrets=None)]

    async def list_tools(self, *_: object) -> list[McpTool]:
        await self.answers.wait()
        return []


async def test_more_than_the_worker_may_hold_are_refused() -> None:
    server = SlowServer()
    offers = ToolOffers(None, cast("Any", server), cast("Any", server), 1)
    account = SimpleNamespace(account="account")
    opened: Any = SimpleNamespace(grant=account, fields={}, contract=None, tool_names={})
    asked = ServerTools(None, [(0, cast("Any", b"{}"))])
    async with asyncio.TaskGroup() as group:
        first = group.create_task(offers.offer(opened, asked, [[]]))
        await asyncio.sleep(0)
        with pytest.raises(OutOfCapacity):
            await offers.offer(opened, asked, [[]])
        server.answers.set()
    assert [listed.label for listed in first.result().lists] == ["slow"]
    assert (await offers.offer(opened, asked, [[]])).functions == {}
