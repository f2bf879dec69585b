"""`POST /v1/routing/explain`: which replica would get a request now, and why. Nothing is sent."""

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
    # Its requests in flight over those of the candidate with most; 0 if there are none.
    load_ratio: float
    # Whether its cost is within the near-tie margin of the least.
    is_near: bool
    # The wait before the request could begin, in seconds of prefill like the next four.
    wait_seconds: float | None = None
    # The time that the request's own uncached tokens take.
    own_seconds: float | None = None
    # The time that these tokens make other requests wait.
    harm_seconds: float | None = None
    # A price for a KV cache that would be nearly full.
    full_seconds: float | None = None
    # The sum; the lowest wins.
    cost_seconds: float | None = None
    # Requests of all accounts in flight at this replica.
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
    # The session's last replica; empty when that is not known.
    last_replica: str
    session_moved: str
    cache_break: str
    # Whether other gateway workers are heard: `alone`, `heard` or `silent`.
    peers: str
    near_margin: float
    candidates: list[Candidate]
    object: str = "routing.explanation"
