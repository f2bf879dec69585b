"""Fetches the weights that a keeper's replicas wait for, one source at a time."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from penstock.clock import Clock
from penstock.fleet.intent import IntentLimits
from penstock.fleet.plan import pause_seconds
from penstock.fleet.settings import FleetSettings
from penstock.fleet.waiting import wait_for_event
from penstock.fleet.weights.fetch import fetch, in_gigabytes, limits_of_fetch
from penstock.fleet.weights.open_source import open_source
from penstock.fleet.weights.weight_files import FetchFailed, FetchLockedOut, FetchStopped
from penstock.fleet.weights.weight_folder import bytes_in, folder_of, is_complete
from penstock.records.model import Weights
from penstock.store.settings import StoreSettings

# How long a fetch that is to stop may take for what it reads now. Its thread ends with the process.
_STOP_SECONDS_MAX: Final = 5.0
_IDLE_SECONDS: Final = 1.0
# How long a fetch waits for another process before other sources get their turn, and how long until
# it tries again. A source that the other process completes is noticed without a further try.
_LOCK_SECONDS_MAX: Final = 2.0
_LOCK_PAUSE_SECONDS: Final = 30.0
# How long a fetch may bring nothing and still excuse a rollout that is late. The retries of a store
# or of Hugging Face's library, and an engineer's restart of a mount, take less.
_STALL_SECONDS_MAX: Final = 600.0
CANNOT_FETCH: Final = "cannot fetch its weights"

_log = logging.getLogger(__name__)


class FetchState(msgspec.Struct):
    """How the fetch of one source stands."""

    done: int = 0
    total: int = 0
    # Whether another process fetches it.
    is_locked_out: bool = False
    is_running: bool = False
    # When the folder last grew, or the first attempt began; None before that.
    moved_at: float | None = None
    # Consecutive failures without progress, and the last one; "" after progress.
    failures: int = 0
    failure: str = ""
    due_at: float = 0.0


class WeightFetches:
    """`run` fetches what `want` was told last. Everything but `run` returns at once."""

    def __init__(
        self,
        settings: FleetSettings,
        store: StoreSettings,
        limits: IntentLimits,
        clock: Clock,
        on_end: Callable[[], None],
    ) -> None:
        self._folder = settings.weights_folder
        self._limits = msgspec.structs.replace(
            limits_of_fetch(settings), lock_seconds_max=_LOCK_SECONDS_MAX
        )
        self._store = store
        self._pauses = limits
        self._clock = clock
        self._on_end = on_end
        self._wanted: dict[str, Weights] = {}
        self._states: dict[str, FetchState] = {}
        self._is_called = asyncio.Event()

    async def missing(self, weights: Mapping[str, Weights]) -> dict[str, Weights]:
        """Return those of the named weights that are not complete on this host."""
        if not weights:
            return {}
        return await asyncio.to_thread(self._missing, dict(weights))

    def want(self, weights: Iterable[Weights]) -> None:
        """Fetch these from now on; a fetch of others stops and keeps what it has."""
        wanted = {each.source: each for each in weights}
        if wanted != self._wanted:
            self._wanted = wanted
            self._states = {source: self._states.get(source, FetchState()) for source in wanted}
            self._is_called.set()

    def is_failing(self, weights: Weights) -> bool:
        """Return whether the last attempt failed, and none has gone further since."""
        return bool(self._states.get(weights.source, FetchState()).failure)

    def is_going_on(self, weights: Weights) -> bool:
        """Return whether the fetch, or the one that it waits for here, has lately brought bytes.

        A fetch that has just begun is given the same time for its first bytes.
        """
        if self.is_failing(weights):
            return False
        moved_at = self._states.get(weights.source, FetchState()).moved_at
        if moved_at is None:
            running = [each for each in self._states.values() if each.is_running]
            moved_at = running[0].moved_at if running else None
        return moved_at is None or self._clock.monotonic() - moved_at <= _STALL_SECONDS_MAX

    def reason(self, weights: Weights) -> str:
        """Return why a replica waits for its weights, to follow the model's name."""
        state = self._states.get(weights.source, FetchState())
        if self.is_failing(weights):
            return f"{CANNOT_FETCH}: {state.failure}"
        if state.is_locked_out:
            return "waits for another process that fetches its weights"
        size = in_gigabytes(state.total or int(weights.gigabytes * 10**9))
        if not state.is_running:
            return f"waits to fetch its weights: {size} GB"
        return f"fetches its weights: {in_gigabytes(state.done)} of {size} GB"

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            self._is_called.clear()
            weights = self._next()
            if weights is None:
                await wait_for_event(self._is_called, _IDLE_SECONDS)
                continue
            await self._attempt(weights)

    def _missing(self, weights: dict[str, Weights]) -> dict[str, Weights]:
        return {
            name: each
            for name, each in weights.items()
            if not is_complete(folder_of(self._folder, each.source), each.source)
        }

    def _next(self) -> Weights | None:
        """Return what to fetch now: those that have not failed, and that nobody locks, first."""
        now = self._clock.monotonic()
        due = [source for source in self._wanted if self._states[source].due_at <= now]
        states = self._states
        source = min(
            due, key=lambda each: (states[each].failures, states[each].is_locked_out), default=None
        )
        return None if source is None else self._wanted[source]

    async def _attempt(self, weights: Weights) -> None:
        source, state = weights.source, self._states[weights.source]
        state.is_running = True
        if state.moved_at is None:
            state.moved_at = self._clock.monotonic()
        is_locked_out = False
        extra = {"action": "weights_fetch", "source": source}
        _log.info("fetch of weights begins", extra=extra)
        try:
            await self._in_thread(weights, state)
        except FetchStopped:
            _log.info("fetch of weights stopped", extra=extra)
        except FetchLockedOut:
            is_locked_out = True
            state.due_at = self._clock.monotonic() + _LOCK_PAUSE_SECONDS
            _log.info("weights locked", extra={**extra, "action": "weights_locked"})
        except Exception as failure:  # noqa: BLE001 - the loop's top: other weights must be fetched
            if not isinstance(failure, FetchFailed):
                _log.exception("fetch of weights failed", extra=extra)
            state.failures += 1
            state.failure = str(failure) or type(failure).__name__
            pause = pause_seconds(state.failures, self._pauses)
            state.due_at = self._clock.monotonic() + pause
            extra = {**extra, "action": "weights_not_fetched", "reason": state.failure}
            _log.warning("weights not fetched", extra=extra)
        else:
            state.failure = ""
            self._wanted.pop(source, None)
            _log.info("weights fetched", extra={**extra, "action": "weights_fetched"})
        finally:
            state.is_running, state.is_locked_out = False, is_locked_out
            self._on_end()

    async def _in_thread(self, weights: Weights, state: FetchState) -> None:
        """Run a fetch in a thread that cannot keep the process from ending."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        watch = _Watch(state, self._clock, lambda: self._states.get(weights.source) is not state)

        def settle(failure: Exception | None) -> None:
            if ended.done():
                return
            if failure is None:
                ended.set_result(None)
            else:
                ended.set_exception(failure)

        def work() -> None:
            failure: Exception | None = None
            try:
                self._fetch(weights, watch)
            except Exception as failed:  # noqa: BLE001 - handed to the task that waits
                failure = failed
            # The loop is closed when the keeper has ended meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, failure)

        threading.Thread(target=work, name="fetch-weights", daemon=True).start()
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            watch.has_left = True
            await asyncio.wait([ended], timeout=_STOP_SECONDS_MAX)
            if ended.done():
                ended.exception()
            raise

    def _fetch(self, weights: Weights, watch: "_Watch") -> None:
        source = open_source(weights.source, self._store)
        folder = folder_of(self._folder, weights.source)
        try:
            fetch(weights, folder, source, self._limits, watch)
        except FetchLockedOut:
            watch.on_growth(bytes_in(folder))
            raise


class _Watch:
    """Notes how a fetch goes on, and stops it when the keeper ends or wants it no longer."""

    def __init__(self, state: FetchState, clock: Clock, is_unwanted: Callable[[], bool]) -> None:
        self._state = state
        self._clock = clock
        self._is_unwanted = is_unwanted
        # What earlier attempts had reached: only more than that is progress.
        self._most = state.done
        self.has_left = False

    def on_bytes(self, done: int, total: int) -> None:
        state = self._state
        state.is_locked_out = False
        state.total = total
        self.on_growth(done)

    def on_growth(self, done: int) -> None:
        """Note how many bytes are there, whichever process has brought them."""
        state = self._state
        if done > state.done:
            state.moved_at = self._clock.monotonic()
        if done > self._most:
            self._most = done
            state.failures, state.failure = 0, ""
        state.done = done

    def on_wait(self) -> None:
        self._state.is_locked_out = True

    def is_stopped(self) -> bool:
        return self.has_left or self._is_unwanted()
