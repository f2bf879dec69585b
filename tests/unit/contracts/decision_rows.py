"""Chains of decisions for tests: rows as Postgres would give them back."""

from datetime import UTC, date, datetime

from penstock.contracts.decision_chain import (
    GENESIS,
    ChainPlace,
    DecisionChains,
    Keep,
    hash_of,
    made_line,
)
from penstock.contracts.decision_queries import ChainHead, DecisionRow
from penstock.records.decision import DecisionKind, DecisionVerdict, LoggedDecision
from penstock.records.decision_log import DecidedRequest

HOLDER = "01900000-0000-7000-8000-00000000000a"
OTHER = "01900000-0000-7000-8000-00000000000b"
DECIDED = DecidedRequest(
    id="01900000-0000-7000-8000-0000000000ff",
    account="a" * 32,
    key="k1",
    workflow="review",
    contract="review@3",
)
DENIED = LoggedDecision(
    kind=DecisionKind.TOOL_CALL,
    verdict=DecisionVerdict.DENY,
    subjects=("bash",),
    reason="tool_call_forbidden",
    facts={"bytes": 12},
)
ALLOWED = LoggedDecision(kind=DecisionKind.TOOL_CALL, verdict=DecisionVerdict.ALLOW)


def chain(count: int, holder: str = HOLDER, first: int = 1, end: str = "") -> list[DecisionRow]:
    """A whole chain, from the row behind `end` on."""
    rows, previous = [], bytes.fromhex(end) if end else GENESIS
    for sequence in range(first, first + count):
        # Ten rows a day.
        at_us = 1_700_000_000_000_000 + sequence + (sequence - 1) // 10 * 86_400_000_000
        place = ChainPlace(Keep.LONG, holder, sequence, at_us)
        line = made_line(place, DECIDED, DENIED)
        digest = hash_of(previous, line)
        rows.append(DecisionRow(line, previous.hex(), digest.hex()))
        previous = digest
    return rows


def head_of(row: DecisionRow) -> ChainHead:
    line = row.line
    return ChainHead(line.keep, line.holder, line.sequence, row.hash, day_of(row))


def day_of(row: DecisionRow) -> date:
    return datetime.fromtimestamp(row.line.at_us / 1e6, UTC).date()


def written(chains: DecisionChains, decision: LoggedDecision, at_us: int = 5) -> bytes:
    """Add a decision to its chain; return the line for COPY."""
    line = chains.next_line(at_us, DECIDED, decision)
    text, digest = chains.staged(line)
    chains.advance(line, digest)
    return text
