"""The roster in Postgres: keepers write it by `RosterTable`, gateways read it by `RosterMirror`.

A writer passes the generation it knows; if the row has another, it gets GenerationStale. The mirror
keeps its rows while Postgres is unreachable, and ignores heartbeats.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping

import msgspec

from penstock.clock import Clock
from penstock.errors import ContentUnreadable, GenerationStale, StoreUnavailable
from penstock.fleet.settings import FleetSettings
from penstock.records.model import ModelId
from penstock.records.replica import (
    LoadFigures,
    Replica,
    ReplicaId,
    ReplicaStart,
    ReplicaState,
)
from penstock.store.pool import Row, Store, Transaction
from penstock.store.sealing import Sealing

_log = logging.getLogger(__name__)

_BUMP = "update roster_revision set revision = revision + 1 returning revision"
_REVISION = "select revision from roster_revision"
_ENROLL = """
    insert into replicas (id, model, url, served_name, dialect, state, slots_live, generation, host,
                          keeper, detail, gpus, engine_key, assignment, accounts, leader,
                          master_port, revision)
    values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    on conflict (id) do update set
        url = excluded.url, served_name = excluded.served_name, dialect = excluded.dialect,
        state = excluded.state, slots_live = excluded.slots_live, generation = excluded.generation,
        host = excluded.host, keeper = excluded.keeper, detail = excluded.detail,
        gpus = excluded.gpus, engine_key = excluded.engine_key,
        assignment = excluded.assignment, accounts = excluded.accounts,
        leader = excluded.leader, master_port = excluded.master_port,
        revision = excluded.revision, heartbeat_at = now(), changed_at = now()
    where replicas.state <> 'gone'
      and (replicas.generation < excluded.generation
           or (replicas.generation = excluded.generation and replicas.keeper = excluded.keeper))
"""
_CHANGE = """
    update replicas set state = %s,
                        ready_at = coalesce(ready_at, case when %s = 'ready' then now() end),
                        url = %s, host = %s, served_name = %s, slots_live = %s, detail = %s,
                        engine_key = %s, accounts = %s, master_port = %s, revision = %s,
                        heartbeat_at = now(), changed_at = now()
    where id = %s and generation = %s and (state <> 'gone' or state = %s)
"""
_BEAT = """
    update replicas set heartbeat_at = now(), load = mine.load
    from unnest(%s::text[], %s::bigint[], %s::jsonb[]) as mine (id, generation, load)
    where replicas.id = mine.id and replicas.generation = mine.generation
      and replicas.state <> 'gone'
    returning replicas.id
"""
_LOST = """
    select id from replicas where keeper = %s and state <> 'gone' and not id = any(%s)
"""
_GIVE_UP = """
    update replicas set state = 'gone', generation = generation + 1, detail = %s, revision = %s,
                        changed_at = now()
    where id = any(%s) and state <> 'gone'
"""
_COLUMNS = (
    "id, model, url, state, served_name, dialect, slots_live, generation, host,"
    " extract(epoch from changed_at), engine_key, accounts, revision"
)
# Of a replica over several hosts only the first part, which serves.
_SERVING = f"select {_COLUMNS} from replicas where leader = ''"  # noqa: S608 - constants only
_READ_ALL = f"{_SERVING} and state <> 'gone'"
_READ_NEWER = f"{_SERVING} and revision > %s"
# Models whose deployments may be at zero, and how long they take to wake.
_READ_WAKEFUL = """
    select r.model, max(d.start_seconds) from deployments d
    join deployment_revisions r on r.deployment = d.name and r.revision = d.revision
    where not d.is_removed and not d.is_paused
        and (r.spec -> 'replicas' ->> 'max')::int > 0
        and (r.spec -> 'scale' ->> 'idle_to_zero_minutes')::float8 > 0
    group by r.model limit 1000
"""
# While requests wait for a replica the roster is read so many times as often.
_AWAITED_FACTOR = 4


class RosterTable:
    """The only writer of `replicas` besides the reaper. Every write is idempotent."""

    def __init__(self, store: Store, sealing: Sealing | None = None) -> None:
        """Without `sealing`, engines' keys are written in clear."""
        self._store = store
        self._sealing = sealing

    async def enroll(self, replica: Replica, *, keeper: str, detail: str = "") -> None:
        """List a new replica, or take over an existing one with a higher generation."""
        key = await self._sealed_key(replica)
        async with self._store.transaction() as tx:
            revision = await bump(tx)
            row = (
                replica.id, replica.model, replica.url, replica.served_name, replica.dialect,
                replica.state, replica.slots_live, replica.generation, replica.host, keeper, detail,
                list(replica.gpus), key, replica.assignment, list(replica.accounts),
                replica.leader, replica.master_port, revision,
            )  # fmt: skip
            if await tx.execute(_ENROLL, row) == 0:
                raise GenerationStale(f"{replica.id} is gone, or has a newer generation.")

    async def change(self, replica: Replica, *, detail: str = "") -> None:
        """Write a replica's new state. Refused unless the row has the same generation."""
        key = await self._sealed_key(replica)
        async with self._store.transaction() as tx:
            revision = await bump(tx)
            values = (
                replica.state, replica.state, replica.url, replica.host, replica.served_name,
                replica.slots_live, detail, key, list(replica.accounts), replica.master_port,
                revision, replica.id, replica.generation, replica.state,
            )  # fmt: skip
            if await tx.execute(_CHANGE, values) == 0:
                raise GenerationStale(f"{replica.id} has no generation {replica.generation} now.")

    async def _sealed_key(self, replica: Replica) -> bytes:
        key = replica.engine_key.encode()
        if self._sealing is None:
            return key
        return (await self._sealing.of_cell()).seal(_owner(replica.id), key)

    async def beat(
        self, replicas: Iterable[Replica], loads: Mapping[ReplicaId, LoadFigures] | None = None
    ) -> frozenset[ReplicaId]:
        """Write the replicas' heartbeats and what is known of their load.

        Return those that are gone or have a new generation.
        """
        mine = list(replicas)
        if not mine:
            return frozenset()
        ids = [replica.id for replica in mine]
        known = loads or {}
        figures = [msgspec.json.encode(known.get(id, {})).decode() for id in ids]
        async with self._store.transaction() as tx:
            values = (ids, [replica.generation for replica in mine], figures)
            rows = await tx.fetch(_BEAT, values)
        return frozenset(ids) - {row[0] for row in rows}

    async def give_up_others(self, keeper: str, kept: Iterable[ReplicaId]) -> int:
        """Mark this keeper's rows that are not in `kept` as gone: their end was never written."""
        async with self._store.transaction() as tx:
            rows = await tx.fetch(_LOST, (keeper, list(kept)))
            return await give_up(tx, [row[0] for row in rows], "its keeper has lost it")


async def bump(tx: Transaction) -> int:
    """Take the next revision. Its row is locked until commit, so revisions appear in order."""
    row = await tx.fetch_one(_BUMP)
    assert row is not None, "the migration writes this row"
    return int(row[0])


async def give_up(tx: Transaction, ids: list[ReplicaId], detail: str) -> int:
    """Mark replicas as gone under a higher generation, so that their old keeper is refused."""
    if not ids:
        return 0
    return await tx.execute(_GIVE_UP, (detail, await bump(tx), ids))


class RosterMirror:
    """A gateway's mirror of the roster. `ready` costs one dictionary lookup."""

    def __init__(
        self, store: Store, clock: Clock, settings: FleetSettings, sealing: Sealing | None = None
    ) -> None:
        """Without `sealing`, engines' keys are not known here."""
        self._store = store
        self._clock = clock
        self._sealing = sealing
        self._poll_seconds = settings.roster_poll_seconds
        self._replicas: dict[ReplicaId, Replica] = {}
        self._ready: dict[ModelId, tuple[Replica, ...]] = {}
        self._wanted: frozenset[ModelId] = frozenset()
        self._wakeful: dict[ModelId, float | None] = {}
        # Whether requests wait here for a replica.
        self.is_awaited = False
        self._last_start_seconds: dict[ModelId, float] = {}
        self._revision = 0
        self._is_behind = True
        self._seen_at: float | None = None
        self.version = 0
        self.failures = 0

    def ready(self, model: ModelId) -> tuple[Replica, ...]:
        """Return the replicas that take requests for a model."""
        return self._ready.get(model, ())

    def find(self, replica: ReplicaId) -> Replica | None:
        """Return a replica in any state but gone, or None."""
        return self._replicas.get(replica)

    def starting(self, model: ModelId) -> ReplicaStart | None:
        """Return the start that has gone on for longest, or None if no replica starts."""
        since = [
            each.changed_at
            for each in self._replicas.values()
            if each.model == model and each.state is ReplicaState.STARTING
        ]
        if not since:
            return None
        # The times are Postgres's, whose clock may be ahead of this host's.
        elapsed = max(0.0, self._clock.now() - min(since))
        return ReplicaStart(elapsed, self._start_seconds(model))

    def waking(self, model: ModelId) -> ReplicaStart | None:
        """Return the start that goes on, or is about to, of a model that wakes for requests.

        None for models that do not.
        """
        if model not in self._wakeful:
            return None
        return self.starting(model) or ReplicaStart(0.0, self._start_seconds(model))

    def _start_seconds(self, model: ModelId) -> float | None:
        """Return how long the model's last start took, here or in the whole cell."""
        return self._last_start_seconds.get(model, self._wakeful.get(model))

    def wanted_models(self) -> frozenset[ModelId]:
        """Return the models that have a replica in any state but gone, or wake for requests."""
        return self._wanted | self._wakeful.keys()

    def all(self) -> tuple[Replica, ...]:
        """Return every replica that is not gone, oldest first."""
        return tuple(self._replicas[id_] for id_ in sorted(self._replicas))

    @property
    def age_seconds(self) -> float | None:
        """Seconds since the last successful read; None before the first."""
        return None if self._seen_at is None else self._clock.monotonic() - self._seen_at

    async def load(self) -> None:
        """Read all rows. Raises StoreUnavailable, and then keeps the rows it had."""
        async with self._store.transaction() as tx:
            # The revision is read first, so that rows committed in between are read again later.
            counter = await tx.fetch_one(_REVISION)
            rows = await tx.fetch(_READ_ALL)
            wakeful = await tx.fetch(_READ_WAKEFUL)
        self._wakeful = dict(wakeful)
        assert counter is not None, "the migration writes this row"
        replicas = [await self._read(row) for row in rows]
        self._apply({replica.id: replica for replica in replicas}, int(counter[0]))

    async def poll(self) -> None:
        """Read the rows that changed since the last read."""
        if self._is_behind:
            # While reads failed, rows may have been deleted, which no revision shows.
            await self.load()
            return
        async with self._store.statement() as tx:
            rows = await tx.fetch(_READ_NEWER, (self._revision,))
            self._wakeful = dict(await tx.fetch(_READ_WAKEFUL))
        replicas = dict(self._replicas)
        for row in rows:
            replica = await self._read(row)
            if replica.state is ReplicaState.GONE:
                replicas.pop(replica.id, None)
            else:
                replicas[replica.id] = replica
        self._apply(replicas, max([self._revision, *(row[-1] for row in rows)]))

    async def run(self) -> None:
        """Poll the roster until cancelled."""
        while True:
            try:
                await self.poll()
            except StoreUnavailable:
                if not self._is_behind:
                    _log.warning("roster not readable", extra={"action": "roster_unreadable"})
                self._is_behind = True
            except Exception:  # noqa: BLE001 - the loop's top: the gateway must keep serving
                self.failures += 1
                self._is_behind = True
                _log.exception("roster loop failed", extra={"action": "roster_loop_failed"})
            factor = _AWAITED_FACTOR if self.is_awaited else 1
            await asyncio.sleep(self._poll_seconds / factor)

    async def _read(self, row: Row) -> Replica:
        return _replica(row, await self._unsealed(row[0], bytes(row[10])))

    async def _unsealed(self, replica: str, key: bytes) -> str:
        """Return an engine's key; "" where it cannot be read: then the engine refuses calls."""
        if not key or self._sealing is None:
            return ""
        seal = await self._sealing.of_cell()
        try:
            return seal.unseal(_owner(replica), key).decode()
        except ContentUnreadable:
            return ""

    def _apply(self, replicas: dict[ReplicaId, Replica], revision: int) -> None:
        self._revision = revision
        self._is_behind = False
        self._seen_at = self._clock.monotonic()
        if replicas == self._replicas:
            return
        ready: dict[ModelId, list[Replica]] = {}
        for id_ in sorted(replicas):
            replica = replicas[id_]
            if replica.state is ReplicaState.READY:
                ready.setdefault(replica.model, []).append(replica)
                before = self._replicas.get(id_)
                if before is not None and before.state is ReplicaState.STARTING:
                    took = replica.changed_at - before.changed_at
                    self._last_start_seconds[replica.model] = took
        self._replicas = replicas
        self._ready = {model: tuple(list_) for model, list_ in ready.items()}
        self._wanted = frozenset(replica.model for replica in replicas.values())
        self.version += 1


def _owner(replica: str) -> str:
    return f"engine-key/{replica}"


def _replica(row: Row, engine_key: str) -> Replica:
    return Replica(
        id=ReplicaId(row[0]),
        model=ModelId(row[1]),
        url=row[2],
        state=ReplicaState(row[3]),
        served_name=row[4],
        dialect=row[5],
        slots_live=row[6],
        generation=row[7],
        host=row[8],
        engine_key=engine_key,
        changed_at=float(row[9]),
        accounts=tuple(row[11]),
    )
