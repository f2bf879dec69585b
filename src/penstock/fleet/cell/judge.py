"""Compares a canary with the revision that it is to replace. Pure."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from penstock.records.deployment import HaltLines

# Fewer requests on either side say too little.
REQUESTS_MIN: Final = 200
# How many standard errors a difference must exceed: looks are many, and few may be wrong.
_Z: Final = 3.0


class Side(msgspec.Struct, frozen=True):
    """What the replicas of one revision did in the minutes that are compared."""

    requests: int = 0
    failed: int = 0
    # First-token times, sorted.
    first_token_ms: Sequence[float] = ()


class Verdict(StrEnum):
    """What a comparison says."""

    TOO_FEW = "too few requests"
    EQUAL = "no worse"
    WORSE = "worse"


def judge(canary: Side, stable: Side, lines: HaltLines) -> tuple[Verdict, str]:
    """Return whether a canary is worse than it may be, and the figures in words."""
    if min(canary.requests, stable.requests) < REQUESTS_MIN:
        counts = f"{canary.requests} and {stable.requests} requests"
        return Verdict.TOO_FEW, f"{counts}; at least {REQUESTS_MIN} on each side are compared"
    failed, before = canary.failed / canary.requests, stable.failed / stable.requests
    shares = f"{failed:.1%} of requests failed, {before:.1%} before"
    is_clear = _lower_bound(canary.failed, canary.requests) > before
    if failed > before + lines.error_ratio and is_clear:
        return Verdict.WORSE, shares
    mine, theirs = _median(canary.first_token_ms), _median(stable.first_token_ms)
    if mine is None or theirs is None:
        return Verdict.EQUAL, shares
    times = f"first token {mine:.0f} ms, {theirs:.0f} ms before"
    if mine > theirs * lines.first_token_ratio and _is_apart(canary, stable):
        return Verdict.WORSE, times
    return Verdict.EQUAL, f"{shares}; {times}"


def _lower_bound(count: int, of: int) -> float:
    """Return the lower end of Wilson's interval for a share."""
    share, z2 = count / of, _Z * _Z
    centre = share + z2 / (2 * of)
    spread = _Z * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return (centre - spread) / (1 + z2 / of)


def _median(times: Sequence[float]) -> float | None:
    return times[len(times) // 2] if times else None


def _is_apart(canary: Side, stable: Side) -> bool:
    """Return whether the medians' intervals do not touch, by ranks: times have no known shape."""
    low = _rank(canary.first_token_ms, -_Z)
    high = _rank(stable.first_token_ms, _Z)
    return low > high


def _rank(times: Sequence[float], z: float) -> float:
    count = len(times)
    at = round(count / 2 + z * math.sqrt(count) / 2)
    return times[min(max(at, 0), count - 1)]
