"""Quantiles out of the histogram of first-token times (`first_token_bucket`). Pure.

Bucket i holds times up to 2^(2 + i/4) ms, four buckets to each doubling. A quantile is interpolated
within its bucket, so it is off by at most 2^(1/4), 19 %; but for the first bucket (up to 4 ms) and
the last (all above 186 s), which have no other end.
"""

from collections.abc import Sequence
from typing import Final

_RATIO: Final = 2**0.25


def quantile_ms(counts: Sequence[int], share: float) -> float | None:
    """The time that `share` of all were not slower than; None when there are none."""
    rank = share * sum(counts)
    seen = 0
    for bucket, count in enumerate(counts):
        if count and seen + count >= rank:
            return round(_within(bucket, (rank - seen) / count), 1)
        seen += count
    return None


def _within(bucket: int, share: float) -> float:
    upper: float = 2 ** (2 + bucket / 4)
    if bucket == 0:
        return upper * share
    # Evenly on the scale that the buckets are even on.
    return float(upper / _RATIO ** (1 - share))
