"""Stores large payloads, results and files in a folder or an S3 bucket, encrypted.

Guarantees: an object exists whole or not at all, and survives a crash of every Penstock process
once `put` has returned. Only S3 survives a power cut: files in a folder are not fsynced, so those
of the last seconds may be lost. Every failure raises `StoreUnavailable`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.errors import InvalidRequest, StoreUnavailable
from penstock.records.account import AccountId
from penstock.store.sealing import ContentSeal, Sealing
from penstock.store.settings import StoreSettings

if TYPE_CHECKING:
    from penstock.store.object_client import ObjectClient

_FILE: Final = "file:"
# Encrypting more than this takes milliseconds, and leaves the event loop for a thread.
_SHORT_BYTES: Final = 256 * 1024


class Objects:
    """Object store. Names are `{account}/{owner}/{what}`, which keeps accounts separate."""

    def __init__(self, settings: StoreSettings, sealing: Sealing) -> None:
        self._settings = settings
        self._sealing = sealing
        self._client: ObjectClient | None = None
        self._is_open = False

    @property
    def is_folder(self) -> bool:
        return self._settings.objects_url.startswith(_FILE)

    def check_hosts(self, count: int) -> None:
        """Refuse a folder when there is more than one host: other hosts could not read it."""
        if self.is_folder and count > 1:
            raise InvalidRequest(
                f"The roster shows {count} hosts, but store.objects_url is a folder of this one:"
                " set it to a bucket (s3://bucket/prefix) that all of them reach.",
                param="store.objects_url",
            )

    async def open(self) -> None:
        """Check the cell's key; create the folder, or the S3 client, whether S3 answers or not."""
        await self._sealing.open()
        self._is_open = True
        if not self.is_folder:
            self._opened()
            return
        try:
            self._root().mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as failure:
            raise StoreUnavailable(
                f"The object store's folder cannot be made ({type(failure).__name__})."
            ) from failure

    async def close(self) -> None:
        self._is_open = False
        self._client = None

    async def seal_of(self, account: AccountId) -> ContentSeal:
        """Return what encrypts and decrypts content of an account that is kept in rows."""
        return await self._sealing.of_account(account)

    async def put(self, name: str, data: bytes) -> None:
        """Write a whole object, replacing an object of the same name."""
        seal = await self._seal(name)
        await self._opened().put(name, await _off_the_loop(seal.seal, name, data))

    async def get(self, name: str) -> bytes:
        """Return a whole object; NotFound if there is none."""
        seal = await self._seal(name)
        return await _off_the_loop(seal.unseal, name, await self._opened().get(name))

    async def put_stream(self, name: str, chunks: AsyncIterator[bytes]) -> int:
        """Write an object from a stream, buffering a few parts of it; return its content's size.

        An exception of `chunks` propagates, and no object is left under the name.
        """
        size = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size
            async for chunk in chunks:
                size += len(chunk)
                yield chunk

        seal = await self._seal(name)
        await self._opened().put_stream(name, seal.seal_chunks(name, counted()))
        return size

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        """Yield an object piece by piece.

        Each piece is a separate request, so a slow reader holds no connection open."""
        seal = await self._seal(name)
        async for content in seal.unseal_chunks(name, self._opened().stream(name)):
            yield content

    async def delete(self, names: Sequence[str]) -> None:
        """Delete those of the named objects that exist."""
        await self._opened().delete(names)

    async def _seal(self, name: str) -> ContentSeal:
        return await self.seal_of(AccountId(name.partition("/")[0]))

    def _opened(self) -> "ObjectClient":
        assert self._is_open, "the objects are not open"
        if self._client is None:
            # Imported with the first object: the client takes 4 MB, and many workers need none.
            from penstock.store.object_client import ObjectClient  # noqa: PLC0415 - see above

            self._client = ObjectClient(self._settings, self._root() if self.is_folder else None)
        return self._client

    def _root(self) -> Path:
        return Path(self._settings.objects_url.removeprefix(_FILE).removeprefix("//")).absolute()


async def _off_the_loop(work: Callable[[str, bytes], bytes], name: str, data: bytes) -> bytes:
    if len(data) <= _SHORT_BYTES:
        return work(name, data)
    return await asyncio.to_thread(work, name, data)
