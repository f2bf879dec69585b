"""`POST /v1/routing/explain`: which replica a request would go to now, and why. Nothing is sent."""

import msgspec


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that could take the request, and what that would cost.

    A runtime key gets ratios only; seconds and counts, which show the load of all accounts, are
    for operator keys and null for others.
    """

    replica: str
    # Prompt tokens that are expected in its cache.
    cached_tokens: int
    # Its cost over that of the cheapest candidate.
    cost_ratio: float
    # Its requests in flight over those of the candidate that has most; 0 if none has any.
    load_ratio: float
    # Whether its cost is as good as the least.
    is_near: bool
    # What waits there before it could begin, in seconds of prefill as the next four.
    wait_seconds: float | None = None
    # The time that its own uncached tokens take.
    own_seconds: float | None = None
    # What these make others wait.
    harm_seconds: float | None = None
    # A price for a KV cache that would be nearly full.
    full_seconds: float | None = None
    # The sum: least wins.
    cost_seconds: float | None = None
    # Requests of all accounts that it works on.
    in_flight: int | None = None


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
