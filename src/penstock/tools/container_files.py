"""Keeps copies of containers' files, encrypted, as objects. The only writer of `container_files`.

A copy can be read from any gateway, also after its container has ended. What code wrote and what
its caller uploaded are kept alike.
"""

from collections.abc import AsyncIterator
from typing import Final

from penstock.clock import new_id
from penstock.errors import BodyTooLarge, NotFound, QuotaSpent
from penstock.records.account import AccountId
from penstock.store import Objects, Store, Transaction
from penstock.store.pool import Row
from penstock.tools.container_ids import ContainerFileId, ContainerId
from penstock.tools.container_queries import (
    SQL,
    AccountContainer,
    ContainerFile,
    FileSource,
    file_from,
)
from penstock.tools.settings import ToolsSettings

_AT_ONCE: Final = 200


class ContainerFiles:
    """Writes, lists, reads and deletes copies; every statement names the account."""

    def __init__(self, store: Store, objects: Objects, settings: ToolsSettings) -> None:
        self._store = store
        self._objects = objects
        self._settings = settings

    async def check_room(self, container: AccountContainer, path: str, size: int) -> None:
        """Refuse a file that is too large, or too much for its container or account."""
        async with self._store.statement() as statement:
            await self._check_room(statement, container, path, size)

    async def keep(
        self, container: AccountContainer, path: str, content: bytes, source: FileSource
    ) -> ContainerFile:
        """Keep a copy of a file, in place of an earlier one with the same path."""
        id = new_id()
        name = f"{container.account}/{id}/content"
        await self._objects.put(name, content)
        try:
            file, old = await self._write(container, path, (id, name, len(content), source))
        except BaseException:
            await self._objects.delete([name])
            raise
        if old:
            await self._objects.delete([old])
        return file

    async def find(
        self, account: AccountId, container: ContainerId, id: ContainerFileId
    ) -> ContainerFile:
        """Return a file; NotFound alike if it never was, is gone or another account's."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one(SQL["find_file"], (id, container, account))
        if row is None:
            raise no_such_file()
        return file_from(row)

    async def page(
        self,
        container: AccountContainer,
        limit: int,
        after: ContainerFileId | None,
        *,
        is_oldest_first: bool,
    ) -> list[ContainerFile]:
        """Return some files of a container, those after the file `after`."""
        query = SQL["files" if is_oldest_first else "files_newest_first"]
        facts = (container.id, container.account, after, after, limit)
        async with self._store.statement() as statement:
            rows = await statement.fetch(query, facts)
        return [file_from(row) for row in rows]

    def content(self, file: ContainerFile) -> AsyncIterator[bytes]:
        """Yield a file's content."""
        return self._objects.stream(file.object)

    async def delete(self, file: ContainerFile) -> None:
        await self._drop([(file.id, file.object)])

    async def delete_all_of(self, container: ContainerId) -> None:
        """Delete all copies of a container that was found by its account."""
        while rows := await self._fetch("files_of", (container, _AT_ONCE)):
            await self._drop([(row[0], row[1]) for row in rows])

    async def forget(self, account: AccountId) -> None:
        """Delete all copies of an account."""
        while rows := await self._fetch("files_of_account", (account, _AT_ONCE)):
            await self._drop([(row[0], row[1]) for row in rows])

    async def drop_expired(self) -> int:
        """Delete some of the expired copies; return how many."""
        rows = await self._fetch("expired_files", (_AT_ONCE,))
        await self._drop([(row[0], row[1]) for row in rows])
        return len(rows)

    async def _write(
        self, container: AccountContainer, path: str, new: tuple[str, str, int, FileSource]
    ) -> tuple[ContainerFile, str]:
        """Write a file's row; return it, and the object that it had before."""
        id, name, size, source = new
        kept_seconds = self._settings.container_files_kept_seconds
        async with self._store.transaction() as tx:
            # Files of one container are counted one after the other.
            if not await tx.fetch(SQL["lock_files"], (container.id, container.account)):
                raise NotFound("There is no such container.")
            await self._check_room(tx, container, path, size)
            old = await tx.fetch_one(SQL["old_object"], (container.id, path))
            facts = (id, path, size, source, name, kept_seconds, container.id)
            row = await tx.fetch_one(SQL["put_file"], facts)
        assert row is not None, "its container is locked"
        return file_from(row), old[0] if old else ""

    async def _check_room(
        self, tx: Transaction, container: AccountContainer, path: str, size: int
    ) -> None:
        settings = self._settings
        facts = (*(container.id, path) * 3, container.account)
        row = await tx.fetch_one(SQL["files_size"], facts)
        assert row is not None, "sums are one row"
        in_container, count, in_account = row
        if in_container + size > settings.artifact_bytes_max:
            raise BodyTooLarge(
                f"A container keeps at most {settings.artifact_bytes_max} bytes of files.",
                param="file",
            )
        if count >= settings.files_per_container_max:
            raise BodyTooLarge(
                f"A container keeps at most {settings.files_per_container_max} files.", param="file"
            )
        if in_account + size > settings.container_bytes_per_account_max:
            raise QuotaSpent("The account keeps as much in files of containers as it may.")

    async def _fetch(self, query: str, facts: tuple[object, ...]) -> list[Row]:
        async with self._store.statement() as statement:
            return await statement.fetch(SQL[query], facts)

    async def _drop(self, files: list[tuple[str, str]]) -> None:
        """Delete objects, then rows: if an object cannot be deleted now, its row still names it."""
        if not files:
            return
        await self._objects.delete([object for _, object in files])
        async with self._store.statement() as statement:
            await statement.execute(
                SQL["delete_files"], ([id for id, _ in files], [object for _, object in files])
            )


def no_such_file() -> NotFound:
    """Return the one answer for a file that is not there, or is another account's."""
    return NotFound("There is no such file.", param="file_id")
