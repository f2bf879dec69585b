"""`penstock decisions verify` as an operator runs it, on a log that was tampered with."""

import json
from pathlib import Path

import pytest
from tests.integration.cells.commands import Penstock, read
from tests.integration.contracts.decision_worker import DecisionWorker, tamper
from tests.unit.contracts.decision_rows import DENIED

from penstock.records.decision import LoggedDecision
from penstock.store import Store

_ROWS = 12
_TAMPERED = {
    "a flipped byte": ("update decisions set reason = upper(reason) where sequence = 7", 7),
    "a deleted row": ("delete from decisions where sequence = 7", 7),
    "a reordered pair": (
        "update decisions set sequence = 99 where sequence = 7;"
        "update decisions set sequence = 7 where sequence = 8;"
        "update decisions set sequence = 8 where sequence = 99",
        7,
    ),
}
_DELETED_TAIL = "delete from decisions where sequence > 9", 10


@pytest.fixture
async def holder(store: Store, tmp_path: Path) -> str:
    """The holder of a chain in Postgres."""
    worker = DecisionWorker(store, tmp_path)
    for number in range(_ROWS):
        decision = LoggedDecision(
            kind=DENIED.kind,
            verdict=DENIED.verdict,
            subjects=(f"tool {number}",),
            reason="tool_call_forbidden",
        )
        worker.decide(1, decision)
    await worker.drain.empty()
    return worker.journal.holder


def test_verify_finds_no_fault_in_a_log_as_it_was_written(
    penstock: Penstock, holder: str, tmp_path: Path
) -> None:
    heads = _hold_heads(penstock, tmp_path)
    assert holder in heads.read_text()
    verified = penstock("decisions", "verify", "--heads", str(heads))
    assert verified.exit_code == 0
    assert verified.stdout == "12 rows in 1 chains, 1 heads held outside: no fault\n"


@pytest.mark.parametrize("how", _TAMPERED)
def test_verify_names_the_chain_and_the_row(
    penstock: Penstock, dsn: str, holder: str, how: str
) -> None:
    statement, sequence = _TAMPERED[how]
    tamper(dsn, statement)
    verified = penstock("decisions", "verify")
    assert verified.exit_code == 1
    assert f"long chain of {holder}, row {sequence}:" in verified.stdout
    faults = json.loads(penstock("decisions", "verify", "--json").stdout)["faults"]
    assert (holder, sequence) in [(each["holder"], each["sequence"]) for each in faults]


def test_a_deleted_tail_is_found_by_a_head_that_is_held_outside(
    penstock: Penstock, dsn: str, holder: str, tmp_path: Path
) -> None:
    heads = _hold_heads(penstock, tmp_path)
    statement, sequence = _DELETED_TAIL
    tamper(dsn, statement)
    assert penstock("decisions", "verify").exit_code == 0
    verified = penstock("decisions", "verify", "--heads", str(heads))
    assert verified.exit_code == 1
    assert f"long chain of {holder}, row {sequence}:" in verified.stdout


def _hold_heads(penstock: Penstock, folder: Path) -> Path:
    """The file that is written outside, line by line."""
    file = folder / "heads.jsonl"
    file.write_text(json.dumps(read(penstock("decisions", "heads", "--json"))) + "\n")
    return file
