"""Large payloads, results and files, in a folder or a bucket of S3.

Promises: an object is there whole or not at all, and what `put` has returned for survives the death
of every process of ours. A power cut is S3's to survive: the folder's files are not forced to disk,
so those of the last seconds may be gone. A failure has one name, `StoreUnavailable`.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.errors import InvalidRequest, StoreUnavailable
from penstock.store.settings import StoreSettings

if TYPE_CHECKING:
    from penstock.store.object_client import ObjectClient

_FILE: Final = "file:"


class Objects:
    """Whole values by name. Names are `{account}/{owner}/{what}`, so that accounts stay apart."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._client: ObjectClient | None = None
        self._is_open = False

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

    async def put(self, name: str, data: bytes) -> None:
        """Write a whole object. Twice under one name leaves the last."""
        await self._opened().put(name, data)

    async def get(self, name: str) -> bytes:
        """A whole object; NotFound if there is none."""
        return await self._opened().get(name)

    async def put_stream(self, name: str, chunks: AsyncIterator[bytes]) -> int:
        """Write an object as it comes, holding a few parts of it; its size.

        Whatever `chunks` raises goes through, and nothing is left under the name.
        """
        return await self._opened().put_stream(name, chunks)

    def stream(self, name: str) -> AsyncIterator[bytes]:
        """An object piece by piece. A reader may take its time: each piece is asked for by itself,
        so that no connection waits for it."""
        return self._opened().stream(name)

    async def delete(self, names: Sequence[str]) -> None:
        """Delete what there is of these."""
        await self._opened().delete(names)

    def _opened(self) -> "ObjectClient":
        assert self._is_open, "the objects are not open"
        if self._client is None:
            # With the first object, not before: it takes 4 MB, and many workers never need one.
            from penstock.store.object_client import ObjectClient  # noqa: PLC0415 - see above

            self._client = ObjectClient(self._settings, self._root() if self.is_folder else None)
        return self._client

    def _root(self) -> Path:
        return Path(self._settings.objects_url.removeprefix(_FILE).removeprefix("//")).absolute()
