"""Reads and writes objects in a folder or bucket with obstore. `Objects` states the guarantees."""

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

from penstock.errors import NotFound, StoreUnavailable
from penstock.store.settings import StoreSettings

if TYPE_CHECKING:
    from obstore.store import S3Config

# S3 requires parts of at least 5 MiB; two at a time bound the memory of one stream.
_PART_BYTES: Final = 5 * 2**20
_PARTS_AT_ONCE: Final = 2
_RETRIES_MAX: Final = 4

logger = logging.getLogger(__name__)


class ObjectClient:
    """Implements each method of `Objects`. The constructor does not contact S3."""

    def __init__(self, settings: StoreSettings, folder: Path | None) -> None:
        self._settings = settings
        self._folder = folder
        self._store: LocalStore | S3Store
        with naming_failures():
            if folder is None:
                self._store = open_bucket(settings, settings.objects_url)
            else:
                self._store = LocalStore(folder, automatic_cleanup=True)

    async def put(self, name: str, data: bytes) -> None:
        with naming_failures():
            await obstore.put_async(self._store, name, data, use_multipart=False)

    async def get(self, name: str) -> bytes:
        with naming_failures():
            answer = await obstore.get_async(self._store, name)
            return bytes(await answer.bytes_async())

    async def put_stream(self, name: str, chunks: AsyncIterator[bytes]) -> None:
        with naming_failures():
            await obstore.put_async(
                self._store,
                name,
                chunks,
                chunk_size=_PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        store, piece = self._store, self._settings.objects_piece_bytes
        with naming_failures():
            size = (await obstore.head_async(store, name))["size"]
        for start in range(0, size, piece):
            end = min(size, start + piece)
            with naming_failures():
                got = await obstore.get_range_async(store, name, start=start, end=end)
            yield bytes(got)

    async def delete(self, names: Sequence[str]) -> None:
        for name in names:
            # The object may be deleted already, for example by this loop before it was killed.
            with suppress(NotFound), naming_failures():
                await obstore.delete_async(self._store, name)
            if self._folder is not None:
                await asyncio.to_thread(_clear, self._folder / name)


def open_bucket(settings: StoreSettings, address: str) -> S3Store:
    """Return the bucket at an address such as `s3://bucket/prefix`, with the settings' keys."""
    url = urlsplit(address)
    seconds = timedelta(seconds=settings.objects_seconds)
    config: S3Config = {"region": settings.objects_region}
    if settings.objects_endpoint:
        config["endpoint"] = settings.objects_endpoint
    if settings.objects_access_key:
        # Without keys the client uses the machine's own role, as other S3 clients do.
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
    """Remove what a killed process left of an object: partial files `name#1`, an empty folder."""
    for left in path.parent.glob(f"{glob.escape(path.name)}#*"):
        left.unlink(missing_ok=True)
    with suppress(OSError):
        path.parent.rmdir()


@contextmanager
def naming_failures() -> Iterator[None]:
    """Turn what obstore raises into NotFound or StoreUnavailable."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound("There is no such object.") from None
    except (BaseError, OSError) as failure:
        # The failure's text may name hosts and buckets, so it is logged but not sent to callers.
        logger.warning(
            "object store failed",
            extra={"action": "objects_failed", "reason": str(failure).partition("\n")[0]},
        )
        raise StoreUnavailable(
            f"The object store does not answer ({type(failure).__name__})."
        ) from failure
