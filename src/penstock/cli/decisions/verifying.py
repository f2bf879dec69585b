"""Verifies the log of decisions: reads every row, and computes each hash again on this machine."""

from collections.abc import AsyncIterator, Sequence
from datetime import date
from pathlib import Path

import msgspec

from penstock.cli.administration import Administration
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.console.decision_operations import (
    PAGE_ROWS,
    READ_LOG_PAGE,
    SHOW_LOG_EXTENT,
    LogPageAsked,
)
from penstock.console.operation import Nothing
from penstock.contracts.decision_chain import Keep
from penstock.contracts.decision_queries import ChainHead, DecisionRow
from penstock.contracts.decision_verifying import ChainFault, ChainVerifier

_HEADS_BYTES_MAX = 256 * 2**20


class Verified(msgspec.Struct, frozen=True):
    """What was verified, and what is wrong."""

    rows: int
    chains: int
    heads: int
    # Of these, how many are of rows that retention has dropped: nothing shows what they were.
    heads_dropped: int
    faults: list[ChainFault]


class _HeldHeads(msgspec.Struct):
    """A body that was sent outside, or what `penstock decisions heads --json` printed."""

    heads: list[ChainHead]


async def verify_log(desk: Administration, outside: Sequence[ChainHead]) -> Verified:
    """Read the whole log, and verify each chain of it."""
    extent = await desk.run(SHOW_LOG_EXTENT, Nothing())
    rows, chains, dropped, faults = 0, 0, 0, list[ChainFault]()
    for keep in Keep:
        verifier = ChainVerifier(keep, extent.starts, outside)
        for day in extent.days.get(keep, []):
            async for row in _rows_of(desk, keep, day):
                verifier.take(row, day)
        faults += verifier.finish()
        rows, chains = rows + verifier.rows, chains + len(verifier.chains)
        dropped += len(verifier.dropped)
    return Verified(rows, chains, len(outside), dropped, faults)


def read_heads(file: Path | None) -> list[ChainHead]:
    """Return the heads that a file holds: one JSON object in each line."""
    if file is None:
        return []
    if file.stat().st_size > _HEADS_BYTES_MAX:
        raise CommandFailed(f"{file} is too large for heads of chains.", ExitCode.USAGE)
    heads: list[ChainHead] = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if line.strip():
            try:
                heads += msgspec.json.decode(line, type=_HeldHeads).heads
            except msgspec.DecodeError as wrong:
                raise CommandFailed(
                    f"{file}, line {number}, has no heads of chains: {wrong}", ExitCode.USAGE
                ) from None
    return heads


async def _rows_of(desk: Administration, keep: Keep, day: date) -> AsyncIterator[DecisionRow]:
    asked = LogPageAsked(keep=keep, day=day)
    while True:
        page = await desk.run(READ_LOG_PAGE, asked)
        for row in page.rows:
            yield row
        if len(page.rows) < PAGE_ROWS:
            return
        last = page.rows[-1].line
        asked = LogPageAsked(keep=keep, day=day, holder=last.holder, sequence=last.sequence)
