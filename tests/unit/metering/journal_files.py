"""Small journals and the lines in them, for tests that break one."""

from pathlib import Path
from typing import Any

from tests.unit.engine.engine_line import make_request

from penstock.clock import new_id
from penstock.metering import Journal, Metering, MeteringSettings
from penstock.metering.bill import Bill
from penstock.metering.journal_format import CLOSED, OPENED, frame
from penstock.metering.journal_reader import JournalReader, Row
from penstock.metering.ledger_line import COLUMNS, closing, opening
from penstock.metering.usage_slots import UsageSlots
from penstock.records.price import Price
from penstock.records.request import InferenceRequest, Outcome, RequestEnd, RequestId
from penstock.records.usage import Usage
from penstock.testing.manual_clock import ManualClock

SMALL = MeteringSettings(segment_bytes=2**16, journal_bytes_max=2**17, open_max=64)
# Smaller than an operator may choose, so that files fill up soon.
TINY = MeteringSettings(segment_bytes=4096, journal_bytes_max=4 * 4096, open_max=8)
PRICE = Price(600_000_000, 150_000_000, 3_000_000_000)


def ask(*, is_stream: bool = True, **facts: object) -> InferenceRequest:
    """A request with an id of its own and a price."""
    made: dict[str, Any] = {"id": RequestId(new_id()), "price": PRICE, **facts}
    return make_request(is_stream=is_stream, **made)


def picked(**facts: Any) -> RequestEnd:
    """What is known when a replica is picked for a first attempt."""
    return RequestEnd(**{"replica": "r1", **facts})


def opened_line(request: InferenceRequest | None = None, limits: tuple[int, ...] = ()) -> bytes:
    return opening(request or ask(), picked(), 0, limits)


def closed_line(usage: Usage | None = None, charge: int = 0) -> bytes:
    return closing((1000, None, None), Outcome.OK, "", Bill(usage, charge))


def one_attempt(slot: int = 0, usage: Usage | None = None) -> tuple[bytes, bytes]:
    """Both frames of it."""
    return frame(OPENED, slot, opened_line()), frame(CLOSED, slot, closed_line(usage))


def lay_out(folder: Path, *segments: bytes, size: int = 4096) -> Path:
    """A journal that its worker left, with these bytes in its files."""
    orphan = folder / new_id()
    orphan.mkdir(parents=True)
    for number, data in enumerate(segments, start=1):
        (orphan / f"{number:08d}.journal").write_bytes(data.ljust(size, b"\0"))
    UsageSlots.make(orphan / "slots", 8).close()
    return orphan


def read_all(folder: Path, rows_max: int = 1000) -> tuple[list[Row], list[Row]]:
    """What was closed in a journal, and what was left open, as whoever adopts it sees it."""
    reader = JournalReader(folder)
    try:
        rows: list[Row] = []
        while batch := reader.read(rows_max):
            rows += batch.attempts
        return rows, reader.left_open()
    finally:
        reader.close()


def facts_of(row: Row) -> dict[str, str | None]:
    """A line's fields by name; null is None."""
    assert row.endswith(b"\n")
    values = row[:-1].decode().split("\t")
    return {
        name: None if value == "\\N" else value for name, value in zip(COLUMNS, values, strict=True)
    }


class Desk:
    """A journal, its meters, and a clock that the test owns."""

    def __init__(self, folder: Path, settings: MeteringSettings = SMALL) -> None:
        self.clock = ManualClock()
        self.journal = Journal(folder, new_id(), settings)
        self.metering = Metering(self.journal, self.clock)

    def rows(self) -> list[dict[str, str | None]]:
        """Attempts that are closed by now."""
        return [facts_of(row) for row in read_all(self.journal.folder)[0]]

    def left_open(self) -> list[dict[str, str | None]]:
        """What a kill at this moment would leave."""
        return [facts_of(row) for row in read_all(self.journal.folder)[1]]
