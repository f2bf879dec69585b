"""Opens a meter before an attempt goes upstream, and closes it once, however the attempt ends.

The journal has the opening record before the engine gets a byte, and the closing record before the
caller gets the last byte. A caller who got a part of the answer pays for all tokens made; a caller
who left earlier pays for the estimated uncached prompt. An attempt that its completion charges,
such as a job's, is free here: see charge.py.
"""

from collections.abc import Callable
from typing import Final

from penstock.clock import Clock
from penstock.metering.bill import Bill, bill, withheld
from penstock.metering.journal import Journal
from penstock.metering.ledger_line import Times, closing, opening
from penstock.metering.usage_slots import USAGE_BYTES_MAX
from penstock.records.request import ChargedBy, InferenceRequest, Outcome, RequestEnd
from penstock.records.tally import Tally
from penstock.records.usage import Usage
from penstock.wire.engine_usage import read_usage, write_usage

_JOURNAL: Final = ChargedBy.JOURNAL
_OK: Final = Outcome.OK
# The value of `_first_at` before the first token.
_NOT_YET: Final = -1.0


class Metering:
    """Opens meters on the worker's journal. Each worker has one."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._now = clock.now
        self._monotonic = clock.monotonic

    def open(self, request: InferenceRequest, end: RequestEnd, limits: tuple[int, ...]) -> "Meter":
        """Open a meter for the next attempt, at `end`'s replica.

        Raises JournalFull when usage cannot be recorded: then nothing may go upstream.
        """
        journal = self._journal
        slot = journal.take_slot()
        waited_us = int((self._now() - request.terms.asked_at) * 1e6)
        try:
            opened = opening(request, end, waited_us, limits)
            journal.open(slot, opened)
        except BaseException:
            journal.slots.free(slot)
            raise
        if request.terms.charged_by is _JOURNAL:
            return Meter(journal, self._monotonic, request, slot, end.cached_expected)
        meter = CompletionMeter(journal, self._monotonic, request, slot, end.cached_expected)
        meter.keep(opened, end)
        return meter


class Meter(Tally):
    """Records one attempt's usage in the journal."""

    def __init__(
        self,
        journal: Journal,
        monotonic: Callable[[], float],
        request: InferenceRequest,
        slot: int,
        cached_expected: int | None,
    ) -> None:
        super().__init__()
        self._journal = journal
        self._monotonic = monotonic
        self._request = request
        self._slot = slot
        self._cached_expected = cached_expected
        self._began = monotonic()
        self._first_at = _NOT_YET
        self._is_closed = False

    def note(self, usage: bytes) -> None:
        if self._is_closed:
            # Another attempt may have taken the slot since.
            return
        if self._first_at == _NOT_YET:
            self._first_at = self._monotonic()
        if len(usage) > USAGE_BYTES_MAX:
            counts = read_usage(usage)
            if counts is None:
                return
            usage = write_usage(counts)
        self._journal.slots.note(self._slot, usage)

    def settle(self, usage: Usage | None) -> None:
        self.close(_OK, usage=usage, is_owed=True)

    def close(
        self, outcome: Outcome, *, usage: Usage | None, is_owed: bool, error: str = ""
    ) -> None:
        """Write the closing record. Only the first call has an effect."""
        if self._is_closed:
            return
        self._is_closed = True
        request = self._request
        is_cut = outcome is not _OK and request.prompt.is_stream
        expected = self._cached_expected if is_cut else None
        billed = bill(usage, request.terms.price, is_owed=is_owed, cut_expecting=expected)
        self._write(
            self._times(is_made=outcome is _OK and usage is not None), outcome, error, billed
        )

    def _write(self, times: Times, outcome: Outcome, error: str, billed: Bill) -> None:
        self.charge_nanousd = billed.charge_nanousd
        journal, slot = self._journal, self._slot
        journal.close(slot, closing(times, outcome, error, billed))
        journal.slots.free(slot)

    def _times(self, *, is_made: bool) -> Times:
        now = self._monotonic()
        duration_us = int((now - self._began) * 1e6)
        if not self._request.prompt.is_stream:
            return duration_us, None, None
        if self._first_at == _NOT_YET:
            # `note` is not called for a stream that arrives in one piece, only `settle`.
            return duration_us, duration_us if is_made else None, None
        first_us = int((self._first_at - self._began) * 1e6)
        return duration_us, first_us, duration_us - first_us


class CompletionMeter(Meter):
    """Journals an attempt without a charge, and keeps the charged line for the completion.

    The line with the charge goes into `RequestEnd.charged_line`.
    """

    def keep(self, opened: bytes, end: RequestEnd) -> None:
        self._opened = opened
        self._end = end

    def _write(self, times: Times, outcome: Outcome, error: str, billed: Bill) -> None:
        self._end.charged_line = self._opened + closing(times, outcome, error, billed)
        super()._write(times, outcome, error, withheld(billed))
