"""What happens to gateways and to Postgres while clients ask, and heads of chains are held."""

import asyncio
import random
import time

from tests.chaos.cluster import Cluster, kill, kill_worker
from tests.chaos.contracts_log import DecisionCommands
from tests.integration.cells.gateway_process import GatewayProcess, eventually

WORKERS = 2
_KILL_PAUSE_SECONDS = 0.5, 3.0
_HEADS_SECONDS = 5.0
_START_SECONDS = 120.0
_START_TRIES = 4


class Trouble:
    """Kills gateways and workers, takes Postgres away, and holds heads of chains meanwhile."""

    def __init__(
        self,
        cluster: Cluster,
        gateways: list[GatewayProcess],
        commands: DecisionCommands,
        source: random.Random,
    ) -> None:
        self._cluster = cluster
        self._gateways = gateways
        self._commands = commands
        self._source = source
        # Whoever has it may count on Postgres.
        self._postgres = asyncio.Lock()
        self.kills = 0

    async def hold_heads(self, is_over: asyncio.Event) -> None:
        """Fetch the heads of all chains again and again, while Postgres is there."""
        while not is_over.is_set():
            async with self._postgres:
                await asyncio.to_thread(self._commands.hold_heads)
            await asyncio.sleep(_HEADS_SECONDS)

    async def kill_again_and_again(self, kills: int) -> None:
        """Of three kills, two end a whole gateway and one a worker."""
        for _ in range(kills):
            await asyncio.sleep(self._source.uniform(*_KILL_PAUSE_SECONDS))
            gateway = self._gateways[self.kills % 2]
            if self.kills % 3 == 2:
                await asyncio.to_thread(self._kill_worker, gateway)
            else:
                await asyncio.to_thread(self._kill, gateway)
                await asyncio.to_thread(start_gateway, gateway)
            await asyncio.to_thread(_await_workers, gateway)

    async def take_postgres_away(self, seconds: float) -> None:
        """Without Postgres a worker of one gateway and all of the other are killed."""
        first, second = self._gateways
        async with self._postgres:
            await asyncio.to_thread(self._cluster.postgres.stop)
            began = time.monotonic()
            await asyncio.sleep(seconds * self._source.uniform(0.6, 0.7))
            await asyncio.to_thread(self._kill_worker, first)
            await asyncio.sleep(seconds * self._source.uniform(0.1, 0.2))
            await asyncio.to_thread(self._kill, second)
            await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
            await asyncio.to_thread(self._cluster.postgres.start)
            print(f"Postgres was away for {time.monotonic() - began:.0f} s", flush=True)
        await asyncio.to_thread(start_gateway, second)

    def _kill(self, gateway: GatewayProcess) -> None:
        kill(gateway)
        self.kills += 1

    def _kill_worker(self, gateway: GatewayProcess) -> None:
        kill_worker(gateway)
        self.kills += 1


def start_gateway(gateway: GatewayProcess) -> None:
    """A machine with other work on it may need several tries."""
    for _ in range(_START_TRIES - 1):
        try:
            gateway.start()
        except RuntimeError as failure:
            print(f"gateway: once more, {str(failure)[-300:]}", flush=True)
        else:
            return
    gateway.start()


def _await_workers(gateway: GatewayProcess) -> None:
    """Workers that start without Postgres wait for it, so all are there before it goes away."""
    try:
        eventually(lambda: gateway.metric("penstock_workers") == WORKERS, _START_SECONDS)
    except AssertionError:
        lines = [line for line in gateway.log_text().splitlines() if '"request"' not in line]
        print("\n".join(lines[-40:]), gateway.metric("penstock_workers"), flush=True)
        raise
