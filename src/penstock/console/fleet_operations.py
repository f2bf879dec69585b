"""Operations on hosts, replicas and the cell's own processes."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from penstock.console.operation import Nothing, Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.errors import NotFound
from penstock.fleet.hosts import SeenHost
from penstock.fleet.orders import ReplicaOrder
from penstock.fleet.replica_logs import LogPart
from penstock.fleet.replica_rows import ReplicaRow
from penstock.fleet.workers import SeenWorker
from penstock.wire.resources.usage_query import ROWS_MAX, read_usage_query

_LOOKED_BACK: Final = timedelta(hours=1)


class HostsAnswer(msgspec.Struct, frozen=True):
    """Hosts with a keeper, by name."""

    hosts: list[SeenHost]


class ReplicasAsked(OperatorQuestion, frozen=True, kw_only=True):
    """The replicas of a model, by its id, or of all; `with_gone` adds those that have ended."""

    model: str | None = None
    with_gone: bool = False


class ReplicaUse(msgspec.Struct, frozen=True):
    """What a replica did in this hour and the one before."""

    requests: int
    failed: int
    # The share of prompt tokens that were cached; None if unknown.
    hit_ratio: float | None
    first_token_p50_ms: float | None


class ReplicasAnswer(msgspec.Struct, frozen=True):
    """Replicas, model by model, oldest first; and the use of those that had some, by id."""

    replicas: list[ReplicaRow]
    use: dict[str, ReplicaUse]


class ReplicaNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One replica, by its id."""

    replica: str


class LogAsked(OperatorQuestion, frozen=True, kw_only=True):
    """The end of an engine's log, or the part that begins at `after`."""

    replica: str
    after: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class HostNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One host, by its name or its keeper's id."""

    host: str


class WorkersAnswer(msgspec.Struct, frozen=True):
    """Gateway workers, keepers and control processes."""

    workers: list[SeenWorker]


async def _list_hosts(rooms: OperatorRooms, _: Nothing) -> HostsAnswer:
    return HostsAnswer(await rooms.hosts.read())


async def _list_replicas(rooms: OperatorRooms, asked: ReplicasAsked) -> ReplicasAnswer:
    rows = await rooms.replicas.read(asked.model, with_gone=asked.with_gone)
    since = datetime.fromtimestamp(rooms.clock.now(), UTC) - _LOOKED_BACK
    return ReplicasAnswer(rows, await _use_since(rooms, since))


async def _use_since(rooms: OperatorRooms, since: datetime) -> dict[str, ReplicaUse]:
    given = {"since": since.isoformat(), "group_by": "replica", "limit": str(ROWS_MAX)}
    used = await rooms.reports.usage(read_usage_query(given.items(), rooms.clock.now()))
    return {
        row.labels["replica"]: ReplicaUse(
            row.requests, row.failed, row.hit_ratio, row.first_token_p50_ms
        )
        for row in used.rows
    }


async def _show_replica(rooms: OperatorRooms, asked: ReplicaNamed) -> ReplicaRow:
    found = await rooms.replicas.find(asked.replica)
    if found is None:
        raise NotFound(f"There is no replica {asked.replica}.")
    return found


async def _drain_replica(rooms: OperatorRooms, asked: ReplicaNamed) -> ReplicaRow:
    await rooms.orders.ask(asked.replica, ReplicaOrder.DRAIN)
    return await _show_replica(rooms, asked)


async def _restart_replica(rooms: OperatorRooms, asked: ReplicaNamed) -> ReplicaRow:
    await rooms.orders.ask(asked.replica, ReplicaOrder.RESTART)
    return await _show_replica(rooms, asked)


async def _read_log(rooms: OperatorRooms, asked: LogAsked) -> LogPart:
    return await rooms.logs.read(asked.replica, asked.after)


async def _cordon(rooms: OperatorRooms, asked: HostNamed) -> HostsAnswer:
    await rooms.orders.cordon(asked.host, is_cordoned=True)
    return await _hosts_named(rooms, asked.host)


async def _uncordon(rooms: OperatorRooms, asked: HostNamed) -> HostsAnswer:
    await rooms.orders.cordon(asked.host, is_cordoned=False)
    return await _hosts_named(rooms, asked.host)


async def _drain_host(rooms: OperatorRooms, asked: HostNamed) -> HostsAnswer:
    await rooms.orders.cordon(asked.host, is_cordoned=True, is_draining=True)
    return await _hosts_named(rooms, asked.host)


async def _hosts_named(rooms: OperatorRooms, name: str) -> HostsAnswer:
    hosts = await rooms.hosts.read()
    return HostsAnswer([host for host in hosts if name in (host.report.name, host.keeper)])


async def _list_workers(rooms: OperatorRooms, _: Nothing) -> WorkersAnswer:
    return WorkersAnswer(await rooms.workers.read())


LIST_HOSTS = Operation(
    name="list_hosts",
    summary="List the hosts: their GPUs, and why wanted replicas wait.",
    method="GET",
    path="/hosts",
    question=Nothing,
    answer=HostsAnswer,
    run=_list_hosts,
)
CORDON_HOST = Operation(
    name="cordon_host",
    summary="Start nothing new on a host.",
    method="POST",
    path="/hosts/{host}/cordon",
    question=HostNamed,
    answer=HostsAnswer,
    run=_cordon,
)
UNCORDON_HOST = Operation(
    name="uncordon_host",
    summary="Let a cordoned or drained host start replicas again.",
    method="POST",
    path="/hosts/{host}/uncordon",
    question=HostNamed,
    answer=HostsAnswer,
    run=_uncordon,
)
DRAIN_HOST = Operation(
    name="drain_host",
    summary="Start nothing new on a host, and end its replicas when their requests have finished.",
    method="POST",
    path="/hosts/{host}/drain",
    question=HostNamed,
    answer=HostsAnswer,
    run=_drain_host,
)
LIST_REPLICAS = Operation(
    name="list_replicas",
    summary="List the replicas.",
    method="GET",
    path="/replicas",
    question=ReplicasAsked,
    answer=ReplicasAnswer,
    run=_list_replicas,
)
SHOW_REPLICA = Operation(
    name="show_replica",
    summary="Show one replica.",
    method="GET",
    path="/replicas/{replica}",
    question=ReplicaNamed,
    answer=ReplicaRow,
    run=_show_replica,
)
DRAIN_REPLICA = Operation(
    name="drain_replica",
    summary="Let a replica finish its requests, then end it; another replaces it.",
    method="POST",
    path="/replicas/{replica}/drain",
    question=ReplicaNamed,
    answer=ReplicaRow,
    run=_drain_replica,
)
RESTART_REPLICA = Operation(
    name="restart_replica",
    summary="End a replica at once, cutting its requests off; another replaces it.",
    method="POST",
    path="/replicas/{replica}/restart",
    question=ReplicaNamed,
    answer=ReplicaRow,
    run=_restart_replica,
)
READ_REPLICA_LOG = Operation(
    name="read_replica_log",
    summary="Read a part of an engine's log, which its keeper sends.",
    method="POST",
    path="/replicas/{replica}/log",
    question=LogAsked,
    answer=LogPart,
    run=_read_log,
)
LIST_WORKERS = Operation(
    name="list_workers",
    summary="List the running processes: gateway workers, keepers and control.",
    method="GET",
    path="/workers",
    question=Nothing,
    answer=WorkersAnswer,
    run=_list_workers,
)
FLEET_OPERATIONS = (
    LIST_HOSTS,
    CORDON_HOST,
    UNCORDON_HOST,
    DRAIN_HOST,
    LIST_REPLICAS,
    SHOW_REPLICA,
    DRAIN_REPLICA,
    RESTART_REPLICA,
    READ_REPLICA_LOG,
    LIST_WORKERS,
)
