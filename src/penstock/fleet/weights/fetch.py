"""Fetches one source of weights into its folder. Blocks: call it in a thread."""

import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from penstock.errors import NotFound, StoreUnavailable
from penstock.fleet.settings import FleetSettings
from penstock.fleet.weights.weight_files import (
    OWN_FILES,
    FetchFailed,
    FetchLockedOut,
    FetchStopped,
    FetchWatch,
    WeightSource,
    checked_files,
)
from penstock.fleet.weights.weight_folder import (
    bytes_in,
    clear_others,
    is_complete,
    mark_complete,
    remove_older,
    unmark,
)
from penstock.records.model import Weights

_GIGABYTE: Final = 10**9
_MEGABYTE: Final = 10**6
_LOCK_SECONDS: Final = 0.2


class FetchLimits(msgspec.Struct, frozen=True):
    """What a source may hold, what its fetch leaves of the disk, and how long it may wait."""

    files_max: int = 10_000
    spare_bytes: int = 2**30
    # For another process that fetches the same source; None for as long as that takes.
    lock_seconds_max: float | None = None


def limits_of_fetch(settings: FleetSettings) -> FetchLimits:
    return FetchLimits(settings.weights_files_max, settings.weights_spare_mb * _MEGABYTE)


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def fetch(
    weights: Weights,
    folder: Path,
    source: WeightSource,
    limits: FetchLimits,
    watch: FetchWatch,
    free: Callable[[Path], int] = free_bytes,
) -> None:
    """Bring the files to the folder, unless it is complete already.

    Raises FetchFailed, FetchStopped where the watch asked for it, or FetchLockedOut. What was
    copied stays, and the next fetch goes on from there.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f"{folder.name}.lock")
        with _locked(lock, watch, limits.lock_seconds_max):
            if not is_complete(folder, weights.source):
                _fetch(weights, folder, source, limits, watch, free)
    except OSError as failure:
        raise FetchFailed(f"the files cannot be written: {failure}") from failure
    except (StoreUnavailable, NotFound) as failure:
        raise FetchFailed(f"the source cannot be read: {failure.message}") from failure


def _fetch(
    weights: Weights,
    folder: Path,
    source: WeightSource,
    limits: FetchLimits,
    watch: FetchWatch,
    free: Callable[[Path], int],
) -> None:
    # A source that was fetched itself has files which do not count.
    listed = source.list(limits.files_max + len(OWN_FILES))
    files = checked_files(listed, limits.files_max)
    unmark(folder)
    total = sum(each.size for each in files)
    _check_room(weights, folder, total, limits.spare_bytes, free)
    remove_older(folder, files)
    source.bring(files, folder, watch)
    for each in files:
        size = (folder / each.name).stat().st_size
        if size != each.size:
            raise FetchFailed(f"{each.name} has {size} bytes instead of {each.size}")
    clear_others(folder, files)
    mark_complete(folder, weights.source, files)
    watch.on_bytes(total, total)


def _check_room(
    weights: Weights, folder: Path, total: int, spare: int, free: Callable[[Path], int]
) -> None:
    """Refuse weights that the disk cannot take, before hours are spent on them."""
    size = max(total, int(weights.gigabytes * _GIGABYTE))
    needed = max(0, size - bytes_in(folder)) + spare
    there = free(folder)
    if there < needed:
        raise FetchFailed(
            f"the disk of {folder.parent} has {in_gigabytes(there)} GB free, and"
            f" {in_gigabytes(needed)} GB are needed"
        )


@contextmanager
def _locked(path: Path, watch: FetchWatch, seconds_max: float | None) -> Iterator[None]:
    """Hold the lock of one source; it ends with the process, however that ends."""
    begun_at = time.monotonic()
    with path.open("ab") as lock:
        is_first = True
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if is_first:
                    watch.on_wait()
                is_first = False
            if watch.is_stopped():
                raise FetchStopped
            if seconds_max is not None and time.monotonic() - begun_at >= seconds_max:
                raise FetchLockedOut
            time.sleep(_LOCK_SECONDS)
        yield


def in_gigabytes(count: int) -> str:
    return f"{count / _GIGABYTE:.1f}"
