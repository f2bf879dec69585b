"""Reads a journal, one's own or an orphan's, into rows for the ledger.

`read` looks at what is there now; `done` says that those rows are safe, and deletes files that
nothing needs any more: drained to their end, and with no attempt open that began in them.
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
    END,
    HEADER_BYTES,
    OPENED_UNLABELLED,
    OPENED_UNROUTED,
    Damaged,
    read_frame,
)
from penstock.metering.ledger_line import UNLABELLED, UNROUTED, agreed_in, closing, is_of_job
from penstock.metering.usage_slots import UsageSlots
from penstock.records.request import Outcome
from penstock.wire.engine_usage import read_usage

# A line for COPY.
Row = bytes

_DAMAGED: Final = ".damaged"
# What openings of earlier releases lack.
_LACKING: Final = {OPENED_UNROUTED: UNROUTED, OPENED_UNLABELLED: UNLABELLED}
# So much of a file is looked at at a time.
_PIECE_BYTES: Final = 2**16

logger = logging.getLogger(__name__)


class JournalReader:
    """One reader per journal. It holds the attempts that are open, and one file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = min(_numbers(folder), default=1)
        self._at = 0
        self._data: mmap.mmap | None = None
        # By slot: the opening half, and the number of the file that it is in.
        self._open: dict[int, tuple[bytes, int]] = {}
        # What a read had taken when it failed: the next one begins with that.
        self._taken: list[Row] = []
        # Files that were read to their end and not deleted yet.
        self._kept: set[int] = set()

    def read(self, rows_max: int) -> list[Row]:
        """The next closed attempts, oldest first; fewer than asked for only at the end."""
        rows, self._taken = self._taken, []
        try:
            while len(rows) < rows_max:
                if not self._read_segment(rows, rows_max) and not self._next_segment():
                    break
        except OSError:
            # No descriptor is free, or no room for the copy of a damaged file.
            self._taken = rows
            raise
        if self._data is not None:
            # What was looked at is not looked at again: it need not stay in our memory.
            self._data.madvise(mmap.MADV_DONTNEED)
        return rows

    def done(self) -> None:
        """What was read is in Postgres: let go of the files that only held that."""
        # One long stream keeps the file that it began in, not all those after it. Whoever adopts
        # what is left may take two halves for one attempt: both are of attempts that are in
        # Postgres already, where a row is never written twice.
        needed = {number for _, number in self._open.values()}
        for number in self._kept - needed:
            (self._folder / SEGMENT.format(number)).unlink(missing_ok=True)
            self._kept.remove(number)

    @property
    def has_open(self) -> bool:
        """Whether an attempt is open, as far as was read."""
        return bool(self._open)

    def left_open(self) -> list[Row]:
        """After the last read of an orphan: what it had open, closed with the last usage seen."""
        if not self._open:
            return []
        try:
            slots = UsageSlots.read(self._folder / SLOTS)
        except FileNotFoundError:
            # Whoever deleted it was killed at that, and had written all of these rows before.
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

    def _read_segment(self, rows: list[Row], rows_max: int) -> bool:
        """Take in frames until there are enough rows; False at the end of what is written."""
        data = self._segment()
        if data is None:
            return False
        # Taken anew by each read: what is copied here does not see what is written behind it.
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
                        rows.append(opened[0] + text)
                elif kind == END:
                    return False
                else:
                    self._open[slot] = (text + _LACKING.get(kind, b""), self._number)
        except Damaged:
            self._give_up_segment(rows)
            return False
        return True

    def _piece(self, data: mmap.mmap, before: bytes, before_at: int) -> bytes:
        """The next piece of a file, from where we are, when the one before ends within a frame.

        Empty where no further frame can be; Damaged if the file itself ends within one.
        """
        at = self._at
        if at + HEADER_BYTES > len(data):
            return b""
        if before_at + len(before) == len(data):
            raise Damaged
        # A frame that is longer than a piece is nonsense, or very long: then all there is.
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
                # Empty: its worker was killed while it made the file.
                return None
        return self._data

    def _next_segment(self) -> bool:
        """Go on to the next file, if something is written there: then this one is complete."""
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

    def _give_up_segment(self, rows: list[Row]) -> None:
        """The rest of this file cannot be read. A copy stays, for people."""
        assert self._data is not None
        name = SEGMENT.format(self._number)
        fields = {"action": "journal_damaged", "file": str(self._folder / name), "at": self._at}
        rest = self._data[self._at + HEADER_BYTES :].rstrip(b"\0")
        if len(rest) > _CUT_BYTES_MAX or self._following() is not None:
            # More than one cut frame: this was not a kill in the middle of a write.
            kept = self._folder.parent / f"{self._folder.name}-{name}{_DAMAGED}"
            kept.write_bytes(self._data[:])
            logger.error("journal damaged", extra=fields)
            # Who had which slot from here on is not known: nobody is billed for another's usage.
            rows.extend(opened + _interrupted(opened, None) for opened, _ in self._open.values())
            self._open.clear()
        else:
            logger.warning("journal ends in a cut record", extra=fields)
        self._at = len(self._data)


# An opening record with every label at its longest is shorter than this.
_CUT_BYTES_MAX: Final = 4096


def _numbers(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("*.journal")]


def _interrupted(opened: bytes, raw: bytes | None) -> bytes:
    """A slot is written when bytes go to the caller, so what it counts was delivered."""
    usage = None if raw is None else read_usage(raw)
    billed = Bill()
    if usage is not None:
        price, expected = agreed_in(opened)
        billed = bill(usage, price, cut_expecting=expected)
        if is_of_job(opened):
            billed = withheld(billed)
    return closing((0, None, None), Outcome.INTERRUPTED, "", billed)
