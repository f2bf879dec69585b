"""Operations on hosts, replicas and the cell's own processes."""

import msgspec

from penstock.console.operation import Nothing, Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.errors import NotFound
from penstock.fleet.hosts import SeenHost
from penstock.fleet.replica_rows import ReplicaRow
from penstock.fleet.workers import SeenWorker


class HostsAnswer(msgspec.Struct, frozen=True):
    """Hosts with a keeper, by name."""

    hosts: list[SeenHost]


class ReplicasAsked(OperatorQuestion, frozen=True, kw_only=True):
    """The replicas of a model, by its id, or of all; `with_gone` adds those that have ended."""

    model: str | None = None
    with_gone: bool = False


class ReplicasAnswer(msgspec.Struct, frozen=True):
    """Replicas, model by model, oldest first."""

    replicas: list[ReplicaRow]


class ReplicaNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One replica, by its id."""

    replica: str


class WorkersAnswer(msgspec.Struct, frozen=True):
    """Gateway workers, keepers and control processes."""

    workers: list[SeenWorker]


async def _list_hosts(rooms: OperatorRooms, _: Nothing) -> HostsAnswer:
    return HostsAnswer(await rooms.hosts.read())


async def _list_replicas(rooms: OperatorRooms, asked: ReplicasAsked) -> ReplicasAnswer:
    rows = await rooms.replicas.read(asked.model, with_gone=asked.with_gone)
    return ReplicasAnswer(rows)


async def _show_replica(rooms: OperatorRooms, asked: ReplicaNamed) -> ReplicaRow:
    found = await rooms.replicas.find(asked.replica)
    if found is None:
        raise NotFound(f"There is no replica {asked.replica}.")
    return found


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
LIST_WORKERS = Operation(
    name="list_workers",
    summary="List the running processes: gateway workers, keepers and control.",
    method="GET",
    path="/workers",
    question=Nothing,
    answer=WorkersAnswer,
    run=_list_workers,
)
FLEET_OPERATIONS = (LIST_HOSTS, LIST_REPLICAS, SHOW_REPLICA, LIST_WORKERS)
