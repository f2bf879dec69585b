"""A program for a network namespace of its own: asks a host that vanishes, and prints how long
that took to be noticed.

It takes the only network down, so a test runs it by `unshare --net`.
"""

import asyncio
import subprocess
import time

import uvloop

from penstock.outbound.target import Target
from penstock.tools.host_exchange import FAILURES, HostRequest, exchange

_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\na\n\r\n"
_PORT = 8000


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(_HEAD)
    await asyncio.sleep(60)


def _network(state: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


async def _measure() -> float:
    server = await asyncio.start_server(_serve, "127.0.0.1", _PORT)
    target = Target("127.0.0.1", _PORT, is_tls=False, authority="host", path="/")
    request = HostRequest(method="GET", path="/", seconds=30.0)
    async with server, exchange(target, "", None, request) as answer:
        lines = answer.lines(100, 1000)
        assert await anext(lines) == b"a"
        # A host that says nothing for a while is there: the kernel answers for it.
        await asyncio.sleep(3)
        _network("down")
        began = time.monotonic()
        try:
            await anext(lines)
        except FAILURES:
            return time.monotonic() - began
    raise AssertionError("a host that is gone has answered")


def main() -> None:
    _network("up")
    uvloop.install()
    # Flushed, and the rest of the loop not waited for: its network is gone.
    print(asyncio.run(_measure()), flush=True)


if __name__ == "__main__":
    main()
