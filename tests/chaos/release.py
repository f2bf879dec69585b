"""Upgrades a cell under load, from the sources of an earlier commit to those of this checkout.

`python -m tests.chaos.release --base REVISION`; its last line is the result as JSON, and it ends
with 1 unless no request failed and every request has its one row in the ledger. In order, with
requests all the time:

1. gateways of the old sources serve, on the old tables;
2. the new `penstock migrate` runs beside them;
3. a gateway of the new sources serves beside the old one;
4. the old gateway gets no new requests and is killed before its journal is in Postgres;
5. a new gateway starts on the old one's journal folder, and brings that journal into the ledger.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import msgspec
from tests.chaos.cluster import kill
from tests.chaos.ledger_check import settle
from tests.chaos.release_cell import ReleaseCell
from tests.chaos.traffic import Heard, ask
from tests.integration.cells.gateway_cell import CHAT, chat_body
from tests.integration.cells.gateway_process import GatewayProcess

ROOT = Path(__file__).parents[2]
_CLIENTS = 8
_PHASE_SECONDS = 5.0
# In so many requests at once nobody waits for the drain, which runs once a second.
_LAST_BURST = 40
_ROWS_SECONDS = 30.0
_REQUESTS_MIN = 500


class Found(msgspec.Struct, kw_only=True):
    """The line of JSON."""

    base: str
    requests: int
    failed: int
    lost: int
    double: int
    wrong: int
    migrations: int
    # Journals of the old version's workers that a gateway of the new one brought to the ledger.
    adopted: int

    @property
    def is_good(self) -> bool:
        broken = self.failed or self.lost or self.double or self.wrong
        return not broken and bool(self.adopted) and self.requests >= _REQUESTS_MIN


class Load:
    """Clients that ask again and again, each time at the next of the gateways named in `ports`."""

    def __init__(self, key: str) -> None:
        self.ports: list[int] = []
        self.heard: dict[str, Heard] = {}
        self._key = key
        self._numbers = count()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ask for as long as the block lasts; whatever was asked is answered before it ends."""
        self._is_on = True
        async with asyncio.TaskGroup() as group:
            for _ in range(_CLIENTS):
                group.create_task(self._client())
            try:
                yield
            finally:
                self._is_on = False

    async def burst(self, port: int, requests: int) -> None:
        """Send all at once to one gateway, and wait for all answers."""
        await asyncio.gather(*(self._ask(port) for _ in range(requests)))

    async def _client(self) -> None:
        while self._is_on:
            await self._ask(self.ports[next(self._numbers) % len(self.ports)])

    async def _ask(self, port: int) -> None:
        number = next(self._numbers)
        script = {"tokens": 2 + number % 20, "interval": 0.002}
        tag = f"release-{number}"
        body = chat_body(CHAT, script, stream=bool(number % 2))
        self.heard[tag] = await ask(port, self._key, tag, body)


async def upgrade(cell: ReleaseCell, load: Load) -> tuple[int, int]:
    """Run the steps of this module's docstring. Returns the counts of migrations and journals."""
    old = cell.gateway("old", cell.old_sources)
    await asyncio.to_thread(old.start)
    load.ports = [old.port]
    async with load.running():
        await asyncio.sleep(_PHASE_SECONDS)
        migrations = await asyncio.to_thread(cell.migrate)
        await asyncio.sleep(_PHASE_SECONDS)
        new = cell.gateway("new")
        await asyncio.to_thread(new.start)
        load.ports = [old.port, new.port]
        await asyncio.sleep(_PHASE_SECONDS)
        load.ports = [new.port]
        await _end_with_a_full_journal(old, load)
        successor = cell.gateway("old")
        await asyncio.to_thread(successor.start)
        load.ports = [new.port, successor.port]
        await asyncio.sleep(_PHASE_SECONDS)
        adopted = successor.metric("penstock_journals_adopted_total")
    return len(migrations), int(adopted)


async def _end_with_a_full_journal(old: GatewayProcess, load: Load) -> None:
    # What was sent to it before gets its answer first: a killed gateway cuts its streams.
    await asyncio.sleep(1.0)
    await load.burst(old.port, _LAST_BURST)
    await asyncio.to_thread(kill, old)


def main() -> int:
    parser = argparse.ArgumentParser(description="Upgrade a cell under load.")
    parser.add_argument("--base", required=True, help="the commit or tag to upgrade from")
    base = parser.parse_args().base
    with tempfile.TemporaryDirectory(prefix="penstock-release-") as place:
        # Where this runs as root, Postgres is another user, who has to come through.
        folder = Path(place)
        folder.chmod(0o711)
        with ReleaseCell(folder, _sources_of(base, folder / "base")) as cell:
            load = Load(cell.key)
            migrations, adopted = asyncio.run(upgrade(cell, load))
            with cell.connect() as connection:
                verdict = settle(connection, cell.engine, load.heard, seconds=_ROWS_SECONDS)
    failed = [each for each in load.heard.values() if not each.is_whole or each.status != 200]
    for each in failed[:10]:
        print(each)
    found = Found(
        base=base,
        requests=len(load.heard),
        failed=len(failed),
        lost=verdict.missing,
        double=verdict.double,
        wrong=verdict.wrong,
        migrations=migrations,
        adopted=adopted,
    )
    print(msgspec.json.encode(found).decode(), flush=True)
    return 0 if found.is_good else 1


def _sources_of(base: str, folder: Path) -> Path:
    """The package's sources as they were at a commit."""
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", "--format=tar", base, "src"], cwd=ROOT, check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder / "src"


if __name__ == "__main__":
    sys.exit(main())
