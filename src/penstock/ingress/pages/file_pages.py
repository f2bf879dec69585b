"""`/v1/files`: uploads batch inputs, downloads batch outputs. Each account sees its own only."""

from collections.abc import AsyncIterator
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.admission import ConcurrencySlots
from penstock.errors import (
    AccountBlocked,
    BodyTooLarge,
    Forbidden,
    InvalidRequest,
)
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.page_body import body_pieces, with_first
from penstock.ingress.pages.upload_form import UploadForm
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.queue.files import UPLOADED, FileQuery, Files, StoredFile
from penstock.records.account import Account, Key
from penstock.wire.resources.batches import ExpiresAfter, FileDeleted, FileList, FileObject

# What a form may have besides the file: boundaries, headers, fields.
FORM_BYTES_MAX: Final = 2**17
_LIST_MAX: Final = 10_000
DAY_SECONDS: Final = 86_400


class FilePages:
    """Creates, lists, shows, downloads and deletes files of the key's account."""

    def __init__(self, reader: RequestReader, files: Files, settings: IngressSettings) -> None:
        self._reader = reader
        self._files = files
        self._settings = settings
        self._uploads = ConcurrencySlots(
            "files coming in", settings.uploads_max, settings.uploads_per_account_max
        )

    async def create(self, request: Request) -> Response:
        account = await account_of(self._reader, request)
        if _content_length(request) > self._settings.file_bytes_max + FORM_BYTES_MAX:
            raise BodyTooLarge(f"The file is over {self._settings.file_bytes_max} bytes.")
        form = UploadForm(
            request.headers.get("content-type", "").encode("latin-1"),
            body_pieces(request),
            self._settings.file_bytes_max,
        )
        with self._uploads.take(account.id):
            filename = await form.begin()
            received = await self._files.receive(account.id, filename, _with_purpose(form))
            keep_seconds, purpose = self._keep_seconds(form.fields), form.fields["purpose"]
            file = await self._files.accept(received, keep_seconds, purpose)
        return json_response(_shown(file))

    async def list_files(self, request: Request) -> Response:
        account = await account_of(self._reader, request)
        asked = request.query_params
        limit = page_limit(asked.get("limit"), _LIST_MAX, _LIST_MAX)
        order = asked.get("order", "desc")
        if order not in ("asc", "desc"):
            raise InvalidRequest("`order` is `asc` or `desc`.", param="order")
        query = FileQuery(
            account.id,
            limit + 1,
            after=plain_name(asked.get("after", "")),
            purpose=plain_name(asked.get("purpose", "")),
            is_oldest_first=order == "asc",
        )
        found = [_shown(file) for file in await self._files.list_files(query)]
        page = found[:limit]
        return json_response(
            FileList(
                data=page,
                first_id=page[0].id if page else None,
                last_id=page[-1].id if page else None,
                has_more=len(found) > limit,
            )
        )

    async def show(self, request: Request) -> Response:
        return json_response(_shown(await self._file(request)))

    async def content(self, request: Request) -> Response:
        file = await self._file(request)
        pieces = self._files.content(file)
        # The first piece is fetched before the answer begins, so that its failure is an error.
        first = await anext(pieces, b"")
        return StreamingResponse(
            with_first(first, pieces),
            media_type="application/octet-stream",
            headers={"content-length": str(file.bytes)},
        )

    async def delete(self, request: Request) -> Response:
        file = await self._file(request)
        await self._files.delete(file.account, file.id)
        return json_response(FileDeleted(id=file.id))

    async def _file(self, request: Request) -> StoredFile:
        account = await account_of(self._reader, request)
        return await self._files.find(account.id, plain_name(request.path_params["file_id"]))

    def _keep_seconds(self, fields: dict[str, str]) -> float:
        seconds = fields.get("expires_after[seconds]")
        if seconds is None:
            return float(self._settings.files_keep_days * DAY_SECONDS)
        anchor = fields.get("expires_after[anchor]", "created_at")
        asked = {"seconds": seconds, "anchor": anchor}
        try:
            return float(msgspec.convert(asked, ExpiresAfter, strict=False).seconds)
        except msgspec.ValidationError as bad:
            raise InvalidRequest(f"`expires_after`: {bad}", param="expires_after") from None


async def key_of(reader: RequestReader, request: Request) -> Key:
    """Return the caller's key, which must belong to an account that is not blocked."""
    key = await reader.authenticate(CallerHeaders(request.scope["headers"]))
    if key.account is None:
        raise Forbidden("An operator's key has nothing of its own here: use an account's key.")
    if key.account.is_blocked:
        raise AccountBlocked
    return key


async def account_of(reader: RequestReader, request: Request) -> Account:
    """Return the account of the caller's key; it must be the path's, if that names one."""
    key = await key_of(reader, request)
    assert key.account is not None, "checked with the key"
    if request.path_params.get("account_id", key.account.id) != key.account.id:
        raise Forbidden("The account in the path is not this key's account.")
    return key.account


def page_limit(text: str | None, default: int, most: int) -> int:
    """Return how many rows a list shows."""
    if text is None:
        return default
    is_number = text.isascii() and text.isdigit() and len(text) <= 7
    if not is_number or not 1 <= int(text) <= most:
        raise InvalidRequest(f"`limit` must be a whole number from 1 to {most}.", param="limit")
    return int(text)


def plain_name(text: str) -> str:
    """Return a caller's id or label, or "?" if unprintable: Postgres accepts no NUL in text."""
    return text[:128] if text.isprintable() else "?"


async def _with_purpose(form: UploadForm) -> AsyncIterator[bytes]:
    """Yield the file; refuse an unknown purpose, at once if `purpose` came before the file."""
    if "purpose" in form.fields:
        _check_purpose(form.fields)
    async for chunk in form.file():
        yield chunk
    _check_purpose(form.fields)


def _check_purpose(fields: dict[str, str]) -> None:
    if fields.get("purpose") not in UPLOADED:
        names = ", ".join(f"`{name}`" for name in UPLOADED)
        raise InvalidRequest(f"`purpose` must be one of {names}.", param="purpose")


def _content_length(request: Request) -> int:
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _shown(file: StoredFile) -> FileObject:
    return FileObject(
        id=file.id,
        bytes=file.bytes,
        created_at=int(file.created_at),
        expires_at=int(file.expires_at),
        filename=file.filename,
        purpose=file.purpose,
    )
