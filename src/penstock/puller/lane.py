"""One replica's flex work: its jobs in flight, its prompts' openings, and when to claim more."""

from collections import OrderedDict
from typing import TYPE_CHECKING

from penstock.puller.headroom import Headroom, HeadroomObservation, Room
from penstock.puller.pulled_job import PulledJob
from penstock.puller.settings import PullerSettings
from penstock.queue import FlexControl
from penstock.records.replica import Replica
from penstock.records.signal import EngineClaim
from penstock.routing.known_replica import KnownReplica

if TYPE_CHECKING:
    from penstock.records.job import JobId

_MEAN_RATE = 0.1
# The first value of the mean tokens of a job's prompt, before any job is known.
_FIRST_TOKENS = 256.0
_FREE = FlexControl()
# An engine's figures and the keeper's count are not of the same moment: jobs that ran within this
# long are not taken for other requests.
_RECENT_SECONDS = 1.5


class Lane:
    """Tracks the jobs at one replica. It starts and stops nothing itself."""

    def __init__(self, replica: Replica, settings: PullerSettings) -> None:
        self.replica = replica
        self.headroom = Headroom(settings)
        self.jobs: dict[JobId, PulledJob] = {}
        self.is_claiming = False
        self._settings = settings
        self._openings: OrderedDict[int, None] = OrderedDict()
        self._mean_tokens = _FIRST_TOKENS
        self._pause = settings.poll_seconds
        self._rest = settings.rest_seconds
        self._next_at = 0.0
        self._most_flex = (0.0, 0, 0)

    @property
    def warm(self) -> tuple[int, ...]:
        """Openings of prompts that the replica has read lately."""
        return tuple(self._openings)

    def look(
        self, known: KnownReplica, claim: EngineClaim, control: FlexControl | None, now: float
    ) -> Room:
        """Return what the replica's load allows now."""
        return self.headroom.look(self._observe(known, claim, control or _FREE, now), now)

    def unbegun(self, now: float) -> list[PulledJob]:
        """Return jobs that cannot have begun to answer, newest first, but no reserved ones."""
        waiting = [job for job in self.jobs.values() if now < job.begins_at and not job.is_reserved]
        return waiting[::-1]

    def add(self, job: PulledJob, seconds_per_token: float, now: float) -> None:
        tokens = job.tokens
        ahead = self._unread_tokens(now)
        job.begins_at = now + (ahead + tokens) * seconds_per_token
        self.jobs[job.claimed.id] = job
        self._mean_tokens += _MEAN_RATE * (tokens - self._mean_tokens)
        opening = job.claimed.ticket.chain.opening
        if opening:
            self._openings[opening] = None
            self._openings.move_to_end(opening)
            while len(self._openings) > self._settings.openings_max:
                self._openings.popitem(last=False)

    def remove(self, job: PulledJob) -> None:
        self.jobs.pop(job.claimed.id, None)

    # When to claim more

    def may_claim(self, now: float) -> bool:
        return not self.is_claiming and now >= self._next_at

    def note_claim(self, *, is_enough: bool, now: float) -> None:
        """Note a claim; after one that found too few jobs, pause, longer each time."""
        if is_enough:
            self._pause = self._settings.poll_seconds
            return
        self._next_at = max(self._next_at, now + self._pause)
        self._pause = min(2 * self._pause, self._settings.poll_seconds_max)

    def note_served(self) -> None:
        self._rest = self._settings.rest_seconds

    def note_failure(self, now: float) -> None:
        """Let a replica that failed a job rest, longer each time."""
        if now + self._rest > self._next_at:
            self._next_at = now + self._rest
            self._rest = min(2 * self._rest, self._settings.rest_seconds_max)

    def _observe(
        self, known: KnownReplica, claim: EngineClaim, control: FlexControl, now: float
    ) -> HeadroomObservation:
        claims = known.claims
        flex = len(self.jobs)
        unbegun = self.unbegun(now)
        # Requests of gateways whose signals do not arrive, by the engine's own figures.
        unheard = claim.running + claim.waiting - claims.in_flight - self._most_lately(flex, now)
        began = max(claims.head_at, claims.progress_at)
        return HeadroomObservation(
            slots=self.replica.slots_live,
            live=claims.in_flight + max(0, unheard),
            live_unread_tokens=claims.outstanding,
            live_head_seconds=max(0.0, now - began) if claims.head_at else 0.0,
            live_head_expected_seconds=claims.head_tokens * known.seconds_per_token,
            flex=flex,
            flex_unbegun=len(unbegun),
            flex_unread_tokens=sum(job.tokens for job in unbegun),
            flex_reserved=sum(job.is_reserved for job in self.jobs.values()),
            mean_tokens=self._mean_tokens,
            prefill_rate=1.0 / known.seconds_per_token,
            waiting=claim.waiting,
            kv_use=claim.kv_use,
            is_paused=control.is_paused,
            in_flight_max=control.in_flight_max,
        )

    def _unread_tokens(self, now: float) -> int:
        return sum(job.tokens for job in self.jobs.values() if now < job.begins_at)

    def _most_lately(self, flex: int, now: float) -> int:
        """Return the most jobs that were there at once, in this time window and the one before."""
        since, most, most_before = self._most_flex
        if now - since > _RECENT_SECONDS:
            since, most, most_before = now, flex, most
        most = max(most, flex)
        self._most_flex = (since, most, most_before)
        return max(most, most_before)
