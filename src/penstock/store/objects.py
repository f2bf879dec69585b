"""Large payloads, results and files, in a folder or a bucket of S3.

Promises: an object is there whole or not at all, and what `put` has returned for survives the death
of every process of ours. A power cut is S3's to survive: the folder's files are not forced to disk,
so those of the last seconds may be gone. A failure has one name, `StoreUnavailable`.
"""

import asyncio
import glob
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, S3Store

from penstock.errors import InvalidRequest, NotFound, StoreUnavailable
from penstock.store.settings import Settings

if TYPE_CHECKING:
    from obstore.store import S3Config

# S3 takes parts of 5 MiB and more; two at a time bound what one stream holds.
_PART_BYTES: Final = 5 * 2**20
_PARTS_AT_ONCE: Final = 2
_RETRIES_MAX: Final = 4
_FILE: Final = "file:"
_S3: Final = "s3://"

logger = logging.getLogger(__name__)


class Objects:
    """Whole values by name. Names are `{account}/{owner}/{what}`, so that accounts stay apart."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: LocalStore | S3Store | None = None

    @property
    def is_folder(self) -> bool:
        return self._settings.objects_url.startswith(_FILE)

    def check_hosts(self, count: int) -> None:
        """Refuse a folder where there is more than one host: the others would not see it."""
        if self.is_folder and count > 1:
            raise InvalidRequest(
                f"The roster shows {count} hosts, but store.objects_url is a folder of this one:"
                " set it to a bucket (s3://bucket/prefix) that all of them reach.",
                param="store.objects_url",
            )

    async def open(self) -> None:
        """Make the folder, or the client. Returns at once, whether S3 answers or not."""
        with _naming_failures():
            self._store = self._folder() if self.is_folder else self._bucket()

    async def close(self) -> None:
        self._store = None

    async def put(self, name: str, data: bytes) -> None:
        """Write a whole object. Twice under one name leaves the last."""
        with _naming_failures():
            await obstore.put_async(self._opened(), name, data, use_multipart=False)

    async def get(self, name: str) -> bytes:
        """A whole object; NotFound if there is none."""
        with _naming_failures():
            answer = await obstore.get_async(self._opened(), name)
            return bytes(await answer.bytes_async())

    async def put_stream(self, name: str, chunks: AsyncIterator[bytes]) -> int:
        """Write an object as it comes, holding a few parts of it; its size.

        Whatever `chunks` raises goes through, and nothing is left under the name.
        """
        size = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size
            async for chunk in chunks:
                size += len(chunk)
                yield chunk

        with _naming_failures():
            await obstore.put_async(
                self._opened(),
                name,
                counted(),
                chunk_size=_PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )
        return size

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        """An object piece by piece. A reader may take its time: each piece is asked for by itself,
        so that no connection waits for it."""
        store, piece = self._opened(), self._settings.objects_piece_bytes
        with _naming_failures():
            size = (await obstore.head_async(store, name))["size"]
        for start in range(0, size, piece):
            end = min(size, start + piece)
            with _naming_failures():
                got = await obstore.get_range_async(store, name, start=start, end=end)
            yield bytes(got)

    async def delete(self, names: Sequence[str]) -> None:
        """Delete what there is of these."""
        for name in names:
            # Somebody may have been here before, perhaps this very loop before it was killed.
            with suppress(NotFound), _naming_failures():
                await obstore.delete_async(self._opened(), name)
            if self.is_folder:
                await asyncio.to_thread(_clear, self._root() / name)

    def _opened(self) -> LocalStore | S3Store:
        assert self._store is not None, "the objects are not open"
        return self._store

    def _root(self) -> Path:
        return Path(self._settings.objects_url.removeprefix(_FILE).removeprefix("//")).absolute()

    def _folder(self) -> LocalStore:
        self._root().mkdir(mode=0o700, parents=True, exist_ok=True)
        return LocalStore(self._root(), automatic_cleanup=True)

    def _bucket(self) -> S3Store:
        settings = self._settings
        url = urlsplit(settings.objects_url)
        seconds = timedelta(seconds=settings.objects_seconds)
        config: S3Config = {"region": settings.objects_region}
        if settings.objects_endpoint:
            config["endpoint"] = settings.objects_endpoint
        if settings.objects_access_key:
            # Without keys the client finds the machine's own role, as S3's clients do.
            config["access_key_id"] = settings.objects_access_key
            config["secret_access_key"] = settings.objects_secret_key
        return S3Store(
            url.netloc,
            prefix=url.path.strip("/") or None,
            config=config,
            client_options={
                "timeout": seconds,
                "allow_http": settings.objects_endpoint.startswith("http://"),
            },
            retry_config={"max_retries": _RETRIES_MAX, "retry_timeout": seconds},
        )


def _clear(path: Path) -> None:
    """Remove what a process that was killed left of an object: `name#1`, and an empty folder."""
    for left in path.parent.glob(f"{glob.escape(path.name)}#*"):
        left.unlink(missing_ok=True)
    with suppress(OSError):
        path.parent.rmdir()


@contextmanager
def _naming_failures() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise NotFound("There is no such object.") from None
    except (BaseError, OSError) as failure:
        # Its text may name hosts and buckets, and this goes to callers.
        logger.warning(
            "object store failed",
            extra={"action": "objects_failed", "reason": str(failure).partition("\n")[0]},
        )
        raise StoreUnavailable(
            f"The object store does not answer ({type(failure).__name__})."
        ) from failure
