"""Provider of servers that already run: it lists them, but never starts or stops them.

It only writes a state file, so that a restarted keeper lists the server under its old id.
"""

import asyncio

import msgspec

from penstock.fleet.intent import Phase, Want
from penstock.fleet.providers import SeenProcess
from penstock.fleet.replica_files import ReplicaFile, StateFolder
from penstock.records.replica import ReplicaId

NAME = "attach"


class AttachProvider:
    """Reports every attached server as alive until it is let go; health checks do the rest."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder

    async def observe(self) -> tuple[SeenProcess, ...]:
        files = await asyncio.to_thread(self._folder.read_all)
        return tuple(
            SeenProcess(file.id, file.want, file.model, file.generation, file.url, _phase(file))
            for file in files
            if file.provider == NAME
        )

    async def start(self, replica: ReplicaId, want: Want, gpus: tuple[str, ...] = ()) -> None:
        assert not gpus, "an attached server has taken its own"
        await asyncio.to_thread(self._begin, replica, want)

    async def stop(self, replica: ReplicaId) -> None:
        await asyncio.to_thread(self._end, replica)

    def _begin(self, replica: ReplicaId, want: Want) -> None:
        if self._folder.read(replica) is None:
            self._folder.write(
                ReplicaFile(
                    id=replica, provider=NAME, want=want.name, model=want.model, url=want.url
                )
            )

    def _end(self, replica: ReplicaId) -> None:
        file = self._folder.read(replica)
        if file is not None and file.exit_code is None:
            # The keeper stops listing the server, which keeps running and is not notified.
            self._folder.write(msgspec.structs.replace(file, exit_code=0))


def _phase(file: ReplicaFile) -> Phase:
    return Phase.ALIVE if file.exit_code is None else Phase.ENDED
