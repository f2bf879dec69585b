"""Submits a batch's input file to the queue: each line becomes a job, or is refused alone."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from penstock.clock import new_id
from penstock.contracts.counts import ContractCounts
from penstock.contracts.refusals import log_refusal
from penstock.errors import (
    BodyTooLarge,
    Error,
    InvalidRequest,
    MissingCapability,
    OverLimit,
    QueueFull,
)
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import OpenedRequest
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import RequestRoute, Surface
from penstock.jobs.job_requests import new_job
from penstock.jobs.submission import JobDesk
from penstock.queue.batch_files import FileBatch, FileBatches, RefusedLine
from penstock.queue.batch_output import CANCELLED
from penstock.queue.files import Files, StoredFile
from penstock.records.account import Key
from penstock.records.decision_log import DecisionLog
from penstock.records.job import Door, NewJob, Priority, Submission
from penstock.records.model import Capability, ModelId
from penstock.records.price import Tier
from penstock.records.request import RequestId
from penstock.store import Store
from penstock.wire.resources.batches import InputLine, LineError
from penstock.wire.resources.json_lines import lines_of

_CHAT: Final = RequestRoute(Surface.OPENAI)
_NO_HEADERS: Final = CallerHeaders([])
# Payload bytes that are held before they are submitted, whatever the number of lines.
_CHUNK_BYTES: Final = 8 * 2**20
# How much is read before other tasks of this worker run: bytes, plus `_LINE_WEIGHT` per line.
_TURN_WEIGHT: Final = 128 * 1024
_LINE_WEIGHT: Final = 8 * 1024


class _Id(msgspec.Struct):
    custom_id: str | None = None


_line_decoder = msgspec.json.Decoder(InputLine)
_id_decoder = msgspec.json.Decoder(_Id)


class ReadingRooms(msgspec.Struct, frozen=True):
    """The parts of other rooms that reading a file needs."""

    store: Store
    files: Files
    reader: RequestReader
    desk: JobDesk
    # What contracts changed of the lines.
    contracts: ContractCounts
    decisions: DecisionLog


class _Chunk:
    """Lines that are read and not yet submitted."""

    def __init__(self) -> None:
        self.jobs: dict[ModelId, list[NewJob]] = {}
        self.refused: list[RefusedLine] = []
        self.lines = 0
        self.bytes = 0


class BatchReading:
    """Submits one input file to the queue."""

    def __init__(
        self, rooms: ReadingRooms, settings: IngressSettings, batch: FileBatch, key: Key
    ) -> None:
        self._rooms = rooms
        self._settings = settings
        self._batch = batch
        self._key = key
        self._seen: set[int] = set()
        self._batches = FileBatches()

    async def read(self, file: StoredFile, why_not: LineError | None) -> None:
        """Submit all lines not read before; refuse them all if `why_not` gives a reason.

        Earlier lines are read again only for their `custom_id`.
        """
        chunk = _Chunk()
        async for number, text in self._lines(file):
            custom_id = await self._custom_id(text)
            is_repeated = custom_id is not None and self._is_repeated(custom_id)
            if number < self._batch.lines_read:
                continue
            if why_not is not None:
                line = RefusedLine(number, custom_id, why_not.code, why_not.message, None, 400)
                chunk.refused.append(line)
            else:
                await self._add(chunk, number, text, is_repeated=is_repeated)
            chunk.lines += 1
            if chunk.lines >= self._settings.batch_jobs_at_once or chunk.bytes >= _CHUNK_BYTES:
                if await self._submit(chunk, number + 1):
                    why_not = CANCELLED
                chunk = _Chunk()
        await self._submit(chunk, file.lines)

    async def _lines(self, file: StoredFile) -> AsyncIterator[tuple[int, bytes | None]]:
        pieces = self._rooms.files.content(file)
        weight = 0
        async for line in lines_of(pieces, self._settings.batch_line_bytes_max):
            yield line
            weight += _LINE_WEIGHT + len(line[1] or b"")
            if weight > _TURN_WEIGHT:
                weight = 0
                await asyncio.sleep(0)

    def _is_repeated(self, custom_id: str) -> bool:
        # 50,000 hashes take a few megabytes; two names practically never share one.
        mark = hash(custom_id)
        is_repeated = mark in self._seen
        self._seen.add(mark)
        return is_repeated

    async def _custom_id(self, text: bytes | None) -> str | None:
        return await self._rooms.reader.read_by_size(len(text or b""), lambda _: _custom_id(text))

    async def _add(
        self, chunk: _Chunk, number: int, text: bytes | None, *, is_repeated: bool
    ) -> None:
        try:
            asked, job = await self._rooms.reader.read_by_size(
                len(text or b""),
                lambda reader: self._job(reader, number, text, is_repeated=is_repeated),
            )
        except Error as refused:
            log_refusal(self._rooms.decisions, new_id(), self._key, refused)
            chunk.refused.append(refused_line(number, _custom_id(text), refused))
            return
        self._rooms.contracts.add(asked.contract)
        chunk.jobs.setdefault(asked.model.id, []).append(job)
        chunk.bytes += len(job.payload)

    def _job(
        self, reader: RequestReader, number: int, text: bytes | None, *, is_repeated: bool
    ) -> tuple[OpenedRequest, NewJob]:
        if text is None:
            raise BodyTooLarge(f"Line {number + 1} is too long.")
        line = _read_line(number, text, self._batch.endpoint)
        if is_repeated:
            raise InvalidRequest(
                f"Line {number + 1}: this `custom_id` stood in an earlier line.", param="custom_id"
            )
        asked = reader.open(_CHAT, _NO_HEADERS, self._key, bytes(line.body))
        if not asked.model.has(Capability.ASYNC_QUEUE):
            raise MissingCapability(
                f"{asked.model.id} does not have the capability `{Capability.ASYNC_QUEUE}`.",
                param="model",
            )
        request = reader.read_prompt(RequestId(new_id()), _NO_HEADERS, asked, Tier.BATCH)
        if request.prompt.is_stream:
            raise InvalidRequest("`stream` is not available in a batch.", param="stream")
        return asked, new_job(request, reference=line.custom_id, item=number)

    async def _submit(self, chunk: _Chunk, lines_read: int) -> bool:
        """Submit a chunk's jobs; return whether the batch was cancelled meanwhile."""
        account = self._key.account
        assert account is not None, "checked with the key"
        lease = self._settings.batch_lease_seconds
        async with self._rooms.store.transaction() as tx:
            # A worker whose claim has lapsed must not add jobs to another worker's batch.
            await self._batches.renew(tx, self._batch, lease)
        for model, jobs in chunk.jobs.items():
            submission = Submission(
                account=self._batch.account,
                key=self._batch.key,
                model=model,
                door=Door.BATCHES,
                deadline=self._batch.deadline,
                priority=Priority.BATCH,
                weight=account.flex_weight,
                batch=self._batch.id,
            )
            await self._submit_jobs(submission, jobs)
        async with self._rooms.store.transaction() as tx:
            await self._batches.took(tx, self._batch, lines_read, chunk.refused, lease)
            return await self._batches.is_cancelling(tx, self._batch.id)

    async def _submit_jobs(self, submission: Submission, jobs: Sequence[NewJob]) -> None:
        """Submit all jobs; without room for all, submit as many as fit, then raise."""
        try:
            await self._rooms.desk.submit(submission, jobs)
        except (QueueFull, OverLimit):
            if len(jobs) == 1:
                raise
            middle = len(jobs) // 2
            await self._submit_jobs(submission, jobs[:middle])
            await self._submit_jobs(submission, jobs[middle:])


def refused_line(number: int, custom_id: str | None, why: Error) -> RefusedLine:
    """Return the record of a line that will not run, with the reason."""
    return RefusedLine(number, custom_id, why.code, why.message, why.param, why.status)


def _custom_id(text: bytes | None) -> str | None:
    """Return the line's `custom_id` if it can be decoded, even if the line is invalid."""
    if text is None:
        return None
    try:
        return _id_decoder.decode(text).custom_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _read_line(number: int, text: bytes, endpoint: str) -> InputLine:
    try:
        line = _line_decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as bad:
        raise InvalidRequest(f"Line {number + 1} is not a request: {bad}") from None
    if "\0" in line.custom_id:
        raise InvalidRequest(f"Line {number + 1}: a NUL is not allowed.", param="custom_id")
    if line.method != "POST" or line.url != endpoint:
        raise InvalidRequest(
            f"Line {number + 1}: `method` must be POST and `url` {endpoint}.", param="url"
        )
    return line
