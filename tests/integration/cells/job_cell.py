"""The desk with all that is behind it on one database, and pullers that need no engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.integration.cells.cell_key import key_file, sealed_objects
from tests.integration.cells.job_attempts import FLEX_PRICE
from tests.integration.cells.limits_cell import KEY, MODEL, SETTINGS
from tests.integration.cells.metering_lines import Worker

from penstock import queue
from penstock.app.job_rooms import background_responses
from penstock.clock import SystemClock, new_id, timestamp_of
from penstock.config import Config
from penstock.jobs.job_requests import new_job, to_request
from penstock.jobs.submission import DeskRooms, JobDesk
from penstock.metering import Ledger, Metering
from penstock.puller.complete import CompletionRooms, JobCompletion, complete
from penstock.queue import Batches, Claim, Finished, Queue, Submitted
from penstock.records.account import AccountId
from penstock.records.job import ClaimedJob, Door, JobFailure, JobId, NewJob, Submission
from penstock.records.price import Tier
from penstock.records.request import ChargedBy, InferenceRequest, Outcome, RequestEnd, RequestId
from penstock.records.usage import Usage
from penstock.serving.settings import ServingSettings
from penstock.store import Store, StoreSettings
from penstock.store.kept_values import KeptValues
from penstock.testing.sample_request import sample_request

ANSWER = b'{"choices":[]}'
USED = Usage(100, 50, 20)
FAILURE = JobFailure("engine_failed", "Model execution failed.", 502)
BODY = {
    "messages": msgspec.Raw(b'[{"role":"user","content":"hi"}]'),
    "stream": msgspec.Raw(b"true"),
    "stream_options": msgspec.Raw(b'{"include_usage":true}'),
    "temperature": msgspec.Raw(b"0.5"),
}


def flex_request(account: AccountId, *, text: str = "hi", **facts: Any) -> InferenceRequest:
    """A request for the flex tier that may use 1,000 tokens of prompt and 200 of output."""
    id = new_id()
    messages = msgspec.Raw(msgspec.json.encode([{"role": "user", "content": text}]))
    given = {
        "price": FLEX_PRICE, "tier": Tier.FLEX, "charged_by": ChargedBy.COMPLETION,
        "prompt_tokens_estimate": 1000,
        "output_tokens_max": 200, "body": {**BODY, "messages": messages}, **facts,
    }  # fmt: skip
    return sample_request(
        id=RequestId(id),
        account=account,
        key=KEY,
        model=MODEL,
        is_stream=True,
        cache_salt="",
        asked_at=timestamp_of(id),
        **given,
    )


class JobCell:
    """One desk, one ledger, one keeper's journal."""

    def __init__(self, store: Store, folder: Path, **bounds: Any) -> None:
        self.store = store
        settings = StoreSettings(
            objects_url=f"file:{folder / 'objects'}", cell_key_file=key_file(folder)
        )
        self.objects = sealed_objects(store, settings)
        self.queue = Queue(queue.QueueSettings(**bounds))
        values = KeptValues(self.objects, ServingSettings(objects_above_bytes=1000))
        self.batches = Batches()
        rooms = DeskRooms(store, self.queue, self.batches, values)
        self.desk = JobDesk(rooms, SETTINGS, SystemClock())
        self.rooms = CompletionRooms(
            store,
            self.queue,
            Ledger(store, 10),
            values,
            background_responses(rooms, Config(), SystemClock()),
        )
        self.worker = Worker(store, folder / "journal")
        self.metering = Metering(self.worker.journal, SystemClock())
        self.folder = folder / "objects"

    def objects_kept(self) -> list[str]:
        kept = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.folder)) for path in kept)

    async def submit(
        self, account: AccountId, *jobs: NewJob, seconds: float = 3600, **facts: Any
    ) -> Submitted:
        deadline = SystemClock().now() + seconds
        submission = Submission(account, KEY, MODEL.id, Door.CHAT, deadline, **facts)
        return await self.desk.submit(submission, jobs)

    async def submit_one(self, account: AccountId, **facts: Any) -> JobId:
        submitted = await self.submit(account, new_job(flex_request(account, **facts)))
        return submitted.ids[0]

    async def claim(self, count: int = 1, lease_seconds: float = 60) -> list[ClaimedJob]:
        async with self.store.transaction() as transaction:
            claim = Claim(MODEL.id, count, "keeper", lease_seconds)
            return await self.queue.claim(transaction, claim)

    async def claim_lapsed(self, count: int = 1) -> list[ClaimedJob]:
        """Jobs whose lease is over by now, and which the sweep has queued again."""
        claimed = await self.claim(count, lease_seconds=0.001)
        left = len(claimed)
        while left:
            left -= (await self.desk.sweep()).requeued
        return claimed

    async def run(self, job: ClaimedJob, usage: Usage | None = USED) -> RequestEnd:
        """What the path does with a job, as far as money is concerned."""
        request = to_request(job, MODEL, "salt", await self.desk.payload_of(job))
        end = RequestEnd(replica="r1", usage=usage)
        meter = self.metering.open(request, end, ())
        end.attempts += 1
        meter.close(Outcome.OK, usage=usage, is_owed=True)
        assert meter.charge_nanousd == 0
        return end

    async def succeed(
        self, *jobs: ClaimedJob, result: bytes = ANSWER, usage: Usage | None = USED
    ) -> Finished:
        done = [JobCompletion(job, await self.run(job, usage), result) for job in jobs]
        return await self.complete(done)

    async def fail(self, *jobs: ClaimedJob) -> Finished:
        done = [JobCompletion(job, await self.run(job), failure=FAILURE) for job in jobs]
        return await self.complete(done)

    async def complete(self, completions: Sequence[JobCompletion]) -> Finished:
        return await complete(self.rooms, completions)

    async def drain(self) -> None:
        await self.worker.drain.empty()
