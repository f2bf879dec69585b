"""Reads plain files out of a bucket, piece by piece: what others have put there, not encrypted."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import PreconditionError

from penstock.errors import Conflict
from penstock.records.source_file import SourceFile
from penstock.store.object_client import naming_failures, open_bucket
from penstock.store.settings import StoreSettings

if TYPE_CHECKING:
    from obstore import GetOptions

# One connection to S3 is slower than most networks. So many pieces are in memory at once.
_PIECES_AT_ONCE: Final = 4
_PIECE_BYTES: Final = 8 * 2**20


class BucketFiles:
    """The files of `s3://bucket/prefix`, read with the settings of the object store.

    Its methods block, so call them in a thread. They raise StoreUnavailable or NotFound.
    `read` raises Conflict where the bucket has another version of the file by now.
    """

    def __init__(self, settings: StoreSettings, address: str) -> None:
        with naming_failures():
            self._store = open_bucket(settings, address)

    def list(self, files_max: int) -> list[SourceFile]:
        """Return the files; one more than `files_max` at most."""
        found: list[SourceFile] = []
        with naming_failures():
            for page in obstore.list(self._store):
                for each in page:
                    version = str(each["e_tag"] or each["last_modified"])
                    found.append(SourceFile(each["path"], each["size"], version))
                    if len(found) > files_max:
                        return found
        return _without_folders(found)

    def read(self, file: SourceFile, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `start` up to `end`, by requests of their own."""

        def piece(first: int) -> bytes:
            options: GetOptions = {"range": (first, min(first + _PIECE_BYTES, end))}
            if _is_tag(file.version):
                options["if_match"] = file.version
            with naming_failures():
                try:
                    return bytes(obstore.get(self._store, file.name, options=options).bytes())
                except PreconditionError:
                    raise Conflict from None

        window = _PIECE_BYTES * _PIECES_AT_ONCE
        with ThreadPoolExecutor(_PIECES_AT_ONCE, thread_name_prefix="bucket") as pool:
            for first in range(start, end, window):
                yield from pool.map(piece, range(first, min(first + window, end), _PIECE_BYTES))


def _is_tag(version: str) -> bool:
    """Return whether a server can compare the version: it is no time, and no weak tag."""
    return len(version) > 2 and version.startswith('"') and version.endswith('"')


def _without_folders(found: Sequence[SourceFile]) -> list[SourceFile]:
    """Leave out the empty objects by which consoles show folders: obstore cuts their last slash."""
    folders = {str(above) for each in found for above in PurePosixPath(each.name).parents}
    return [each for each in found if each.size or (each.name and each.name not in folders)]
