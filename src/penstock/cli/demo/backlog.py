"""Queues the flex backlog in one call, and counts its jobs while it shrinks."""

import asyncio
from typing import Final

import msgspec

from penstock.cli.bench.load import text_of
from penstock.cli.demo.cell import DemoCell
from penstock.cli.demo.plan import JobShape
from penstock.cli.exit_codes import CommandFailed
from penstock.cli.http_call import HttpCaller
from penstock.errors import ReplicaUnreachable
from penstock.records.job import JobState

_EVERY_SECONDS: Final = 0.5
_JOBS_MAX: Final = 1000


class _Usage(msgspec.Struct):
    total_tokens: int


class _Job(msgspec.Struct):
    state: JobState
    cost_nanousd: int
    usage: _Usage | None = None


class _Jobs(msgspec.Struct):
    data: list[_Job]


class BacklogNow(msgspec.Struct, frozen=True):
    """The progress of the backlog."""

    total: int = 0
    done: int = 0
    running: int = 0
    tokens: int = 0
    cost_nanousd: int = 0


class DemoBacklog:
    """The demo's jobs. `now` is the progress that was read last."""

    def __init__(self, cell: DemoCell, shape: JobShape) -> None:
        assert shape.count <= _JOBS_MAX, "they are counted off one page"
        self._cell = cell
        self._shape = shape
        self._caller = HttpCaller(api_keys={"*": cell.key})
        self.now = BacklogNow()

    async def submit(self) -> None:
        """Queue all jobs in one call, by Workers AI's asynchronous API."""
        shape = self._shape
        shared = {"role": "system", "content": text_of(shape.shared_tokens, "jobs")}
        requests = [
            {
                "messages": [shared, {"role": "user", "content": text_of(shape.own_tokens, place)}],
                "max_tokens": shape.output_tokens,
                "ignore_eos": True,
            }
            for place in range(shape.count)
        ]
        path = f"/client/v4/accounts/{self._cell.account}/ai/run/{self._cell.model}"
        answer = await asyncio.to_thread(
            self._caller.post,
            self._cell.base_url,
            f"{path}?queueRequest=true",
            msgspec.json.encode({"requests": requests}),
        )
        if answer.status not in {200, 202}:
            raise CommandFailed(f"The backlog was refused with status {answer.status}.")
        self.now = BacklogNow(total=shape.count)

    async def watch(self) -> None:
        """Read the progress until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_SECONDS)

    async def look(self) -> None:
        if not self.now.total:
            return
        try:
            answer = await asyncio.to_thread(
                self._caller.get, self._cell.base_url, f"/v1/jobs?limit={_JOBS_MAX}"
            )
            jobs = msgspec.json.decode(answer.body, type=_Jobs).data
        except (ReplicaUnreachable, msgspec.DecodeError):
            return
        done = [job for job in jobs if job.state is JobState.SUCCEEDED]
        self.now = BacklogNow(
            total=self._shape.count,
            done=len(done),
            running=sum(job.state is JobState.RUNNING for job in jobs),
            tokens=sum(job.usage.total_tokens for job in done if job.usage is not None),
            cost_nanousd=sum(job.cost_nanousd for job in done),
        )
