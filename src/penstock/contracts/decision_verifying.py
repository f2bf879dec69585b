"""Verifies the chains of the log of decisions, from rows that come in order. Pure.

It finds a changed, missing, added or moved row by itself. Rows that are missing at the end of a
chain, and a chain that somebody computed anew, it finds up to the last head that is held outside.
What retention has dropped it cannot see; days are dropped whole, so it finds a row that is gone
while rows of its day are there.
"""

from collections.abc import Iterable
from datetime import date
from typing import Final

import msgspec

from penstock.contracts.decision_chain import GENESIS, Keep, hash_of
from penstock.contracts.decision_queries import ChainHead, DecisionRow

FAULTS_MAX: Final = 1000
_EPOCH: Final = date(1970, 1, 1)
_DAY_US: Final = 86_400_000_000


class ChainFault(msgspec.Struct, frozen=True):
    """What is wrong with a chain, and from which row on."""

    keep: Keep
    holder: str
    sequence: int
    problem: str


class ChainVerifier:
    """Takes the rows of one `keep`: days in order, in each day by holder and number."""

    def __init__(
        self, keep: Keep, starts: Iterable[ChainHead], outside: Iterable[ChainHead] = ()
    ) -> None:
        self._keep = keep
        # The last row of each chain so far: its number and hash.
        self._ends = {
            start.holder: (start.sequence, start.hash) for start in starts if start.keep is keep
        }
        self._outside: dict[tuple[str, int], str] = {}
        # Heads of rows that retention has dropped, as it seems.
        self.dropped: list[ChainHead] = []
        for head in outside:
            if head.keep is keep and head.sequence > self._ends.get(head.holder, (0, ""))[0]:
                self._outside[head.holder, head.sequence] = head.hash
            elif head.keep is keep:
                self.dropped.append(head)
        self._starts = dict(self._ends)
        self._first_day: date | None = None
        self.rows = 0
        self.chains: set[str] = set()
        self.faults: list[ChainFault] = []

    def take(self, row: DecisionRow, day: date) -> None:
        """Verify the next row, which stands under a day."""
        line = row.line
        self.rows += 1
        self.chains.add(line.holder)
        self._first_day = self._first_day or day
        if line.at_us // _DAY_US != (day - _EPOCH).days:
            self._fault(line.holder, line.sequence, f"stands under {day}, which is another day")
        sequence, digest = self._ends.get(line.holder, (0, GENESIS.hex()))
        if line.sequence > sequence + 1:
            self._fault(line.holder, sequence + 1, f"missing up to row {line.sequence - 1}")
        elif line.sequence <= sequence:
            self._fault(line.holder, line.sequence, "not where it was written")
        elif row.previous != digest:
            self._fault(line.holder, line.sequence, "does not follow the row before it")
        if hash_of(bytes.fromhex(row.previous), line).hex() != row.hash:
            self._fault(line.holder, line.sequence, "changed after it was written")
        held = self._outside.pop((line.holder, line.sequence), row.hash)
        if held != row.hash:
            self._fault(line.holder, line.sequence, "differs from the head that is held outside")
        self._ends[line.holder] = (max(line.sequence, sequence), row.hash)

    def finish(self) -> list[ChainFault]:
        """Return all faults, after the last row."""
        for head in self.dropped:
            self._check_dropped(head)
        for holder, sequence in sorted(self._outside):
            last, _ = self._ends.get(holder, (0, ""))
            if sequence > last:
                self._fault(holder, last + 1, f"missing up to row {sequence}, held outside")
        return self.faults

    def _check_dropped(self, head: ChainHead) -> None:
        sequence, digest = self._starts[head.holder]
        if sequence == head.sequence and digest != head.hash:
            self._fault(head.holder, sequence, "differs from the head that is held outside")
        elif head.day is not None and self._first_day is not None and head.day >= self._first_day:
            self._fault(head.holder, head.sequence, "missing, while rows of its day are kept")

    def _fault(self, holder: str, sequence: int, problem: str) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(ChainFault(self._keep, holder, sequence, problem))
