"""Large bodies are read in a thread of their own, by a reader of their own."""

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.catalogue import Catalogue
from penstock.errors import InvalidRequest
from penstock.ingress.settings import IngressSettings
from penstock.intake.large_reading import INLINE_BYTES_MAX, ReadingThread
from penstock.intake.request_reader import RequestReader
from penstock.metering import PriceBook
from penstock.policy import KeyMirror, PolicySettings
from penstock.store import Store, StoreSettings
from penstock.testing import ManualClock


@asynccontextmanager
async def a_reader() -> AsyncIterator[RequestReader]:
    keys = KeyMirror(Store(StoreSettings(dsn="host=127.0.0.1")), ManualClock(), PolicySettings())
    thread = ReadingThread()
    try:
        yield RequestReader(
            Catalogue([]), keys, PriceBook([]), IngressSettings().intake, thread=thread
        )
    finally:
        thread.close()


@pytest.mark.parametrize("size", [0, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1])
def test_only_what_is_large_is_read_in_the_thread(size: int) -> None:
    async def test() -> None:
        async with a_reader() as here:
            used, thread = await here.read_by_size(
                size, lambda reader: (reader, threading.current_thread())
            )
            is_large = size > INLINE_BYTES_MAX
            assert (used is here) is not is_large
            assert (thread is threading.main_thread()) is not is_large

    asyncio.run(test())


def test_all_large_bodies_are_read_by_one_thread_in_order() -> None:
    async def test() -> None:
        seen: list[tuple[int, int]] = []
        async with a_reader() as here, asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(
                    here.read_by_size(
                        2**20,
                        lambda _, n=number: seen.append((n, threading.get_ident())),  # type: ignore[misc]
                    )
                )
        assert [number for number, _ in seen] == list(range(20))
        assert len({thread for _, thread in seen}) == 1

    asyncio.run(test())


def test_refusal_does_not_hold_the_body() -> None:
    class Body:
        pass

    kept: list[weakref.ref[Body]] = []

    def refuse(_: RequestReader) -> None:
        body = Body()
        kept.append(weakref.ref(body))
        raise InvalidRequest("no")

    async def test() -> None:
        async with a_reader() as here:
            with pytest.raises(InvalidRequest) as refused:
                await here.read_by_size(2**20, refuse)
            await asyncio.sleep(0.05)
            assert kept[0]() is None, refused

    gc.disable()
    try:
        asyncio.run(test())
    finally:
        gc.enable()
