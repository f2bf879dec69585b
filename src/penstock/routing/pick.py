"""The routing rule, pure: least total latency of all requests. docs/routing.md has the figures.

    cost = own time + what the uncached tokens make others wait + a price for a nearly full KV cache

The lowest cost wins. Within a few percent of it the session's last replica wins, else one of the
two that all gateways rank first for it; while other gateways are silent, the session's home.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.records.signal import PeerState
from penstock.routing.home import rank
from penstock.routing.known_replica import KnownReplica

# The share of the KV cache above which a request is expected to push others out of it.
KV_FULL: Final = 0.95
# Each token beyond that share costs as much as prefilling three quarters of a token.
KV_WEIGHT: Final = 0.75
# Added to the harm weight of an uncached token for each request that decodes there.
DECODING_WEIGHT: Final = 0.005
# The cost of each decoding request, in tokens: else short prompts pile up where they are cached.
DECODING_TOKENS: Final = 16


class Weighing:
    """The figures that the costs of all candidates for one request share."""

    def __init__(self, prompt_tokens: int, pace: float, harm_weight: float, now: float) -> None:
        self.prompt_tokens = prompt_tokens
        # Seconds of prefill for a token, the mean of the fleet.
        self.pace = pace
        self.harm_weight = harm_weight
        self.now = now


class Terms(NamedTuple):
    """The parts of a cost, in seconds."""

    wait: float
    own: float
    harm: float
    full: float


def terms(weighing: Weighing, known: KnownReplica, cached: int) -> Terms:
    """Return the parts of the cost of sending the request to this replica."""
    uncached = max(1, weighing.prompt_tokens - cached)
    own = known.own
    decoding = own.decoding + known.others_decoding
    beyond = own.prompt_tokens + known.others_tokens + uncached - KV_FULL * known.kv_tokens
    return Terms(
        known.seconds_per_token * known.queue(weighing.now),
        known.seconds_per_token * uncached,
        weighing.pace
        * (
            uncached * (weighing.harm_weight + DECODING_WEIGHT * decoding)
            + DECODING_TOKENS * decoding
        ),
        weighing.pace * KV_WEIGHT * max(0.0, beyond),
    )


def costs(weighing: Weighing, candidates: list[KnownReplica], cached: list[int]) -> list[float]:
    """Return the sum of `terms` for each candidate, in one loop: it runs for every request."""
    prompt_tokens, now = weighing.prompt_tokens, weighing.now
    pace, harm_weight = weighing.pace, weighing.harm_weight
    out = []
    for at in range(len(candidates)):
        known, hit = candidates[at], cached[at]
        uncached = prompt_tokens - hit if hit < prompt_tokens else 1
        own = known.own
        wait = float(uncached)
        if own.queued_tokens or known.others_in_flight:
            wait += known.queue(now)
        decoding = own.decoding + known.others_decoding
        beyond = own.prompt_tokens + known.others_tokens + uncached - KV_FULL * known.kv_tokens
        cost = uncached * (harm_weight + DECODING_WEIGHT * decoding) + DECODING_TOKENS * decoding
        if beyond > 0:
            cost += KV_WEIGHT * beyond
        out.append(known.seconds_per_token * wait + pace * cost)
    return out


def choose(
    near: Sequence[KnownReplica],
    *,
    last: KnownReplica | None,
    home: KnownReplica | None,
    session: int,
    peers: PeerState,
) -> KnownReplica:
    """Return one of the near-ties, given cheapest first. Gateways that agree split no cache."""
    is_silent = peers is PeerState.SILENT
    if is_silent and home is not None and home in near:
        # Other gateways do not know where this one sent the session last; all agree on its home.
        return home
    if last is not None and last in near:
        return last
    if len(near) == 1 or not session:
        return near[0]
    ranked = sorted(near, key=lambda known: rank(session, known.id), reverse=True)
    if is_silent:
        return ranked[0]
    first, second = ranked[0], ranked[1]
    return second if second.live_in_flight < first.live_in_flight else first
