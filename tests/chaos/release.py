"""Verifies a release: a newcomer's first minutes, the image, the deployment files, an upgrade.

`python -m tests.chaos.release --base REVISION`; its last line is the result as JSON, and it ends
with 1 unless everything starts, no request failed and every request has its one row in the ledger.
The wheel is installed and used as deploy/release/first_minutes.py does it. Then a cell is upgraded
from the sources of the earlier commit to those of this checkout. In order, with requests all the
time:

1. gateways of the old sources serve, on the old tables;
2. the new `penstock migrate` runs beside them;
3. a gateway of the new sources serves beside the old one;
4. the old gateway gets no new requests and is killed before its journal is in Postgres;
5. a new gateway starts on the old one's journal folder, and brings that journal into the ledger.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from tests.chaos.cluster import kill
from tests.chaos.ledger_check import settle
from tests.chaos.release_cell import ReleaseCell
from tests.chaos.traffic import Heard, ask
from tests.integration.cells.gateway_cell import CHAT, chat_body
from tests.integration.cells.gateway_process import GatewayProcess

ROOT = Path(__file__).parents[2]
_CLIENTS = 8
_PHASE_SECONDS = 8.0
# In so many requests at once nobody waits for the drain, which runs once a second.
_LAST_BURST = 40
_ROWS_SECONDS = 30.0
_REQUESTS_MIN = 5000
_FIRST_ANSWER_SECONDS_MAX = 60.0
_TESTS = ROOT / "tests" / "acceptance"
# What the image and its containers need. Looked for first: they come after minutes of other work.
_PROGRAMS = ("buildah", "mmdebstrap", "podman", "runc", "ip", "iptables", "netavark")
_PATHS = f"{os.defpath}:/usr/sbin:/sbin:/usr/lib/podman"
_INSTALL = (
    "apt-get install --no-install-recommends buildah mmdebstrap podman runc iproute2 netavark"
    " aardvark-dns iptables"
)


class Found(msgspec.Struct, kw_only=True):
    """The line of JSON."""

    base: str
    wheel_starts: int
    image_starts: int
    files_verify: int
    seconds_to_first_answer: float
    upgrade_requests: int
    upgrade_failed: int
    upgrade_lost: int
    upgrade_double: int
    upgrade_wrong: int
    migrations: int
    # Journals of the old version's workers that a gateway of the new one brought to the ledger.
    adopted: int

    @property
    def is_good(self) -> bool:
        starts = self.wheel_starts and self.image_starts and self.files_verify
        broken = self.upgrade_failed or self.upgrade_lost
        broken = broken or self.upgrade_double or self.upgrade_wrong
        is_loaded = self.upgrade_requests >= _REQUESTS_MIN
        is_quick = self.seconds_to_first_answer <= _FIRST_ANSWER_SECONDS_MAX
        return bool(starts and is_quick and self.adopted and is_loaded and not broken)


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
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATHS) is None]
    if missing:
        sys.exit(f"{', '.join(missing)} is not installed: {_INSTALL}")
    with tempfile.TemporaryDirectory(prefix="penstock-release-") as place:
        # Where this runs as root, Postgres is another user, who has to come through.
        folder = Path(place)
        folder.chmod(0o711)
        with ReleaseCell(folder, _sources_of(base, folder / "base")) as cell:
            load = Load(cell.key)
            migrations, adopted = asyncio.run(upgrade(cell, load))
            with cell.connect() as connection:
                verdict = settle(connection, cell.engine, load.heard, seconds=_ROWS_SECONDS)
        newcomer = _first_minutes(folder)
    failed = [each for each in load.heard.values() if not each.is_whole or each.status != 200]
    for each in failed[:10]:
        print(each)
    found = Found(
        base=base,
        wheel_starts=newcomer["wheel_starts"],
        image_starts=_passes(_TESTS / "test_deploy_image.py"),
        files_verify=_passes(_TESTS / "test_deploy_files.py"),
        seconds_to_first_answer=newcomer["seconds_to_first_answer"],
        upgrade_requests=len(load.heard),
        upgrade_failed=len(failed),
        upgrade_lost=verdict.missing,
        upgrade_double=verdict.double,
        upgrade_wrong=verdict.wrong,
        migrations=migrations,
        adopted=adopted,
    )
    print(msgspec.json.encode(found).decode(), flush=True)
    return 0 if found.is_good else 1


def _first_minutes(folder: Path) -> dict[str, Any]:
    """Build the plain wheel, and use it as a newcomer would, who is not this user."""
    wheels = folder / "wheels"
    hatchling = str(Path(sys.executable).with_name("hatchling"))
    build = [hatchling, "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = wheels.glob("*.whl")
    script = ROOT / "deploy" / "release" / "first_minutes.py"
    command = [sys.executable, str(script), str(wheel), str(folder / "newcomer")]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = msgspec.json.decode(done.stdout.splitlines()[-1])
    return found


def _passes(tests: Path) -> int:
    """Return 1 if a file of tests passes; each of its tests is listed by name."""
    command = [sys.executable, "-m", "pytest", "-v", "--full", "-p", "no:cacheprovider", str(tests)]
    return int(subprocess.run(command, cwd=ROOT, check=False).returncode == 0)


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
