"""The log as a stream, for all readers of one gateway worker at once.

One query a look, however many readers there are. A reader gets its account's events once each and
in order, from where it left off: what it missed comes in pages, what is new from the shared look.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from penstock.admission import ConcurrencySlots
from penstock.errors import StoreUnavailable
from penstock.events.event import Event
from penstock.events.settings import EventsSettings
from penstock.records.account import AccountId
from penstock.store import Store
from penstock.store.pool import Row

_HEAD: Final = "select sequence from event_head"
_NEW: Final = """
select id, account, type, extract(epoch from created_at)::float8, data, sequence from events
where sequence > %s and sequence <= %s and account = any(%s) order by sequence
"""
_MISSED: Final = """
select id, account, type, extract(epoch from created_at)::float8, data, sequence from events
where account = %s and sequence > %s and sequence <= %s order by sequence limit %s
"""

logger = logging.getLogger(__name__)


class Reader:
    """One stream's place in the log. Made by `Feed.reader`."""

    def __init__(self, account: AccountId, after: int | None, events_max: int) -> None:
        self.account = account
        # All up to here has been handed out; None = it begins with what is new.
        self.position = after
        # What is newer than this comes from the shared look; None until the look includes it.
        self.live_from: int | None = None
        self.is_cut = False
        self._events_max = events_max
        self._new: deque[Event] = deque()
        self._something = asyncio.Event()

    def join(self, at: int, head: int) -> None:
        """From `at` on it is part of the look. A place beyond the log's end is its end."""
        self.live_from = at
        self.position = at if self.position is None else min(self.position, head)
        self._something.set()

    def put(self, event: Event) -> None:
        """Hand it on, unless it is too far behind: then it is cut, and keeps what it has."""
        if self.is_cut:
            return
        if len(self._new) >= self._events_max:
            self.is_cut = True
        else:
            self._new.append(event)
        self._something.set()

    def cut(self) -> None:
        """It gets no more; it may resume, here or elsewhere."""
        self.is_cut = True
        self._something.set()

    async def wait(self, seconds: float) -> bool:
        """Until there is something, or for so long; whether there is."""
        try:
            async with asyncio.timeout(seconds):
                await self._something.wait()
        except TimeoutError:
            return False
        return True

    def take(self) -> list[Event]:
        """What has come from the shared look, each once."""
        self._something.clear()
        taken, self._new = self._new, deque()
        # One that asked for more than there was yet has it already.
        return [event for event in taken if event.sequence > (self.position or 0)]


class Feed:
    """Run once per gateway worker."""

    def __init__(self, store: Store, settings: EventsSettings) -> None:
        self._store = store
        self._settings = settings
        self._readers: set[Reader] = set()
        self._places = ConcurrencySlots(
            "event streams", settings.streams_max, settings.streams_per_account_max
        )
        self._position: int | None = None
        self._somebody = asyncio.Event()

    @property
    def streams(self) -> int:
        return len(self._readers)

    @contextmanager
    def reader(self, account: AccountId, after: int | None) -> Iterator[Reader]:
        """A place among the readers, for the block; refused where there is none."""
        with self._places.take(account):
            reader = Reader(account, after, self._settings.stream_events_max)
            self._readers.add(reader)
            self._somebody.set()
            try:
                yield reader
            finally:
                self._readers.discard(reader)

    async def next(self, reader: Reader) -> list[Event]:
        """What this reader gets next, after at most `keepalive_seconds`; empty if nothing came."""
        if not await reader.wait(self._settings.keepalive_seconds):
            return []
        if reader.is_cut and reader.live_from is None:
            return []
        position, live_from = reader.position, reader.live_from
        assert position is not None, "a reader that was woken has joined"
        assert live_from is not None, "a reader that was woken has joined"
        if position < live_from:
            events = await self._missed(reader.account, position, live_from)
            is_page = len(events) == self._settings.page_rows_max
            reader.position = events[-1].sequence if is_page else live_from
            return events
        events = reader.take()
        if events:
            reader.position = events[-1].sequence
        return events

    def end_all(self) -> None:
        """A worker that stops waits for its answers to end, and these have no end of their own."""
        for reader in self._readers:
            reader.cut()

    async def run(self) -> None:
        """Look until cancelled; while there is no reader, do nothing."""
        while True:
            if not self._readers:
                self._position = None
                self._somebody.clear()
                await self._somebody.wait()
            is_behind = False
            try:
                is_behind = await self._look()
            except StoreUnavailable:
                logger.warning("event streams wait", extra={"action": "event_streams_wait"})
            if not is_behind:
                await asyncio.sleep(self._settings.poll_seconds)

    async def _look(self) -> bool:
        """Hand out what is new; whether there is more than fits one look."""
        # Those who come while the query runs are not part of it, and join at the next.
        readers = tuple(self._readers)
        accounts = sorted({reader.account for reader in readers})
        async with self._store.transaction() as transaction:
            row = await transaction.fetch_one(_HEAD)
            assert row is not None, "event_head has lost its row"
            head = int(row[0])
            # Everything up to the head is committed: it is raised by those who write the log.
            begin = head if self._position is None else self._position
            end = min(head, begin + self._settings.page_rows_max)
            rows: list[Row] = []
            if end > begin:
                rows = await transaction.fetch(_NEW, (begin, end, accounts))
        for reader in readers:
            if reader.live_from is None:
                reader.join(begin, head)
        self._hand_out(readers, map(_event, rows))
        self._position = end
        return end < head

    @staticmethod
    def _hand_out(readers: Sequence[Reader], events: Iterable[Event]) -> None:
        by_account: dict[AccountId, list[Reader]] = {}
        for reader in readers:
            by_account.setdefault(reader.account, []).append(reader)
        for event in events:
            for reader in by_account[event.account]:
                reader.put(event)

    async def _missed(self, account: AccountId, after: int, until: int) -> list[Event]:
        async with self._store.transaction() as transaction:
            rows = await transaction.fetch(
                _MISSED, (account, after, until, self._settings.page_rows_max)
            )
        return [_event(row) for row in rows]


def _event(row: Row) -> Event:
    return Event(str(row[0]), AccountId(row[1]), *row[2:])
