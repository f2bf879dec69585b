"""`/v1/containers/{id}/files`: files that callers put into containers, and files that code made.

What is shown and read is the copy that is kept, so it can be read from any gateway, and for a while
after the container has ended.
"""

from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from penstock.admission import ConcurrencySlots
from penstock.errors import BodyTooLarge, InvalidRequest
from penstock.ingress.pages.file_pages import account_of, plain_name
from penstock.ingress.pages.item_lists import page_asked
from penstock.ingress.pages.json_pages import json_response
from penstock.ingress.pages.page_body import body_pieces, read_struct, with_first
from penstock.ingress.pages.upload_form import UploadForm
from penstock.intake.request_reader import RequestReader
from penstock.queue.files import Files, StoredFile
from penstock.records.account import AccountId
from penstock.tools import AccountContainer, ContainerBook, ContainerFile, ContainerId
from penstock.tools.container_book import no_such_container
from penstock.tools.container_files import no_such_file
from penstock.tools.container_ids import (
    DATA_FOLDER,
    path_of_upload,
    read_container_id,
    read_file_id,
    shown_container,
    shown_file,
)
from penstock.wire.resources.containers import (
    AddContainerFile,
    ContainerFileDeleted,
    ContainerFileList,
    ContainerFileObject,
)

# Files on their way into containers are held in memory.
_AT_ONCE_MAX: Final = 4
_AT_ONCE_PER_ACCOUNT_MAX: Final = 2
_FORM: Final = "multipart/form-data"


class ContainerFilePages:
    """Uploads, lists, shows, downloads and deletes files of the account's containers."""

    def __init__(
        self, reader: RequestReader, book: ContainerBook, files: Files, file_bytes_max: int
    ) -> None:
        self._reader = reader
        self._book = book
        self._uploaded = files
        self._bytes_max = file_bytes_max
        self._slots = ConcurrencySlots(
            "files going into containers", _AT_ONCE_MAX, _AT_ONCE_PER_ACCOUNT_MAX
        )

    def routes(self, container: str) -> list[Route]:
        """Return the routes under a container's path."""
        every, one = f"{container}/files", f"{container}/files/{{file_id}}"
        return [
            Route(every, self.create, methods=["POST"]),
            Route(every, self.list_files),
            Route(one, self.show),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/content", self.content),
        ]

    async def find_given(self, account: AccountId, id: str) -> StoredFile:
        """Return a file of `/v1/files` that fits into a container."""
        file = await self._uploaded.find(account, plain_name(id))
        if file.bytes > self._bytes_max:
            raise BodyTooLarge(
                f"A file of a container has at most {self._bytes_max} bytes.", param="file_id"
            )
        return file

    async def put(self, container: AccountContainer, file_id: str) -> ContainerFile:
        """Copy the file of `/v1/files` with this id into a container."""
        return await self.put_given(container, await self.find_given(container.account, file_id))

    async def put_given(self, container: AccountContainer, file: StoredFile) -> ContainerFile:
        """Copy a file of `/v1/files` into a container."""
        with self._slots.take(container.account):
            content = await self._gathered(self._uploaded.content(file))
            return await self._book.put_file(container, _path(file.filename), content)

    async def create(self, request: Request) -> Response:
        account, id = await asked_container(self._reader, request)
        container = await self._book.find(account, id)
        if not request.headers.get("content-type", "").startswith(_FORM):
            asked = await read_struct(request, AddContainerFile)
            given = await self.find_given(account, asked.file_id)
            return json_response(_shown(await self.put_given(container, given)))
        form = UploadForm(
            request.headers["content-type"].encode("latin-1"), body_pieces(request), self._bytes_max
        )
        with self._slots.take(account):
            try:
                path = _path(await form.begin())
            except InvalidRequest:
                # SDKs send a form also where it has only the id of a file.
                if form.filename is not None or "file_id" not in form.fields:
                    raise
                path = None
            if path is not None:
                content = await self._gathered(form.file())
                return json_response(_shown(await self._book.put_file(container, path, content)))
        given = await self.find_given(account, form.fields["file_id"])
        return json_response(_shown(await self.put_given(container, given)))

    async def list_files(self, request: Request) -> Response:
        account, id = await asked_container(self._reader, request)
        container = await self._book.known(account, id)
        asked = page_asked(request.query_params)
        after = None if asked.after is None else read_file_id(asked.after)
        if asked.after is not None and after is None:
            raise InvalidRequest("`after` names no file of this list.", param="after")
        files = await self._book.files.page(
            container, asked.limit + 1, after, is_oldest_first=asked.is_oldest_first
        )
        found = [_shown(file) for file in files]
        page = found[: asked.limit]
        return json_response(
            ContainerFileList(
                data=page,
                first_id=page[0].id if page else None,
                last_id=page[-1].id if page else None,
                has_more=len(found) > asked.limit,
            )
        )

    async def show(self, request: Request) -> Response:
        return json_response(_shown(await self._file(request)))

    async def content(self, request: Request) -> Response:
        file = await self._file(request)
        pieces = self._book.files.content(file)
        # The first piece is fetched before the answer begins, so that its failure is an error.
        first = await anext(pieces, b"")
        return StreamingResponse(
            with_first(first, pieces),
            media_type="application/octet-stream",
            headers={"content-length": str(file.bytes)},
        )

    async def delete(self, request: Request) -> Response:
        file = await self._file(request)
        await self._book.delete_file(file)
        return json_response(ContainerFileDeleted(shown_file(file.id)))

    async def _file(self, request: Request) -> ContainerFile:
        account, id = await asked_container(self._reader, request)
        await self._book.known(account, id)
        file = read_file_id(request.path_params["file_id"])
        if file is None:
            raise no_such_file()
        return await self._book.files.find(account, id, file)

    async def _gathered(self, chunks: AsyncIterator[bytes]) -> bytes:
        content = bytearray()
        async for chunk in chunks:
            content += chunk
            if len(content) > self._bytes_max:
                raise BodyTooLarge(f"The file is over {self._bytes_max} bytes.", param="file")
        return bytes(content)


async def asked_container(reader: RequestReader, request: Request) -> tuple[AccountId, ContainerId]:
    """Return whose container is asked for; an id that cannot be ours is unknown alike."""
    account = await account_of(reader, request)
    id = read_container_id(request.path_params["container_id"])
    if id is None:
        raise no_such_container()
    return account.id, id


def _path(filename: str) -> str:
    path = path_of_upload(filename)
    if path is None:
        raise InvalidRequest("The file has no name that it could have there.", param="file")
    return path


def _shown(file: ContainerFile) -> ContainerFileObject:
    return ContainerFileObject(
        id=shown_file(file.id),
        container_id=shown_container(file.container),
        created_at=int(file.created_at),
        bytes=file.bytes,
        path=f"{DATA_FOLDER}/{file.path}",
        source=file.source,
    )
