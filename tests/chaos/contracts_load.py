"""Clients under contracts: each notes what effect it saw, by status, headers and body alone."""

import asyncio
import random
import re
from collections.abc import Sequence

import msgspec
from tests.chaos.contracts_plan import (
    CAPPED,
    CUT,
    FORBIDDEN_PIECES,
    NOTED,
    REFUSALS,
    STRIPPED,
    UNREADABLE,
    WITHHELD,
    Asking,
    Effect,
    next_asking,
)
from tests.chaos.traffic import Received, read_received, receive
from tests.integration.cells.gateway_cell import Cell
from tests.integration.cells.gateway_process import GatewayProcess
from tests.integration.cells.raw_client import post_bytes

_CLIENTS = 48
# Between two requests of a client, so that gateways have the time to start beside the load.
_PAUSE_SECONDS = 0.3, 1.5
# After a request to a gateway that is down.
_DOWN_SECONDS = 0.5
_NOTE = b"This call was not made"
_BY_CODE = {effect[2]: effect for effect in (WITHHELD, UNREADABLE, *REFUSALS)}
_CODES = re.compile("|".join(_BY_CODE).encode())
_BY_HEADER = {"output": CAPPED, "tools": STRIPPED, "tool_output": CUT}


class Seen(msgspec.Struct, frozen=True):
    """What a client saw of one request; `request` is the id that the answer had."""

    asking: Asking
    request: str
    status: int
    effects: frozenset[Effect]
    is_whole: bool
    has_leaked: bool
    text: str


class Load:
    """`seen` has all requests that got at least the head of an answer; `unanswered` counts others.

    `gateways` may be killed meanwhile. `is_enough` is set when so many requests were answered, and
    so many answers withheld.
    """

    def __init__(
        self,
        gateways: Sequence[GatewayProcess],
        cell: Cell,
        source: random.Random,
        floors: tuple[int, int],
    ) -> None:
        self._gateways = gateways
        self._account = cell.account
        self._key = cell.key
        self._source = source
        self._floors = floors
        self._withheld = 0
        self.is_enough = asyncio.Event()
        self.seen: list[Seen] = []
        self.unanswered = 0

    async def run(self, is_over: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(_CLIENTS):
                group.create_task(self._client(is_over))

    async def _client(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            await self._ask(next_asking(self._source, self._account))
            await asyncio.sleep(self._source.uniform(*_PAUSE_SECONDS))

    async def _ask(self, asking: Asking) -> None:
        gateway = self._source.choice(self._gateways)
        headers = {"connection": "close"}
        if asking.workflow:
            headers["x-penstock-workflow"] = asking.workflow
        request = post_bytes(asking.path, asking.body, self._key, headers=headers)
        data = await receive(gateway.port, request)
        received = read_received(data)
        if received is None:
            self.unanswered += 1
            await asyncio.sleep(_DOWN_SECONDS)
            return
        seen = _seen(asking, received, data)
        self.seen.append(seen)
        self._withheld += WITHHELD in seen.effects
        if len(self.seen) >= self._floors[0] and self._withheld >= self._floors[1]:
            self.is_enough.set()


def _seen(asking: Asking, received: Received, data: bytes) -> Seen:
    applied = received.headers.get("x-penstock-applied", "")
    names = [each.split("=")[0] for each in applied.split(", ") if each]
    effects = {_BY_HEADER[name] for name in names}
    effects |= {_BY_CODE[code.decode()] for code in _CODES.findall(received.body)}
    if _NOTE in received.body:
        effects.add(NOTED)
    leaked = any(piece in received.body or piece in data for piece in FORBIDDEN_PIECES)
    return Seen(
        asking=asking,
        request=received.headers.get("x-request-id", ""),
        status=received.status,
        effects=frozenset(effects),
        is_whole=received.is_whole,
        has_leaked=leaked,
        text=data[-600:].decode("utf-8", "replace"),
    )
