"""WeightFetches: what a replica that waits for its weights says, and when a failure is retried."""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from penstock.fleet.intent import IntentLimits
from penstock.fleet.settings import FleetSettings
from penstock.fleet.weights.fetch_loop import WeightFetches
from penstock.fleet.weights.weight_folder import folder_of, is_complete
from penstock.records.model import Weights
from penstock.store import StoreSettings
from penstock.testing import ManualClock

LIMITS = IntentLimits(restart_first_seconds=10.0)


class Kept:
    """The fetches of a keeper whose clock a test moves."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.ends = 0
        settings = FleetSettings(weights_folder=str(folder), weights_spare_mb=0)
        self.fetches = WeightFetches(settings, StoreSettings(), LIMITS, self.clock, self._end)

    def _end(self) -> None:
        self.ends += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[WeightFetches]:
        async with asyncio.TaskGroup() as tasks:
            loop = tasks.create_task(self.fetches.run())
            yield self.fetches
            loop.cancel()


async def until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not claim():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.01)


def source(folder: Path) -> Weights:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    return Weights(str(folder), 0.1)


async def test_all_wanted_weights_are_fetched_one_after_another(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "weights")
    one, two = source(tmp_path / "one"), source(tmp_path / "two")
    names = {"a": one, "b": two}
    assert await kept.fetches.missing(names) == names
    kept.fetches.want(names.values())
    assert kept.fetches.reason(one) == "waits to fetch its weights: 0.1 GB"
    async with kept.running():
        await until(lambda: kept.ends == 2)
    assert await kept.fetches.missing(names) == {}
    assert await kept.fetches.missing({}) == {}


async def test_a_failure_is_retried_after_its_pause_and_others_go_first(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "weights")
    away = Weights(str(tmp_path / "away"), 0.1)
    async with kept.running() as fetches:
        fetches.want([away])
        await until(lambda: kept.ends == 1)
        assert fetches.is_failing(away)
        assert fetches.reason(away).startswith("cannot fetch its weights: ")
        source(tmp_path / "away")
        other = source(tmp_path / "other")
        fetches.want([away, other])
        await until(lambda: kept.ends == 2)
        assert is_complete(folder_of(str(tmp_path / "weights"), other.source), other.source)
        assert fetches.is_failing(away), "the pause has not passed"
        kept.clock.advance(11.0)
        await until(lambda: kept.ends == 3)
        assert not fetches.is_failing(away)
        assert is_complete(folder_of(str(tmp_path / "weights"), away.source), away.source)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of weights, as another process that fetches it does."""
    folder.mkdir(parents=True)
    with folder.with_name(f"{folder.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def test_a_source_that_another_process_locks_holds_up_no_other(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "weights")
    one, two = source(tmp_path / "one"), source(tmp_path / "two")
    folder = folder_of(str(tmp_path / "weights"), one.source)
    waits = "waits for another process that fetches its weights"
    async with kept.running() as fetches:
        with locked(folder):
            fetches.want([one, two])
            await until(lambda: fetches.reason(one) == waits)
            await until(lambda: kept.ends == 2)
            assert is_complete(folder_of(str(tmp_path / "weights"), two.source), two.source)
            assert fetches.reason(one) == waits
            assert not fetches.is_failing(one)
        kept.clock.advance(31.0)
        await until(lambda: kept.ends == 3)
        assert is_complete(folder, one.source)


async def test_a_locked_source_goes_on_while_the_other_process_brings_bytes(
    tmp_path: Path,
) -> None:
    kept = Kept(tmp_path / "weights")
    one = source(tmp_path / "one")
    folder = folder_of(str(tmp_path / "weights"), one.source)
    async with kept.running() as fetches:
        with locked(folder):
            fetches.want([one])
            await until(lambda: kept.ends == 1)
            kept.clock.advance(599.0)
            assert fetches.is_going_on(one)
            (folder / "part").write_bytes(b"more")
            await until(lambda: kept.ends == 2)
            kept.clock.advance(599.0)
            assert fetches.is_going_on(one)
            kept.clock.advance(2.0)
            assert not fetches.is_going_on(one)


async def test_a_fetch_that_brings_nothing_for_ten_minutes_does_not_go_on(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "weights")
    stuck, other = source(tmp_path / "stuck"), source(tmp_path / "other")
    folder = folder_of(str(tmp_path / "weights"), stuck.source)
    folder.mkdir(parents=True)
    note = folder / ".penstock-versions.json"
    # Opening a pipe for reading waits for somebody who writes, as a mount that hangs does.
    os.mkfifo(note)
    async with kept.running() as fetches:
        fetches.want([stuck, other])
        assert fetches.is_going_on(stuck)
        await until(lambda: fetches.reason(stuck) == "fetches its weights: 0.0 of 0.1 GB")
        kept.clock.advance(599.0)
        assert fetches.is_going_on(stuck)
        assert fetches.is_going_on(other), "its turn comes after a fetch that may still go on"
        kept.clock.advance(2.0)
        assert not fetches.is_going_on(stuck)
        assert not fetches.is_going_on(other)
        note.write_bytes(b"{}")
        await until(lambda: kept.ends == 2)


async def test_a_failing_fetch_does_not_go_on(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "weights")
    away = Weights(str(tmp_path / "away"), 0.1)
    async with kept.running() as fetches:
        fetches.want([away])
        await until(lambda: kept.ends == 1)
        assert not fetches.is_going_on(away)


async def test_what_is_wanted_no_longer_is_forgotten(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "weights")
    away = Weights(str(tmp_path / "away"), 0.1)
    async with kept.running() as fetches:
        fetches.want([away])
        await until(lambda: kept.ends == 1)
        fetches.want([])
        assert not fetches.is_failing(away)
        assert fetches.reason(away) == "waits to fetch its weights: 0.1 GB"
