"""Computes quantiles from the histogram of first-token times (`first_token_bucket`). Pure.

Bucket i holds times up to 2^(2 + i/4) ms, four buckets to each doubling. A quantile is interpolated
within its bucket, so its error is at most a factor of 2^(1/4), 19 %; except in the first bucket
(up to 4 ms) and the last (all above 185 s), which have only one bound.
"""

from collections.abc import Sequence
from typing import Final

_RATIO: Final = 2**0.25


def quantile_ms(counts: Sequence[int], share: float) -> float | None:
    """Return the time that `share` of all times do not exceed; None if there are no times."""
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
    # Interpolate on the logarithmic scale, on which all buckets have the same width.
    return float(upper / _RATIO ** (1 - share))
