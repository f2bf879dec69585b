"""Runs imitated engines as processes, which end with the demo even if it is killed."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from penstock.cli.demo.plan import REPLICAS, DemoPlan
from penstock.cli.exit_codes import CommandFailed

# Named, not imported: `testing` is a layer above `cli`.
_MODULE: Final = "penstock.testing.scripted_engine"
_START_SECONDS: Final = 20.0
_STOP_SECONDS: Final = 5.0
_TOKENS_PER_BLOCK: Final = 16


class _Ready(msgspec.Struct):
    port: int


@contextlib.asynccontextmanager
async def imitated_engines(plan: DemoPlan) -> AsyncIterator[tuple[str, ...]]:
    """Run engines while the block lasts, and yield their addresses."""
    async with contextlib.AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(_engine(plan)) for _ in range(REPLICAS)]
        yield tuple(urls)


@contextlib.asynccontextmanager
async def _engine(plan: DemoPlan) -> AsyncIterator[str]:
    shape = plan.engine
    arguments = {
        "--model": plan.model,
        "--slots": shape.slots,
        "--kv-blocks": shape.kv_tokens // _TOKENS_PER_BLOCK,
        "--prefill-rate": shape.prefill_rate,
        "--interval": shape.token_seconds,
        "--drain-seconds": 0.5,
    }
    words = [str(word) for pair in arguments.items() for word in pair]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", _MODULE, "--port", "0", "--follow-stdin", *words),
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield await _address(process)
    finally:
        await end_process(process, _STOP_SECONDS)


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    line = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_START_SECONDS):
            line = await process.stdout.readline()
    if not line:
        raise CommandFailed("An imitated engine did not start.")
    return f"http://127.0.0.1:{msgspec.json.decode(line, type=_Ready).port}"


async def end_process(process: asyncio.subprocess.Process, grace_seconds: float) -> None:
    """Send SIGTERM, and SIGKILL after the grace; return when the process has ended."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(grace_seconds):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
