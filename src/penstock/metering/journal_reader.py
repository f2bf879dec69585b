"""Reads a journal, the worker's own or a dead worker's, into rows for the ledger.

`read` returns the rows written so far; `done` confirms that they are in Postgres, and deletes the
files that were read to their end and in which no open attempt began.
"""

import logging
import mmap
from pathlib import Path
from typing import Final

from penstock.metering.bill import Bill, bill, withheld
from penstock.metering.journal import SEGMENT, SLOTS
from penstock.metering.journal_format import (
    CLOSED,
    CUT,
    DECIDED,
    END,
    HEADER_BYTES,
    OPENED_UNLABELLED,
    OPENED_UNROUTED,
    Damaged,
    read_frame,
)
from penstock.metering.ledger_line import (
    UNLABELLED,
    UNROUTED,
    agreed_in,
    closing,
    is_charged_by_completion,
)
from penstock.metering.usage_slots import UsageSlots
from penstock.records.request import Outcome
from penstock.wire.engine_usage import read_usage

# A line for COPY.
Row = bytes

_DAMAGED: Final = ".damaged"
# The missing columns of openings written by earlier releases.
_LACKING: Final = {OPENED_UNROUTED: UNROUTED, OPENED_UNLABELLED: UNLABELLED}
# How much of a file is copied at a time.
_PIECE_BYTES: Final = 2**16

logger = logging.getLogger(__name__)


class JournalRows:
    """Lines of a journal, in the order in which they were written: attempts, and decisions."""

    def __init__(
        self, attempts: list[Row] | None = None, decisions: list[Row] | None = None
    ) -> None:
        self.attempts: list[Row] = [] if attempts is None else attempts
        self.decisions: list[Row] = [] if decisions is None else decisions

    def __len__(self) -> int:
        return len(self.attempts) + len(self.decisions)

    def halves(self) -> "tuple[JournalRows, JournalRows]":
        """Return the same lines in two parts, neither of which is empty if there are two lines."""
        if self.attempts and self.decisions:
            return JournalRows(self.attempts), JournalRows(None, self.decisions)
        some, others = len(self.attempts) // 2, len(self.decisions) // 2
        return (
            JournalRows(self.attempts[:some], self.decisions[:others]),
            JournalRows(self.attempts[some:], self.decisions[others:]),
        )


class JournalReader:
    """Reads one journal. Keeps the openings of open attempts, and one file mapped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = min(_numbers(folder), default=1)
        self._at = 0
        self._data: mmap.mmap | None = None
        # By slot: the opening half of an open attempt, and the number of the file that it is in.
        self._open: dict[int, tuple[bytes, int]] = {}
        # The rows that a failed `read` had decoded; the next `read` begins with them.
        self._taken = JournalRows()
        # Numbers of the files that were read to their end and are not deleted yet.
        self._kept: set[int] = set()

    def read(self, rows_max: int) -> JournalRows:
        """Return the next closed attempts and decisions; fewer than `rows_max` only at the end."""
        rows, self._taken = self._taken, JournalRows()
        try:
            while len(rows) < rows_max:
                if not self._read_segment(rows, rows_max) and not self._next_segment():
                    break
        except OSError:
            # No file descriptor is free, or the disk has no room for a copy of a damaged file.
            self._taken = rows
            raise
        if self._data is not None:
            # Pages that were read are not read again, so they need not stay in memory.
            self._data.madvise(mmap.MADV_DONTNEED)
        return rows

    def done(self) -> None:
        """Delete files that are no longer needed. Call once the rows read are in Postgres."""
        # One long stream keeps only the file that it began in. A worker that adopts the remaining
        # files may join halves of two attempts: both attempts are in Postgres already, where a
        # row is never written twice.
        needed = {number for _, number in self._open.values()}
        for number in self._kept - needed:
            (self._folder / SEGMENT.format(number)).unlink(missing_ok=True)
            self._kept.remove(number)

    @property
    def has_open(self) -> bool:
        """Whether an attempt is open in the part of the journal that was read."""
        return bool(self._open)

    def left_open(self) -> list[Row]:
        """After all reads, return a dead worker's open attempts, closed with their last usage."""
        if not self._open:
            return []
        try:
            slots = UsageSlots.read(self._folder / SLOTS)
        except FileNotFoundError:
            # A worker that had written all these rows was killed while it deleted the journal.
            return [opened + _interrupted(opened, None) for opened, _ in self._open.values()]
        try:
            return [
                opened + _interrupted(opened, slots.last(slot))
                for slot, (opened, _) in self._open.items()
            ]
        finally:
            slots.close()

    def close(self) -> None:
        if self._data is not None:
            self._data.close()
            self._data = None

    def _read_segment(self, rows: JournalRows, rows_max: int) -> bool:
        """Decode frames until there are enough rows; return False at the last written frame."""
        data = self._segment()
        if data is None:
            return False
        # Each read makes a new copy, because a copy lacks the frames that were written after it.
        piece, piece_at = b"", self._at
        try:
            while len(rows) < rows_max:
                kind, slot, text, end = read_frame(piece, self._at - piece_at)
                if kind == CUT:
                    piece, piece_at = self._piece(data, piece, piece_at), self._at
                    if not piece:
                        return False
                    continue
                self._at = piece_at + end
                if kind == CLOSED:
                    opened = self._open.get(slot)
                    if opened is not None:
                        del self._open[slot]
                        rows.attempts.append(opened[0] + text)
                elif kind == END:
                    return False
                elif kind == DECIDED:
                    rows.decisions.append(text)
                else:
                    self._open[slot] = (text + _LACKING.get(kind, b""), self._number)
        except Damaged:
            self._give_up_segment(rows)
            return False
        return True

    def _piece(self, data: mmap.mmap, before: bytes, before_at: int) -> bytes:
        """Return the next piece of a file, from `_at`, when the last one ends within a frame.

        Empty where no further frame fits; raises Damaged if the file itself ends within a frame.
        """
        at = self._at
        if at + HEADER_BYTES > len(data):
            return b""
        if before_at + len(before) == len(data):
            raise Damaged
        # A frame longer than a piece is corrupt or very long: only the rest of the file tells.
        is_too_long = before_at == at and len(before) == _PIECE_BYTES
        return data[at:] if is_too_long else data[at : at + _PIECE_BYTES]

    def _segment(self) -> mmap.mmap | None:
        if self._data is None:
            path = self._folder / SEGMENT.format(self._number)
            try:
                with path.open("rb") as file:
                    self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except FileNotFoundError:
                return None
            except ValueError:
                # The file is empty because its worker was killed while it made the file.
                return None
        return self._data

    def _next_segment(self) -> bool:
        """Go on to the next file if it has a frame, which means that this one is complete."""
        following = self._following()
        if following is None:
            return False
        self.close()
        self._kept.add(self._number)
        self._number = following
        self._at = 0
        return True

    def _following(self) -> int | None:
        number = min((n for n in _numbers(self._folder) if n > self._number), default=None)
        if number is None:
            return None
        with (self._folder / SEGMENT.format(number)).open("rb") as file:
            return number if any(file.read(HEADER_BYTES)) else None

    def _give_up_segment(self, rows: JournalRows) -> None:
        """Skip the unreadable rest of this file. If it is damaged, keep a copy for an operator."""
        assert self._data is not None
        name = SEGMENT.format(self._number)
        fields = {"action": "journal_damaged", "file": str(self._folder / name), "at": self._at}
        rest = self._data[self._at + HEADER_BYTES :].rstrip(b"\0")
        if len(rest) > _CUT_BYTES_MAX or self._following() is not None:
            # More than one frame is lost, so a kill during a write cannot be the cause.
            kept = self._folder.parent / f"{self._folder.name}-{name}{_DAMAGED}"
            kept.write_bytes(self._data[:])
            logger.error("journal damaged", extra=fields)
            # The slots' later owners are unknown, and no caller may pay for another's usage.
            rows.attempts.extend(
                opened + _interrupted(opened, None) for opened, _ in self._open.values()
            )
            self._open.clear()
        else:
            logger.warning("journal ends in a cut record", extra=fields)
        self._at = len(self._data)


# An opening record or a decision with every label at its longest is shorter than this.
_CUT_BYTES_MAX: Final = 2**14


def _numbers(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("*.journal")]


def _interrupted(opened: bytes, raw: bytes | None) -> bytes:
    """Return the closing half of an interrupted attempt; its slot counts only delivered tokens."""
    usage = None if raw is None else read_usage(raw)
    billed = Bill()
    if usage is not None:
        price, expected = agreed_in(opened)
        billed = bill(usage, price, cut_expecting=expected)
        if is_charged_by_completion(opened):
            billed = withheld(billed)
    return closing((0, None, None), Outcome.INTERRUPTED, "", billed)
