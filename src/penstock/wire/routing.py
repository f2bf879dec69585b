"""`POST /v1/routing/explain`: which replica a request would go to now, and why. Nothing is sent."""

import msgspec


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that could take the request, and what that would cost, in seconds of prefill."""

    replica: str
    # Prompt tokens that are expected in its cache.
    cached_tokens: int
    # What waits there before it could begin.
    wait_seconds: float
    # The time that its own uncached tokens take.
    own_seconds: float
    # What these make others wait.
    harm_seconds: float
    # A price for a KV cache that would be nearly full.
    full_seconds: float
    # The sum: least wins.
    cost_seconds: float
    in_flight: int
    # Whether its cost is as good as the least.
    is_near: bool


class RoutingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one gateway worker would do at this moment; candidates are cheapest first."""

    model: str
    session: str
    prompt_tokens: int
    replica: str
    # `least`, `last`, `home`, `rank`, `strict`, `short` or `left`; `reason` is the same in words.
    why: str
    reason: str
    # Where the session was last; empty when that is not known.
    last_replica: str
    session_moved: str
    cache_break: str
    # Whether other gateway workers are heard: `alone`, `heard` or `silent`.
    peers: str
    near_margin: float
    candidates: list[Candidate]
    object: str = "routing.explanation"
