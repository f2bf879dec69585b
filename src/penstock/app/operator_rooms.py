"""Builds the rooms that administration uses, for control and for commands."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from penstock.admission import LimitBook, OwnedLimits
from penstock.app.container_rooms import container_upkeep
from penstock.app.job_rooms import desk_rooms, job_desk, session_upkeep
from penstock.catalogue import Catalogue
from penstock.clock import Clock
from penstock.config import Config
from penstock.console.rooms import OperatorRooms
from penstock.contracts.decision_book import DecisionBook
from penstock.contracts.set_book import ContractBook
from penstock.fleet.cell.deployments import Deployments
from penstock.fleet.hosts import HostReports
from penstock.fleet.orders import OrderTable
from penstock.fleet.replica_logs import ReplicaLogs
from penstock.fleet.replica_rows import ReplicaRows
from penstock.fleet.workers import WorkerTable
from penstock.ingress.jobs.job_answers import JobLookup
from penstock.metering.reports.usage_reports import UsageReports
from penstock.outbound import Caller
from penstock.policy import AccountBook, KeyBook
from penstock.queue.files import Files
from penstock.store import Objects, Sealing, Store
from penstock.tools.mcp import McpServers
from penstock.turns.forgetting import KeptRooms


def operator_rooms(
    store: Store, config: Config, clock: Clock, catalogue: Callable[[], Catalogue]
) -> OperatorRooms:
    """Build the rooms on an open store. Nothing else is opened before it is needed."""
    sealing = Sealing(store, config.store, clock)
    objects = Objects(config.store, sealing)
    rooms = desk_rooms(store, objects, config)
    responses, conversations = session_upkeep(store, rooms.values, config, clock)
    containers = container_upkeep(store, objects, config, clock)
    accounts, desk = AccountBook(store), job_desk(rooms, config, clock)

    @asynccontextmanager
    async def kept() -> AsyncIterator[KeptRooms]:
        await objects.open()
        yield KeptRooms(
            store=store,
            accounts=accounts,
            desk=desk,
            files=Files(store, objects, clock),
            responses=responses,
            conversations=conversations,
            containers=containers,
        )

    return OperatorRooms(
        store=store,
        clock=clock,
        catalogue=catalogue,
        accounts=accounts,
        keys=KeyBook(store),
        limits=LimitBook(store, config.admission),
        contracts=ContractBook(store, config.contracts, OwnedLimits()),
        decisions=DecisionBook(store, clock),
        queue=rooms.queue,
        batches=rooms.batches,
        jobs=JobLookup(store, rooms.queue),
        desk=desk,
        responses=responses,
        containers=containers,
        reports=UsageReports(store, config.metering),
        hosts=HostReports(store),
        replicas=ReplicaRows(store),
        workers=WorkerTable(store),
        orders=OrderTable(store),
        logs=ReplicaLogs(store, sealing),
        deployments=Deployments(store),
        mcp=McpServers(config.tools, Caller(config.tools.mcp_call_limits), clock),
        kept=kept,
    )
