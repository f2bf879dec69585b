"""A database with a little of everything that the console shows, some of it hostile."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.integration.cells.incident_rows import Incident, make_incident
from tests.integration.cells.queue_work import Work
from tests.integration.cells.usage_rows import attempt, write
from tests.integration.contracts.decision_worker import DecisionWorker

from penstock.clock import SystemClock, new_id
from penstock.fleet.hosts import HostReports
from penstock.fleet.roster import RosterTable
from penstock.policy import AccountBook, KeyBook
from penstock.records.account import AccountId, Role
from penstock.records.decision import DecisionKind, DecisionVerdict, LoggedDecision
from penstock.records.host import Gpu, HostReport
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.store import Store

MODEL = "@cf/moonshotai/kimi-k2.5"
# Markup and quotes; marks that turn the direction of writing; control characters.
MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
TURNED = "\u202egnp.\u2066exe\u2069"
CONTROLS = "bell\x07escape\x1b[2Jdelete\x7f\x85"
HOSTILE = MARKUP + TURNED + CONTROLS
CALLER_ID = "0e1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b"
REPLICA = "r-console-1"
HOST = "gpu-host-1"


class ConsoleRows(NamedTuple):
    """What was written."""

    incident: Incident
    # A request with labels of a careful caller, and one of a hostile caller.
    request: str
    hostile: str
    # Its caller called it, and its session, by an id like ours.
    session: str
    account: AccountId
    runtime_key: str
    runtime_secret: str


async def fill(store: Store, folder: Path) -> ConsoleRows:
    """Fill a database."""
    clock = SystemClock()
    now = clock.now()
    incident = await make_incident(store, 7, datetime.fromtimestamp(now, UTC))
    account = (await AccountBook(store).create(MARKUP)).id
    key, secret = await KeyBook(store).create(Role.RUNTIME, account, f"key {MARKUP}")
    session = str(new_id())
    usual = attempt(
        account, asked_at=now - 300, workflow="", session=session, caller_request=CALLER_ID,
        model=MODEL, replica=REPLICA, key=key.id, first_token_us=90_000,
    )  # fmt: skip
    bad = attempt(
        account, asked_at=now - 200, workflow=HOSTILE, session=HOSTILE, caller_request=HOSTILE,
        model=HOSTILE, model_asked=HOSTILE, replica=HOSTILE, key=HOSTILE, contract=HOSTILE,
        task=HOSTILE, outcome="failed", error=HOSTILE, cache_break=HOSTILE, cached_expected=900,
    )  # fmt: skip
    await write(store, [usual, bad])
    worker = DecisionWorker(store, folder)
    for verdict in (DecisionVerdict.DENY, DecisionVerdict.CHANGE):
        worker.decide(
            2,
            LoggedDecision(
                kind=DecisionKind.TOOL_CALL, verdict=verdict, subjects=(HOSTILE, "bash"),
                reason=HOSTILE, facts={"tool": HOSTILE},
            ),
        )  # fmt: skip
    await worker.drain.empty()
    await _fill_fleet(store)
    await Work(store).submit(3, account)
    return ConsoleRows(incident, usual["request"], bad["request"], session, account, key.id, secret)


async def _fill_fleet(store: Store) -> None:
    roster = RosterTable(store)
    for id, host, detail in ((REPLICA, HOST, ""), (HOSTILE, HOSTILE, HOSTILE)):
        replica = Replica(
            id=ReplicaId(id), model=ModelId(MODEL), url="http://127.0.0.1:9", served_name="m",
            dialect="vllm", state=ReplicaState.READY, slots_live=8, generation=1, host=host,
        )  # fmt: skip
        await roster.enroll(replica, keeper=f"keeper of {host}", detail=detail)
        report = HostReport(
            name=host, address="127.0.0.1", gpus=(Gpu(0, "0"),), waiting={ModelId(MODEL): detail}
        )
        await HostReports(store).report(f"keeper of {host}", report)
