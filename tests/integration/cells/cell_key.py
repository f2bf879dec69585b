"""The key that every cell of the tests has, so that content is encrypted wherever it is kept."""

from pathlib import Path

from penstock.clock import SystemClock
from penstock.store import Objects, Sealing, Store, StoreSettings
from penstock.store.sealing import new_cell_key


def key_file(folder: Path) -> str:
    """Return the key file of a cell in this folder; made at the first call."""
    path = folder / "cell.key"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(new_cell_key())
    return str(path)


def sealed_objects(store: Store, settings: StoreSettings) -> Objects:
    """Return the objects as a process with these settings has them."""
    return Objects(settings, Sealing(store, settings, SystemClock()))
