"""The running processes of a cell in Postgres: gateway workers, keepers and control."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from penstock.errors import StoreUnavailable
from penstock.records.replica import ReplicaId
from penstock.store.pool import Store

logger = logging.getLogger(__name__)

_BEAT_SECONDS: Final = 5.0
# A process that was killed leaves its row, which the next beat of any other deletes.
_KEPT_SECONDS: Final = 3600.0

_BEAT: Final = """
    insert into workers (holder, kind, host, version, facts)
    values (%s::uuid, %s, %s, %s, %s)
    on conflict (holder) do update set beat_at = now(), facts = excluded.facts
"""
_DELETE_OLD: Final = "delete from workers where beat_at < now() - make_interval(secs => %s)"
_LEAVE: Final = "delete from workers where holder = %s::uuid"
_READ: Final = """
    select holder::text, kind, host, version, facts::text,
        extract(epoch from started_at)::float8, extract(epoch from now() - beat_at)::float8
    from workers order by kind, host, holder limit 10000
"""


# A process that has not reported for longer is silent: it may be dead, and its facts are old.
SILENT_SECONDS: Final = 15.0
# Before the id of a replica that a gateway worker leaves out: a fact whose value is why.
_LEFT_OUT: Final = "left_out "
# Of what a worker leaves out, what it reports.
_LEFT_OUT_MAX: Final = 20
_REASON_CHARS_MAX: Final = 120


class Worker(msgspec.Struct, frozen=True):
    """One process: what it is, where it runs, and what it says of itself."""

    holder: str
    kind: str
    host: str
    version: str
    facts: dict[str, str | int] = {}


class SeenWorker(msgspec.Struct, frozen=True):
    """A process as it reported itself last."""

    worker: Worker
    # A Unix time.
    started_at: float
    # How long ago it reported itself.
    silent_seconds: float


class LeftOut(NamedTuple):
    """How many gateway workers leave a replica out, and why one of them does."""

    workers: int
    reason: str


def left_out_facts(reasons: Mapping[ReplicaId, str]) -> dict[str, str]:
    """Return a worker's facts about replicas that it leaves out, by their ids."""
    first = islice(reasons.items(), _LEFT_OUT_MAX)
    return {f"{_LEFT_OUT}{replica}": reason[:_REASON_CHARS_MAX] for replica, reason in first}


def left_out(workers: Iterable[SeenWorker]) -> dict[str, LeftOut]:
    """Return the replicas that gateway workers leave out, by their ids."""
    found: dict[str, LeftOut] = {}
    for each in workers:
        if each.silent_seconds > SILENT_SECONDS:
            continue
        for name, value in each.worker.facts.items():
            if name.startswith(_LEFT_OUT):
                replica = name.removeprefix(_LEFT_OUT)
                before = found.get(replica, LeftOut(0, ""))
                found[replica] = LeftOut(before.workers + 1, str(value))
    return found


def count_gateways(workers: Iterable[SeenWorker]) -> int:
    """Return how many gateway workers there are that report."""
    return sum(
        each.worker.kind == "gateway" and each.silent_seconds <= SILENT_SECONDS for each in workers
    )


class WorkerTable:
    """The only writer and reader of the table `workers`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def keep(
        self, worker: Worker, more: Callable[[], dict[str, str | int]] | None = None
    ) -> None:
        """Report a process until cancelled; then delete its row. `more` is asked at each beat."""
        try:
            while True:
                facts = worker.facts if more is None else {**worker.facts, **more()}
                try:
                    await self.beat(msgspec.structs.replace(worker, facts=facts))
                except StoreUnavailable:
                    logger.debug("worker not reported", extra={"action": "worker_unreported"})
                await asyncio.sleep(_BEAT_SECONDS)
        finally:
            await self._leave(worker)

    async def beat(self, worker: Worker) -> None:
        """Write a process' row, and delete the rows of those that ended long ago."""
        facts = msgspec.json.encode(worker.facts).decode()
        async with self._store.transaction() as tx:
            row = (worker.holder, worker.kind, worker.host, worker.version, facts)
            await tx.execute(_BEAT, row)
            await tx.execute(_DELETE_OLD, (_KEPT_SECONDS,))

    async def read(self) -> list[SeenWorker]:
        """Return every process that was heard of within an hour."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(_READ)
        return [
            SeenWorker(
                Worker(holder, kind, host, version, msgspec.json.decode(facts)),
                started_at,
                silent_seconds,
            )
            for holder, kind, host, version, facts, started_at, silent_seconds in rows
        ]

    async def _leave(self, worker: Worker) -> None:
        try:
            # A process that ends must not wait long for a Postgres that is away.
            async with asyncio.timeout(1.0), self._store.statement() as statement:
                await statement.execute(_LEAVE, (worker.holder,))
        except (StoreUnavailable, TimeoutError):
            logger.debug("worker left silently", extra={"action": "worker_left"})
