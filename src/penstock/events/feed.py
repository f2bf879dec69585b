"""Streams the log to all readers of one gateway worker.

Each poll is one query, however many readers there are. A reader gets its account's events once each
and in order, from where it left off: missed events in pages, new ones from the shared poll.
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
    """One stream's position in the log. Made by `Feed.reader`."""

    def __init__(self, account: AccountId, after: int | None, events_max: int) -> None:
        self.account = account
        # Events up to here have been handed out; None = the reader begins with new events.
        self.position = after
        # Newer events than this come from the shared poll; None until it includes this reader.
        self.live_from: int | None = None
        self.is_cut = False
        self._events_max = events_max
        self._new: deque[Event] = deque()
        self._something = asyncio.Event()

    def join(self, at: int, head: int) -> None:
        """Join the shared poll from `at` on. A position beyond the log's end becomes its end."""
        self.live_from = at
        self.position = at if self.position is None else min(self.position, head)
        self._something.set()

    def put(self, event: Event) -> None:
        """Queue an event; a reader too far behind is cut instead, and keeps what it has."""
        if self.is_cut:
            return
        if len(self._new) >= self._events_max:
            self.is_cut = True
        else:
            self._new.append(event)
        self._something.set()

    def cut(self) -> None:
        """Give this reader no more events; its client may resume, here or elsewhere."""
        self.is_cut = True
        self._something.set()

    async def wait(self, seconds: float) -> bool:
        """Wait until the reader has something to do, or for `seconds`; return whether it has."""
        try:
            async with asyncio.timeout(seconds):
                await self._something.wait()
        except TimeoutError:
            return False
        return True

    def take(self) -> list[Event]:
        """Return the events that came from the shared poll, each once."""
        self._something.clear()
        taken, self._new = self._new, deque()
        # A reader whose position is ahead of the shared poll already has the first of these.
        return [event for event in taken if event.sequence > (self.position or 0)]


class Feed:
    """Feeds the event streams of one gateway worker."""

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
        """Add a reader for the duration of the block; refused if no place is free."""
        with self._places.take(account):
            reader = Reader(account, after, self._settings.stream_events_max)
            self._readers.add(reader)
            self._somebody.set()
            try:
                yield reader
            finally:
                self._readers.discard(reader)

    async def next(self, reader: Reader) -> list[Event]:
        """Return a reader's next events, after at most `keepalive_seconds`; empty if none came."""
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
        """Cut all readers: a stopping worker waits for its answers, and these never end."""
        for reader in self._readers:
            reader.cut()

    async def run(self) -> None:
        """Poll the log until cancelled; while there is no reader, do nothing."""
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
        """Hand out new events; return whether there are more than fit one poll."""
        # Readers that come while the query runs are not part of it, and join at the next one.
        readers = tuple(self._readers)
        accounts = sorted({reader.account for reader in readers})
        async with self._store.transaction() as transaction:
            row = await transaction.fetch_one(_HEAD)
            assert row is not None, "event_head has lost its row"
            head = int(row[0])
            # Events up to the head are committed: the transaction that writes them raises it.
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
