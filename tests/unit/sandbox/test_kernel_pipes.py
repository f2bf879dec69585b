"""The two pipes of a container: what the host holds of them, and how they end."""

import asyncio
import os

import pytest

from penstock.sandbox.kernel_pipes import open_kernel_pipes


async def test_little_is_held_of_a_kernel_to_which_nobody_listens() -> None:
    async with open_kernel_pipes() as (host, kernel):
        os.set_blocking(kernel.events, False)
        taken = 0
        for _ in range(200):
            try:
                taken += os.write(kernel.events, b"x" * 65536)
            except BlockingIOError:
                await asyncio.sleep(0.001)
        assert taken < 2**20
        assert await host.reader.readexactly(taken) == b"x" * taken
    await host.close()


async def test_close_ends_a_waiting_reader_and_drops_what_nobody_reads() -> None:
    async with open_kernel_pipes() as (host, kernel):
        host.requests.write(b"x" * 2**20)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(host.reader.read())
            await asyncio.sleep(0)
            await host.close()
        assert waiting.result() == b""
        with pytest.raises(BrokenPipeError):
            os.write(kernel.events, b"x")
    # A second end finds nothing to do.
    await host.close()


async def test_an_error_closes_both_ends() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_kernel_pipes() as (host, kernel):
            raise ZeroDivisionError
    assert host.requests.is_closing()
    for descriptor in (kernel.requests, kernel.events):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


async def test_a_kernel_that_ends_is_seen_by_the_reader() -> None:
    async with open_kernel_pipes() as (host, _):
        pass
    assert await host.reader.read() == b""
    await host.close()
