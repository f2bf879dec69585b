"""Adds up and clamps the loads that workers of other hosts claim at one replica."""

from typing import Final

from penstock.records.signal import LoadClaim

# One request in this many may be a trial, besides one for each interval.
_REQUESTS_A_TRIAL: Final = 32


class PeerLoads:
    """The sums over all other hosts' workers. A sender's new claim replaces its last."""

    def __init__(self) -> None:
        # outstanding, in flight, decoding, prompt tokens, and the time of the claim.
        self._by_sender: dict[int, tuple[int, int, int, int, float]] = {}
        self._head_sender = 0
        # The sum of outstanding x time, so that `at` needs no loop over the claims.
        self._moment = 0.0
        self.outstanding = 0
        self.in_flight = 0
        self.decoding = 0
        self.prompt_tokens = 0
        self.head_tokens = 0
        self.head_at = 0.0
        self.progress_at = 0.0

    @property
    def at(self) -> float:
        """When the outstanding tokens were counted, on average."""
        return self._moment / self.outstanding if self.outstanding else 0.0

    def hear(self, sender: int, claim: LoadClaim, tokens_max: int, now: float) -> None:
        """Replace a sender's claim, clamped to a full KV cache: no more can run there."""
        self.forget(sender)
        in_flight = min(claim.in_flight, tokens_max)
        # Tokens wait only as part of requests.
        outstanding = min(claim.outstanding, tokens_max) if in_flight else 0
        decoding = min(claim.decoding, in_flight)
        prompt_tokens = min(claim.prompt_tokens, tokens_max)
        self._by_sender[sender] = (outstanding, in_flight, decoding, prompt_tokens, now)
        self._add(outstanding, in_flight, decoding, prompt_tokens, now)
        self.progress_at = max(self.progress_at, now - claim.progress_age)
        head_at = now - claim.head_age
        if outstanding and (not self.head_tokens or head_at < self.head_at):
            self.head_tokens = min(claim.head_tokens, outstanding)
            self.head_at, self._head_sender = head_at, sender

    def forget(self, sender: int) -> None:
        """Remove a sender's claim about this replica."""
        before = self._by_sender.pop(sender, None)
        if before is None:
            return
        outstanding, in_flight, decoding, prompt_tokens, at = before
        self._add(-outstanding, -in_flight, -decoding, -prompt_tokens, at)
        if self._head_sender == sender:
            self.head_tokens, self.head_at, self._head_sender = 0, 0.0, 0
        if not self._by_sender:
            self._moment = 0.0

    def senders(self) -> tuple[int, ...]:
        return tuple(self._by_sender)

    def _add(
        self, outstanding: int, in_flight: int, decoding: int, prompt_tokens: int, at: float
    ) -> None:
        self.outstanding += outstanding
        self.in_flight += in_flight
        self.decoding += decoding
        self.prompt_tokens += prompt_tokens
        self._moment += outstanding * at


class Trials:
    """Limits how often a request tests a replica that others claim is busy.

    No claim lasts untested. One limit for all replicas: a trial of a true claim waits long.
    """

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._at = float("-inf")
        self._requests = 0

    def note_request(self) -> None:
        self._requests += 1

    def take(self, now: float) -> bool:
        """Return whether a trial may start now, and count it if so."""
        if now - self._at < self._interval and self._requests < _REQUESTS_A_TRIAL:
            return False
        self._at, self._requests = now, 0
        return True
