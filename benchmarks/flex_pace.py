"""How fast live requests of the flex benchmark come: by what the engine itself can read. Pure."""

from collections.abc import Sequence
from statistics import median

import msgspec


class Prefill(msgspec.Struct, frozen=True):
    """One prompt that an idle engine has read: its uncached tokens, and the time to a token."""

    tokens: int
    seconds: float


def prefill_rate(measured: Sequence[Prefill]) -> float:
    """Uncached prompt tokens that the engine reads in a second: the median of the single rates."""
    return median(each.tokens / each.seconds for each in measured)


def interval_seconds(tokens: float, rate: float, load: float) -> float:
    """The pause between live prompts of `tokens` at which they take `load` of the engine's rate."""
    if not (tokens > 0 and rate > 0 and 0 < load < 1):
        raise ValueError(f"no pace for {tokens} tokens at {rate} a second and a load of {load}")
    return tokens / (rate * load)


def read_loads(text: str) -> tuple[float, ...]:
    """Shares of the engine's prefill rate, separated by commas."""
    loads = tuple(float(each) for each in text.split(","))
    if not all(0 < load < 1 for load in loads):
        raise ValueError(f"{text}: a load is more than 0 and less than 1")
    return loads
