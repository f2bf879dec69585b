"""Files that accounts upload, and files of batch output. The only writer of the table `files`.

Guarantees: a file is listed only once it is complete; an upload has a row before its object; an
account sees only its own files. Of a file's content, this module only counts line ends.
"""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from penstock.clock import Clock, new_id
from penstock.errors import NotFound, StoreUnavailable
from penstock.records.account import AccountId
from penstock.store import Objects, Store, Transaction

INPUT: Final = "batch"
# What callers upload: requests of a batch, and files for containers.
UPLOADED: Final = (INPUT, "user_data", "assistants")
OUTPUT: Final = "batch_output"

# Longer than the slowest upload; an upload that is incomplete by then is deleted.
_UPLOAD_SECONDS: Final = 24 * 3600.0
_DROPPED_AT_ONCE: Final = 500
_COLUMNS: Final = (
    "id, account, purpose, filename, object, bytes, lines,"
    " extract(epoch from created_at)::float8, extract(epoch from expires_at)::float8"
)


class StoredFile(msgspec.Struct, frozen=True):
    """One file. Times are in seconds since 1970."""

    id: str
    account: AccountId
    purpose: str
    filename: str
    object: str
    bytes: int
    lines: int
    created_at: float
    expires_at: float


class FileQuery(msgspec.Struct, frozen=True):
    """Which files to list: those after the file `after`; newest first by default."""

    account: AccountId
    limit: int
    after: str = ""
    purpose: str = ""
    is_oldest_first: bool = False


class Received(msgspec.Struct, frozen=True):
    """A completely uploaded file that is not listed yet."""

    id: str
    account: AccountId
    bytes: int
    lines: int


class Files:
    """Stores, lists and deletes files: a row in Postgres and an object for each."""

    def __init__(self, store: Store, objects: Objects, clock: Clock) -> None:
        self._store = store
        self._objects = objects
        self._now = clock.now

    async def receive(
        self, account: AccountId, filename: str, chunks: AsyncIterator[bytes]
    ) -> Received:
        """Store an upload as it streams in. If `chunks` raises, the file is removed again."""
        file = StoredFile(
            id=f"file-{new_id().replace('-', '')}",
            account=account,
            purpose=INPUT,
            filename=filename,
            object="",
            bytes=0,
            lines=0,
            created_at=self._now(),
            expires_at=self._now() + _UPLOAD_SECONDS,
        )
        async with self._store.transaction() as tx:
            await add_row(tx, file, is_ready=False)
        counted = LineCount(chunks)
        try:
            size = await self._objects.put_stream(object_name(account, file.id), counted.chunks())
        except Exception:
            # If Postgres is unreachable now, the row is deleted when it expires.
            with contextlib.suppress(StoreUnavailable):
                async with self._store.transaction() as tx:
                    await tx.execute("delete from files where id = %s", (file.id,))
            raise
        return Received(file.id, account, size, counted.lines)

    async def accept(
        self, received: Received, keep_seconds: float, purpose: str = INPUT
    ) -> StoredFile:
        """Make a received file visible to its account for `keep_seconds`."""
        until = _time(self._now() + keep_seconds)
        async with self._store.transaction() as tx:
            await tx.execute(
                "update files set is_ready = true, bytes = %s, lines = %s, expires_at = %s,"
                " purpose = %s where id = %s",
                (received.bytes, received.lines, until, purpose, received.id),
            )
            file = await find_row(tx, received.account, received.id)
        assert file is not None, "an upload that took longer than its row lasts"
        return file

    async def find(self, account: AccountId, id: str) -> StoredFile:
        """Return one file; NotFound if this account has no file with that id."""
        async with self._store.transaction() as tx:
            file = await find_row(tx, account, id)
        if file is None or file.expires_at <= self._now():
            raise NotFound("No such file.", param="file_id")
        return file

    async def list_files(self, query: FileQuery) -> list[StoredFile]:
        async with self._store.transaction() as tx:
            rows = await tx.fetch(
                _OLDEST_FIRST if query.is_oldest_first else _NEWEST_FIRST,
                (
                    query.account,
                    _time(self._now()),
                    query.purpose,
                    query.purpose,
                    query.after,
                    query.account,
                    query.after,
                    query.limit,
                ),
            )
        return [_file(row) for row in rows]

    def content(self, file: StoredFile) -> AsyncIterator[bytes]:
        return self._objects.stream(file.object)

    async def delete(self, account: AccountId, id: str) -> None:
        """Hide a file from its account at once; delete its object now or in `drop_expired`."""
        file = await self.find(account, id)
        async with self._store.transaction() as tx:
            await tx.execute(
                "update files set is_ready = false, expires_at = now() where id = %s", (file.id,)
            )
        await self._drop([(file.id, file.object)])

    async def forget(self, account: AccountId) -> None:
        """Delete all files of an account, also those that no list shows."""
        while True:
            async with self._store.transaction() as tx:
                rows = await tx.fetch(
                    "select id, object from files where account = %s limit %s",
                    (account, _DROPPED_AT_ONCE),
                )
            if not rows:
                return
            await self._drop([(row[0], row[1]) for row in rows])

    async def drop_expired(self) -> int:
        """Delete some of the expired files, first objects, then rows; return how many."""
        async with self._store.transaction() as tx:
            rows = await tx.fetch(
                "select id, object from files where expires_at <= %s order by expires_at limit %s",
                (_time(self._now()), _DROPPED_AT_ONCE),
            )
        await self._drop([(row[0], row[1]) for row in rows])
        return len(rows)

    async def _drop(self, files: list[tuple[str, str]]) -> None:
        await self._objects.delete([object for _, object in files])
        async with self._store.transaction() as tx:
            await tx.execute(
                "delete from files where id = any(%s)",
                ([id for id, _ in files],),
            )


class LineCount:
    """Passes chunks through and counts their lines."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._ends = 0
        self._last = b"\n"

    @property
    def lines(self) -> int:
        return self._ends + (self._last != b"\n")

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            if chunk:
                self._ends += chunk.count(b"\n")
                self._last = chunk[-1:]
                yield chunk


def object_name(account: AccountId, file: str) -> str:
    """Name a file's object by its id; a hash, as jobs use, is unknown until the stream ends."""
    return f"{account}/{file}/content"


async def add_row(tx: Transaction, file: StoredFile, *, is_ready: bool) -> None:
    """Write a file's row; an existing row is left unchanged."""
    await tx.execute(
        "insert into files (id, account, purpose, filename, object, bytes, lines, is_ready,"
        " created_at, expires_at) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
        " on conflict (id) do nothing",
        (
            file.id,
            file.account,
            file.purpose,
            file.filename,
            object_name(file.account, file.id),
            file.bytes,
            file.lines,
            is_ready,
            _time(file.created_at),
            _time(file.expires_at),
        ),
    )


async def find_row(tx: Transaction, account: AccountId, id: str) -> StoredFile | None:
    row = await tx.fetch_one(
        f"{_OF_ACCOUNT} and id = %s",
        (account, id),
    )
    return None if row is None else _file(row)


_OF_ACCOUNT: Final = f"select {_COLUMNS} from files where account = %s and is_ready"  # noqa: S608 - constants only
_LISTED: Final = f"{_OF_ACCOUNT} and expires_at > %s and (%s = '' or purpose = %s)"
_OF_AFTER: Final = "(select created_at, id from files where account = %s and id = %s)"
_NEWEST_FIRST: Final = (
    f"{_LISTED} and (%s = '' or (created_at, id) < {_OF_AFTER})"
    " order by created_at desc, id desc limit %s"
)
_OLDEST_FIRST: Final = (
    f"{_LISTED} and (%s = '' or (created_at, id) > {_OF_AFTER}) order by created_at, id limit %s"
)


def _file(row: tuple[Any, ...]) -> StoredFile:
    return StoredFile(*row)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
