"""Decides which of a model's replicas are slow, by their first tokens. Pure."""

import statistics
from collections.abc import Mapping
from typing import Final

# Fewer requests say too little of a replica.
REQUESTS_MIN: Final = 10
_SLOWER: Final = 1.5


def median_if_slow(replica: str, first_token_p50_ms: Mapping[str, float]) -> float | None:
    """Return the median of the model's other replicas if this one is much slower; else None."""
    own = first_token_p50_ms.get(replica)
    others = [time for name, time in first_token_p50_ms.items() if name != replica]
    if own is None or not others:
        return None
    median = statistics.median(others)
    return median if median and own >= median * _SLOWER else None
