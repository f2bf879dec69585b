"""Large bodies are read in a thread of their own, by a reader of their own."""

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from penstock.errors import InvalidRequest
from penstock.ingress.large_reading import INLINE_BYTES_MAX, LargeReading, read_by_size
from penstock.ingress.reading import RequestReader


class Reader:
    """Stands for a RequestReader, which is only handed on."""

    def __init__(self, large: LargeReading | None = None) -> None:
        self.large = large


def as_reader(reader: Reader) -> RequestReader:
    return cast("RequestReader", reader)


@asynccontextmanager
async def two_readers() -> AsyncIterator[tuple[RequestReader, RequestReader]]:
    there = as_reader(Reader())
    large = LargeReading(there)
    try:
        yield as_reader(Reader(large)), there
    finally:
        large.close()


@pytest.mark.parametrize("size", [0, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1])
def test_only_what_is_large_is_read_in_the_thread(size: int) -> None:
    async def test() -> None:
        async with two_readers() as (here, there):
            used, thread = await read_by_size(
                here, size, lambda reader: (reader, threading.current_thread())
            )
            is_large = size > INLINE_BYTES_MAX
            assert used is (there if is_large else here)
            assert (thread is threading.main_thread()) is not is_large

    asyncio.run(test())


def test_all_large_bodies_are_read_by_one_thread_in_order() -> None:
    async def test() -> None:
        seen: list[tuple[int, int]] = []
        async with two_readers() as (here, _), asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(
                    read_by_size(
                        here,
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
        async with two_readers() as (here, _):
            with pytest.raises(InvalidRequest) as refused:
                await read_by_size(here, 2**20, refuse)
            await asyncio.sleep(0.05)
            assert kept[0]() is None, refused

    gc.disable()
    try:
        asyncio.run(test())
    finally:
        gc.enable()
