"""The log as a stream: each reader gets its account's events once each, in order, from anywhere."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from penstock.errors import OverLimit, Overloaded
from penstock.events import EventsSettings, Feed
from penstock.events.relay import Relay
from penstock.ingress.pages.subscription_pages import failure_numbers
from penstock.queue import outbox
from penstock.records.account import AccountId
from penstock.store import Store

QUICK = EventsSettings(poll_seconds=0.01, page_rows_max=7, keepalive_seconds=0.2)
MINE, THEIRS = AccountId("mine"), AccountId("theirs")


@contextlib.asynccontextmanager
async def feeding(store: Store, settings: EventsSettings = QUICK) -> AsyncIterator[Feed]:
    feed = Feed(store, settings)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(feed.run())
        yield feed
        running.cancel()


async def happen(store: Store, account: AccountId, *numbers: int) -> None:
    async with store.transaction() as transaction:
        await outbox.add(
            transaction,
            [outbox.NewEvent(account, "job.succeeded", {"id": str(n)}) for n in numbers],
        )


def relay(store: Store) -> Relay:
    return Relay(store, QUICK, failure_numbers)


async def read(feed: Feed, account: AccountId, after: int | None, count: int) -> list[int]:
    """The places of the next events of one reader."""
    found: list[int] = []
    async with asyncio.timeout(20):
        with feed.reader(account, after) as reader:
            while len(found) < count:
                events = await feed.next(reader)
                assert all(event.account == account for event in events)
                found += [event.sequence for event in events]
    return found


async def test_readers_that_come_and_go_miss_nothing_and_get_nothing_twice(store: Store) -> None:
    """Writers commit concurrently and late; relays race; readers resume every few events."""
    total, stop = 120, asyncio.Event()

    async def write(first: int) -> None:
        for number in range(first, total, 4):
            await happen(store, MINE, number)
            await happen(store, THEIRS, number)

    async def move() -> None:
        own = relay(store)
        while not stop.is_set():
            await own.step()

    async def follow(feed: Feed) -> list[int]:
        places: list[int] = []
        while len(places) < total:
            after = places[-1] if places else 0
            places += await read(feed, MINE, after, min(9, total - len(places)))
        return places

    async with feeding(store) as feed, asyncio.TaskGroup() as group:
        movers = [group.create_task(move()) for _ in range(2)]
        followers = [group.create_task(follow(feed)) for _ in range(3)]
        writers = [group.create_task(write(first)) for first in range(4)]
        await asyncio.wait(writers)
        await asyncio.wait(followers)
        stop.set()
        await asyncio.wait(movers)
    async with store.transaction() as transaction:
        rows = await transaction.fetch("select sequence, account from events order by sequence")
    assert [row[0] for row in rows] == list(range(1, 2 * total + 1))
    mine = [row[0] for row in rows if row[1] == MINE]
    for follower in followers:
        assert follower.result() == mine


async def test_without_a_place_a_reader_begins_with_what_is_new(store: Store) -> None:
    await happen(store, MINE, 1, 2)
    await relay(store).step()
    async with feeding(store) as feed, asyncio.TaskGroup() as group:
        with feed.reader(MINE, None) as reader:
            assert await feed.next(reader) == []
            reading = group.create_task(read(feed, MINE, 0, 3))
            await happen(store, MINE, 3)
            await relay(store).step()
            assert [event.data["id"] for event in await feed.next(reader)] == ["3"]
        assert await reading == [1, 2, 3]


async def test_a_reader_ahead_of_this_workers_look_gets_nothing_twice(store: Store) -> None:
    await happen(store, MINE, *range(20))
    await relay(store).step()
    async with feeding(store) as feed:
        assert await read(feed, MINE, 0, 20) == list(range(1, 21))
        await happen(store, MINE, 20, 21)
        await relay(store).step()
        assert await read(feed, MINE, 21, 1) == [22]
        assert await read(feed, MINE, 15, 7) == list(range(16, 23))


async def test_nothing_to_tell_is_told_after_the_keepalive_time(store: Store) -> None:
    async with feeding(store) as feed:
        with feed.reader(MINE, 0) as reader:
            for _ in range(3):
                assert await feed.next(reader) == []


async def test_a_reader_that_does_not_read_is_cut(store: Store) -> None:
    settings = msgspec.structs.replace(QUICK, page_rows_max=5, stream_events_max=5)
    async with feeding(store, settings) as feed:
        with feed.reader(MINE, None) as reader:
            await feed.next(reader)
            await happen(store, MINE, *range(20))
            await relay(store).step()
            async with asyncio.timeout(10):
                while not reader.is_cut:  # noqa: ASYNC110 - a reader tells only its stream
                    await asyncio.sleep(0.01)
            events = await feed.next(reader)
            assert [event.sequence for event in events] == [1, 2, 3, 4, 5]
    async with feeding(store) as feed:
        assert await read(feed, MINE, 5, 15) == list(range(6, 21))


async def test_streams_are_bounded_by_account_and_worker(store: Store) -> None:
    settings = msgspec.structs.replace(QUICK, streams_max=3, streams_per_account_max=2)
    feed = Feed(store, settings)
    with feed.reader(MINE, 0), feed.reader(MINE, 0):
        with pytest.raises(OverLimit), feed.reader(MINE, 0):
            pass
        with feed.reader(THEIRS, 0), pytest.raises(Overloaded), feed.reader(THEIRS, 0):
            pass
    assert feed.streams == 0
    with feed.reader(MINE, 0):
        assert feed.streams == 1
