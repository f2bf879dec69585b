"""The parts of one engine over several hosts, which find and lose each other as vLLM's do.

As seen of vLLM 0.32: the first part serves when all others have joined it. When one of them is
killed, the first stays healthy until a request fails and ends it; when the first is killed, the
others stay.
"""

import asyncio
from typing import Final

from penstock.testing.scripted_engine.engine_options import EngineOptions

_RETRY_SECONDS: Final = 0.05


class EngineParts:
    """One part's connections to the others, which it keeps open."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._joined: dict[int, asyncio.StreamWriter] = {}
        self._all_here = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.is_broken = False

    async def join(self) -> None:
        """Return when the parts have found each other."""
        options = self._options
        if options.nodes == 1:
            return
        if options.node_rank == 0:
            self._server = await asyncio.start_server(
                self._welcome, options.master_address, options.master_port
            )
            await self._all_here.wait()
            return
        while True:
            try:
                _, writer = await asyncio.open_connection(
                    options.master_address, options.master_port
                )
            except OSError:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            writer.write(b"%d\n" % options.node_rank)
            self._joined[0] = writer
            return

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rank = int(await reader.readline())
        self._joined[rank] = writer
        if len(self._joined) == self._options.nodes - 1:
            self._all_here.set()
        await reader.read()
        self.is_broken = True
