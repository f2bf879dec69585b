"""`/v1/batches`: a file of requests, answered within a day. Each account sees its own only."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.clock import Clock, new_id
from penstock.errors import InvalidRequest, NotFound
from penstock.ingress.pages.file_pages import account_of, key_of, page_limit
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.page_body import read_struct
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.jobs.submission import JobDesk
from penstock.queue import Batches, NewBatch
from penstock.queue.batch_files import FileBatch, FileBatches
from penstock.queue.files import INPUT, Files
from penstock.records.job import BatchId, Door
from penstock.store import Store
from penstock.wire.resources.batches import (
    ENDPOINT,
    BatchErrors,
    BatchList,
    BatchObject,
    BatchStatus,
    CreateBatch,
    RequestCounts,
    batch_of,
    public_id,
)

_WINDOW: Final = "24h"
_WINDOW_SECONDS: Final = 24 * 3600.0
_LIST_DEFAULT: Final = 20
_LIST_MAX: Final = 100


class BatchRooms(msgspec.Struct, frozen=True):
    """The parts of other rooms that the pages use."""

    store: Store
    files: Files
    desk: JobDesk


class BatchPages:
    """Creates, lists, shows and cancels batches of the key's account."""

    def __init__(
        self, reader: RequestReader, rooms: BatchRooms, settings: IngressSettings, clock: Clock
    ) -> None:
        self._reader = reader
        self._is_on = settings.flex
        self._store = rooms.store
        self._files = rooms.files
        self._desk = rooms.desk
        self._now = clock.now
        self._batches = FileBatches()
        self._rows = Batches()

    async def create(self, request: Request) -> Response:
        if not self._is_on:
            raise InvalidRequest("The asynchronous API is not available on this gateway.")
        key = await key_of(self._reader, request)
        assert key.account is not None, "checked with the key"
        asked = _checked(await read_struct(request, CreateBatch))
        file = await self._files.find(key.account.id, asked.input_file_id)
        if file.purpose != INPUT:
            raise InvalidRequest(f"`purpose` of the file is not `{INPUT}`.", param="input_file_id")
        new = NewBatch(
            id=BatchId(new_id()),
            account=key.account.id,
            key=key.id,
            door=Door.BATCHES,
            deadline=self._now() + _WINDOW_SECONDS,
            endpoint=asked.endpoint,
            completion_window=asked.completion_window,
            input_file=file.id,
            metadata=asked.metadata or {},
            is_sealed=False,
            idempotency_key=CallerHeaders(request.scope["headers"]).idempotency_key(),
        )
        kept = asked.output_expires_after
        async with self._store.transaction() as tx:
            opened = await self._rows.open(tx, new)
            if opened == new.id:
                await self._batches.add(tx, new.id, kept.seconds if kept is not None else None)
            batch = await self._batches.find(tx, new.account, opened)
        return json_response(_shown(_there(batch)))

    async def list_batches(self, request: Request) -> Response:
        account = await account_of(self._reader, request)
        limit = page_limit(request.query_params.get("limit"), _LIST_DEFAULT, _LIST_MAX)
        named = request.query_params.get("after")
        after = None if not named else _id_of(named)
        async with self._store.transaction() as tx:
            found = await self._batches.page(tx, account.id, after, limit + 1)
        page = [_shown(batch) for batch in found[:limit]]
        return json_response(
            BatchList(
                data=page,
                first_id=page[0].id if page else None,
                last_id=page[-1].id if page else None,
                has_more=len(found) > limit,
            )
        )

    async def show(self, request: Request) -> Response:
        return json_response(_shown(await self._find(request)))

    async def cancel(self, request: Request) -> Response:
        batch = await self._find(request)
        if batch.outcome is None:
            async with self._store.transaction() as tx:
                await self._batches.cancelling(tx, batch.id)
            await self._desk.cancel_batch(batch.account, batch.id)
        return json_response(_shown(await self._find(request)))

    async def _find(self, request: Request) -> FileBatch:
        account = await account_of(self._reader, request)
        id = _id_of(request.path_params["batch_id"])
        async with self._store.transaction() as tx:
            return _there(await self._batches.find(tx, account.id, id))


def _id_of(public: str) -> BatchId:
    id = batch_of(public)
    if id is None:
        raise NotFound("No such batch.", param="batch_id")
    return BatchId(id)


def _there(batch: FileBatch | None) -> FileBatch:
    if batch is None:
        raise NotFound("No such batch.", param="batch_id")
    return batch


def _checked(asked: CreateBatch) -> CreateBatch:
    if asked.endpoint != ENDPOINT:
        raise InvalidRequest(f"`endpoint` must be {ENDPOINT}.", param="endpoint")
    if asked.completion_window != _WINDOW:
        raise InvalidRequest(f"`completion_window` must be {_WINDOW}.", param="completion_window")
    # Postgres takes no text that has a NUL in it.
    names = [asked.input_file_id, *(f"{k}{v}" for k, v in (asked.metadata or {}).items())]
    if any("\0" in name for name in names):
        raise InvalidRequest("A NUL is not allowed in a name.")
    return asked


def _shown(batch: FileBatch) -> BatchObject:
    ended = {batch.outcome: _seconds(batch.closed_at)} if batch.outcome is not None else {}
    counts = RequestCounts(
        total=batch.jobs + batch.refused,
        completed=batch.succeeded,
        failed=batch.jobs - batch.open_jobs - batch.succeeded + batch.refused,
    )
    return BatchObject(
        id=public_id(batch.id),
        status=batch.status,
        endpoint=batch.endpoint,
        input_file_id=batch.input_file,
        created_at=int(batch.created_at),
        expires_at=int(batch.deadline),
        request_counts=counts,
        metadata=batch.metadata or None,
        errors=BatchErrors(list(batch.errors)) if batch.errors else None,
        output_file_id=batch.output_file,
        error_file_id=batch.error_file,
        in_progress_at=_seconds(batch.in_progress_at),
        finalizing_at=_seconds(batch.finalizing_at),
        completed_at=ended.get(BatchStatus.COMPLETED),
        failed_at=ended.get(BatchStatus.FAILED),
        expired_at=ended.get(BatchStatus.EXPIRED),
        cancelling_at=_seconds(batch.cancelling_at),
        cancelled_at=ended.get(BatchStatus.CANCELLED),
    )


def _seconds(at: float | None) -> int | None:
    return None if at is None else int(at)
