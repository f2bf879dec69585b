"""Gives the catalogue as its files are now, and reads them again only when one has changed."""

from pathlib import Path
from typing import NamedTuple

from penstock.catalogue.models import BUILTIN_FOLDER, Catalogue, load_catalogue
from penstock.catalogue.settings import CatalogueSettings


class _FileState(NamedTuple):
    """What differs when a file was written again or another one took its place."""

    path: str
    inode: int
    bytes: int
    changed_ns: int


class CatalogueReader:
    """For processes that answer questions by the newest prices: control, and not gateways."""

    def __init__(self, settings: CatalogueSettings) -> None:
        self._settings = settings
        self._states: list[_FileState] = []
        self._read: Catalogue | None = None

    def read(self) -> Catalogue:
        """Return the catalogue; raises as `load_catalogue` does."""
        # Taken before the files are read, so that a change in between is seen the next time.
        states = self._file_states()
        if self._read is None or states != self._states:
            self._read, self._states = load_catalogue(self._settings), states
        return self._read

    def _file_states(self) -> list[_FileState]:
        folders = [BUILTIN_FOLDER]
        if self._settings.folder:
            folders.append(Path(self._settings.folder).expanduser())
        found = []
        # A folder or a file that is gone has no state: `load_catalogue` says what is wrong.
        for path in sorted(path for folder in folders for path in folder.glob("*.toml")):
            try:
                state = path.stat()
            except OSError:
                continue
            found.append(_FileState(str(path), state.st_ino, state.st_size, state.st_ctime_ns))
        return found
