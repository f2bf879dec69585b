"""A worker's journal with decisions, its drain, and a desk that verifies the log."""

from pathlib import Path
from typing import Any

import psycopg
from tests.unit.contracts.decision_rows import DECIDED, DENIED
from tests.unit.metering.journal_files import SMALL

from penstock.cli.decisions.verifying import Verified, verify_log
from penstock.clock import SystemClock, new_id
from penstock.console.operation import Answered, Asked, Operation
from penstock.contracts.decision_book import OPERATORS, DecisionBook
from penstock.contracts.decision_log import JournaledDecisions
from penstock.contracts.decision_queries import ChainHead
from penstock.metering import Drain, Journal, Ledger, MeteringSettings, Refusals
from penstock.records.decision import LoggedDecision
from penstock.store import Store

CLOCK = SystemClock()
# What somebody who owns the database may do to a chain of twelve rows, and the row where it shows.
TAMPERED = {
    "a flipped byte": ("update decisions set reason = 'tool_call_forbiddeN' where sequence = 7", 7),
    "another verdict": ("update decisions set verdict = 'allow' where sequence = 7", 7),
    "another fact": ("""update decisions set facts = '{"bytes": 13}' where sequence = 7""", 7),
    "another account": ("update decisions set account = 'b' where sequence = 7", 7),
    "another time": ("update decisions set at = at - interval '1 us' where sequence = 7", 7),
    "a deleted row": ("delete from decisions where sequence = 7", 7),
    "a deleted beginning": ("delete from decisions where sequence < 7", 1),
    "a reordered pair": (
        "update decisions d set subjects = o.subjects, at = o.at, facts = o.facts,"
        " request = o.request from decisions o where o.holder = d.holder"
        " and (d.sequence, o.sequence) in ((7, 8), (8, 7))",
        7,
    ),
    "a row under another holder": (
        f"update decisions set holder = '{OPERATORS}' where sequence = 7",
        7,
    ),
    "another kind": ("update decisions set kind = 'no such' where sequence = 7", 7),
    "a time that no number holds": ("update decisions set at = 'infinity' where sequence = 7", 7),
    "facts of another shape": (
        """update decisions set facts = '{"a": [1]}' where sequence = 7""",
        7,
    ),
    "subjects that are none": ("update decisions set subjects = '{null}' where sequence = 7", 7),
    "a row that was observed": (
        "update decisions set is_observed = true where sequence = 7",
        7,
    ),
}


class DecisionWorker:
    """What a gateway worker has of decisions."""

    def __init__(self, store: Store, folder: Path, settings: MeteringSettings = SMALL) -> None:
        self.journal = Journal(folder, new_id(), settings)
        self.log = JournaledDecisions(self.journal, CLOCK)
        ledger = Ledger(store, 10, DecisionBook(store, CLOCK))
        self.drain = Drain(self.journal, ledger, Refusals(store, 10), settings, _released)

    def decide(self, count: int = 1, decision: LoggedDecision = DENIED) -> None:
        for _ in range(count):
            self.log.write(DECIDED, [decision])

    def die(self) -> None:
        """Leave the journal as a kill does."""
        self.journal.leave()


class LogDesk:
    """Runs the operations by which a log is verified, without signing in."""

    def __init__(self, store: Store) -> None:
        self._rooms: Any = _Rooms(DecisionBook(store, CLOCK))

    async def run(self, operation: Operation[Asked, Answered], asked: Asked) -> Answered:
        return await operation.run(self._rooms, asked)


class _Rooms:
    def __init__(self, decisions: DecisionBook) -> None:
        self.decisions = decisions
        self.clock = CLOCK


async def verify(store: Store, outside: list[ChainHead] | None = None) -> Verified:
    return await verify_log(LogDesk(store), outside or [])


def tamper(dsn: str, statement: str) -> None:
    """Change the log as somebody who owns the database could."""
    with psycopg.connect(dsn) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(statement)


async def _released(_: str) -> None:
    pass
