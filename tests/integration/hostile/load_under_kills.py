"""Clients that go on asking while the gateways they ask are killed and started again."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from tests.chaos.cluster import kill
from tests.chaos.traffic import Heard, ask, may_go_on
from tests.integration.cells.gateway_process import GatewayProcess

_PAUSE_SECONDS = 0.1
_BETWEEN_KILLS_SECONDS = 0.3, 1.2

Body = dict[str, Any]


class LoadUnderKills:
    """`heard` has what came of each request, by its tag."""

    def __init__(self, gateways: list[GatewayProcess], key: str) -> None:
        self.gateways = gateways
        self._key = key
        self._is_over = False
        self.heard: dict[str, Heard] = {}

    @property
    def whole(self) -> int:
        """Answers that came to their end."""
        return sum(each.is_whole and each.status == 200 for each in self.heard.values())

    @property
    def cut(self) -> int:
        """Answers that began and did not come to their end."""
        return sum(each.status == 200 and not each.is_whole for each in self.heard.values())

    @property
    def refused(self) -> int:
        return sum(each.status == 429 for each in self.heard.values())

    def stop(self) -> None:
        """No client asks again; what is being answered is still waited for."""
        self._is_over = True

    async def client(self, number: int, next_body: Callable[[], Body]) -> None:
        """Ask one gateway after the other, until stopped or told that nothing is left."""
        turn = number
        while not self._is_over:
            turn += 1
            tag = f"client-{number}-{turn}"
            port = self.gateways[turn % len(self.gateways)].port
            heard = await ask(port, self._key, tag, next_body())
            self.heard[tag] = heard
            if not await may_go_on(heard, pause_seconds=_PAUSE_SECONDS):
                return


async def kill_in_turn(gateways: list[GatewayProcess], kills: int, source: random.Random) -> None:
    """kill -9 of one gateway after the other, each started again at once."""
    for number in range(kills):
        await asyncio.sleep(source.uniform(*_BETWEEN_KILLS_SECONDS))
        struck = gateways[number % len(gateways)]
        await asyncio.to_thread(kill, struck)
        await asyncio.to_thread(struck.start)
