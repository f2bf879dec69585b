"""Decides how many jobs a replica may start now. Pure: time is a number that is passed in.

Feedback per replica: the allowance grows slowly while no live request waits or is late and the KV
cache has room, and is cut at once otherwise. Jobs that already answer are never stopped for it:
only starts are withheld, and jobs that cannot have begun are handed back.
"""

import math

import msgspec

from penstock.puller.settings import PullerSettings


class HeadroomObservation(msgspec.Struct, frozen=True, kw_only=True):
    """One replica, as its keeper sees it now. Tokens are uncached prompt tokens."""

    slots: int
    # Requests that gateways have there, and the tokens of their prompts that are not read yet.
    live: int = 0
    live_unread_tokens: int = 0
    # How long the oldest of these prompts has been in reading, and how long it should take.
    live_head_seconds: float = 0.0
    live_head_expected_seconds: float = 0.0
    # This keeper's jobs there, those that cannot have begun to answer, and these ones' prompts.
    flex: int = 0
    flex_unbegun: int = 0
    flex_unread_tokens: int = 0
    # Jobs there that draw on the reserved share.
    flex_reserved: int = 0
    # Prompt tokens of a job on average.
    mean_tokens: float = 256.0
    # Prompt tokens a second that its engine reads.
    prefill_rate: float = 15_000.0
    # The engine's own figures; 0 for an engine that reports none.
    waiting: int = 0
    kv_use: float = 0.0
    # The operator's controls.
    is_paused: bool = False
    in_flight_max: int | None = None


class Room(msgspec.Struct, frozen=True):
    """What to do now: jobs to start, jobs past their wait target to start, jobs to hand back."""

    start: int = 0
    start_aged: int = 0
    give_back: int = 0


class Headroom:
    """Controls one replica's flex work. Call `look` several times a second."""

    __slots__ = ("_cut_at", "_last_at", "_live_at", "_settings", "allowed")

    def __init__(self, settings: PullerSettings) -> None:
        self._settings = settings
        # Jobs that the feedback allows; a float, because it grows by fractions.
        self.allowed = 1.0
        self._last_at: float | None = None
        self._cut_at = -math.inf
        self._live_at = -math.inf

    def look(self, seen: HeadroomObservation, now: float) -> Room:
        """Update the allowance by one observation, and return what is allowed."""
        if seen.live:
            self._live_at = now
        is_reading = seen.live_unread_tokens > 0
        is_crowded = self._is_crowded(seen)
        self._feed_back(seen, now, is_crowded=is_crowded, is_reading=is_reading)
        if seen.is_paused:
            return Room(give_back=seen.flex_unbegun)
        most = self._most(seen)
        aged = self._aged(seen)
        over = seen.flex - seen.flex_reserved - most
        give_back = max(0, min(over, seen.flex_unbegun))
        if over >= 0 or is_crowded or is_reading:
            return Room(start_aged=aged, give_back=give_back)
        start = min(int(self.allowed) - seen.flex, -over, self._unread_room(seen, now))
        return Room(start=max(0, start), start_aged=0 if start > 0 else aged)

    def _feed_back(
        self, seen: HeadroomObservation, now: float, *, is_crowded: bool, is_reading: bool
    ) -> None:
        settings = self._settings
        elapsed = 0.0 if self._last_at is None else max(0.0, now - self._last_at)
        self._last_at = now
        if is_crowded:
            # Cut at once to the running jobs, so that none is started; then by `cut_factor`, and
            # not before the last cut has had time to take effect.
            self.allowed = min(self.allowed, float(max(1, seen.flex)))
            if now - self._cut_at >= settings.cut_seconds:
                self._cut_at = now
                self.allowed = max(1.0, self.allowed * settings.cut_factor)
        elif not is_reading:
            grown = self.allowed + elapsed * settings.growth_share_per_second * seen.slots
            self.allowed = min(grown, float(seen.slots))

    def _is_crowded(self, seen: HeadroomObservation) -> bool:
        """Return whether a live request waits in the engine or is late, or `kv_use` is too high."""
        settings = self._settings
        is_waiting = seen.waiting > seen.flex_unbegun
        expected = seen.live_head_expected_seconds
        late = max(expected * settings.late_factor, expected + settings.late_seconds)
        is_late = seen.live_unread_tokens > 0 and seen.live_head_seconds > late
        return is_waiting or is_late or seen.kv_use > settings.kv_use_max

    def _most(self, seen: HeadroomObservation) -> int:
        """Return the most jobs beside live requests, with slots left free for more of these."""
        free = slots_of(self._settings.slots_free_share, seen.slots)
        most = max(0, seen.slots - free - seen.live - seen.flex_reserved)
        if seen.in_flight_max is None:
            return most
        return min(most, max(0, seen.in_flight_max - seen.flex_reserved))

    def _aged(self, seen: HeadroomObservation) -> int:
        """Return how many aged jobs may start despite live requests, within operators' limits."""
        reserved = min(slots_of(self._settings.reserved_share, seen.slots), seen.slots)
        if seen.in_flight_max is not None:
            reserved = min(reserved, seen.in_flight_max)
        return max(0, reserved - seen.flex)

    def _unread_room(self, seen: HeadroomObservation, now: float) -> int:
        """Return how many jobs' prompts may be sent beside those that are being read."""
        settings = self._settings
        is_quiet = now - self._live_at >= settings.quiet_seconds
        seconds = settings.unread_seconds_quiet if is_quiet else settings.unread_seconds
        tokens = seconds * seen.prefill_rate - seen.flex_unread_tokens
        jobs = int(tokens / max(1.0, seen.mean_tokens))
        return max(jobs, 0 if seen.flex_unread_tokens else 1)


def slots_of(share: float, slots: int) -> int:
    """Return a share of the slots, at least one."""
    return max(1, int(share * slots))
