"""What other gateways and keepers say of one replica: added up and clamped."""

from typing import Final

from penstock.records.signal import LoadClaim

# Besides those that time allows, one request in so many may be a trial.
_REQUESTS_A_TRIAL: Final = 32


class PeerLoads:
    """The sums over all other hosts' workers. A sender's new claim takes the place of its last."""

    def __init__(self) -> None:
        # outstanding, in flight, decoding, prompt tokens, and when that was so.
        self._by_sender: dict[int, tuple[int, int, int, int, float]] = {}
        self._head_sender = 0
        # The sum of outstanding x time: the mean moment of the claims is known without a loop.
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
        """At most a full KV cache is believed: no more can run there."""
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
        """It says nothing of this replica any more."""
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
    """How often a request may go where others' claims would keep it away: no claim lasts untried.

    Bounded over all replicas: where the claims are true, each trial is a request that waits long.
    """

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._at = float("-inf")
        self._requests = 0

    def note_request(self) -> None:
        self._requests += 1

    def take(self, now: float) -> bool:
        """Whether one may be made now; if so, it is."""
        if now - self._at < self._interval and self._requests < _REQUESTS_A_TRIAL:
            return False
        self._at, self._requests = now, 0
        return True
