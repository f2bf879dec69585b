"""Reads the roster for operators: every replica, with what only people need."""

from typing import Final

import msgspec

from penstock.records.model import ModelId
from penstock.records.replica import LoadFigures, ReplicaId, ReplicaState
from penstock.store.pool import Row, Store

_COLUMNS: Final = """
    id, model, host, url, state, gpus, load::text, generation, slots_live, detail, asked,
    extract(epoch from started_at)::float8, extract(epoch from changed_at)::float8,
    extract(epoch from now() - heartbeat_at)::float8, leader
"""
_READ: Final = f"""
    select {_COLUMNS} from replicas
    where (%s or state <> 'gone') and (%s::text is null or model = %s)
    order by model, id limit 10000
"""  # noqa: S608 - constants only
_FIND: Final = f"select {_COLUMNS} from replicas where id = %s"  # noqa: S608 - constants only


class ReplicaRow(msgspec.Struct, frozen=True):
    """A replica as the roster has it."""

    id: ReplicaId
    model: ModelId
    host: str
    url: str
    state: ReplicaState
    # The ids of the GPUs that it holds.
    gpus: list[str]
    # What its engine reported last; nothing while it is not ready.
    load: LoadFigures
    generation: int
    slots_live: int
    # Why it is in this state, in words; often empty.
    detail: str
    # What an operator asked of its keeper: "", "drain" or "restart".
    asked: str
    # Unix times.
    started_at: float
    changed_at: float
    # How long ago its keeper was heard of.
    silent_seconds: float
    # The replica over several hosts that it is a part of; "" if it serves itself.
    leader: str = ""


class ReplicaRows:
    """Reads the table `replicas`; RosterTable writes it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, model: str | None = None, *, with_gone: bool = False) -> list[ReplicaRow]:
        """Return the replicas, of one model or of all."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(_READ, (with_gone, model, model))
        return [_row(row) for row in rows]

    async def find(self, id: str) -> ReplicaRow | None:
        async with self._store.statement() as statement:
            row = await statement.fetch_one(_FIND, (id,))
        return None if row is None else _row(row)


def _row(row: Row) -> ReplicaRow:
    id, model, host, url, state, gpus, load, *rest = row
    return ReplicaRow(
        ReplicaId(id),
        ModelId(model),
        host,
        url,
        ReplicaState(state),
        list(gpus),
        msgspec.json.decode(load, type=LoadFigures),
        *rest,
    )
