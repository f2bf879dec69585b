"""The rooms that operations of administration use."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import msgspec

from penstock.admission import LimitBook
from penstock.catalogue import Catalogue
from penstock.clock import Clock
from penstock.contracts.decision_book import DecisionBook
from penstock.contracts.set_book import ContractBook
from penstock.fleet.cell.deployments import Deployments
from penstock.fleet.hosts import HostReports
from penstock.fleet.orders import OrderTable
from penstock.fleet.replica_logs import ReplicaLogs
from penstock.fleet.replica_rows import ReplicaRows
from penstock.fleet.workers import WorkerTable
from penstock.ingress.jobs.job_answers import JobLookup
from penstock.jobs.submission import JobDesk
from penstock.metering.reports.usage_reports import UsageReports
from penstock.policy import AccountBook, KeyBook
from penstock.queue import Batches, Queue
from penstock.sessions import ResponseUpkeep
from penstock.store import Store
from penstock.tools import ContainerUpkeep
from penstock.tools.mcp import McpServers
from penstock.turns.forgetting import KeptRooms


class OperatorRooms(msgspec.Struct, frozen=True, kw_only=True):
    """Built by `app.operator_rooms`, on an open store."""

    store: Store
    clock: Clock
    # The catalogue is read when it is asked for: a wrong entry must not stop other operations.
    catalogue: Callable[[], Catalogue]
    accounts: AccountBook
    keys: KeyBook
    limits: LimitBook
    contracts: ContractBook
    decisions: DecisionBook
    queue: Queue
    batches: Batches
    jobs: JobLookup
    desk: JobDesk
    responses: ResponseUpkeep
    containers: ContainerUpkeep
    reports: UsageReports
    hosts: HostReports
    replicas: ReplicaRows
    workers: WorkerTable
    orders: OrderTable
    logs: ReplicaLogs
    deployments: Deployments
    mcp: McpServers
    # The id of the key that asks; "" where a command goes to the database itself.
    actor: str = ""
    # Opens what deletes content, which needs the cell's key and the objects.
    kept: Callable[[], AbstractAsyncContextManager[KeptRooms]]
