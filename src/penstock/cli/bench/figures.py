"""Computes the figures of a run from its samples. Pure. Unknown is None, never 0."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from penstock.cli.bench.answer import OK
from penstock.cli.bench.loop_lag import LoopLag
from penstock.cli.bench.sample import STOPPED, Sample, SeenAnswer
from penstock.metering.prices import usd
from penstock.records.price import Price, cost_nanousd


class Spread(msgspec.Struct, frozen=True):
    """Milliseconds that 50 %, 95 % and 99 % of all values do not exceed."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of the closing table."""

    load: str
    model: str
    seconds: float
    requests: int
    ok: int
    stopped: int
    errors: dict[str, int]
    requests_per_second: float
    output_tokens_per_second: float | None
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    # The cached share of prompt tokens, where the cached count is known.
    hit_ratio: float | None
    first_token_ms: Spread
    # The average time between two tokens of one answer.
    per_token_ms: Spread
    answer_ms: Spread
    cost_nanousd: int | None
    cost_usd: str | None
    cost_from: Literal["server", "prices"] | None
    # The number of answers whose cost is unknown and so not in the sum.
    cost_unknown: int
    started_late_seconds: float
    # The delay of the benchmark's own event loop.
    loop_late_p99_ms: float
    loop_late_max_ms: float


def report(
    seen: SeenAnswer, lag: LoopLag, *, load: str, model: str, price: Price | None = None
) -> Report:
    """Return the figures of a run; `price` replaces the costs that the server reports."""
    counts = Counter(sample.code for sample in seen.samples)
    ok = [sample for sample in seen.samples if sample.code == OK]
    seconds = max(seen.seconds, 1e-9)
    usages = [sample.usage for sample in ok if sample.usage is not None]
    output = _sum(usage.completion_tokens for usage in usages)
    costs = [_cost(sample, price) for sample in ok]
    cost = _sum(costs)
    hits = [usage for usage in usages if usage.cached_tokens is not None]
    asked = sum(usage.prompt_tokens for usage in hits)
    cached = _sum(usage.cached_tokens for usage in hits)
    return Report(
        load=load,
        model=model,
        seconds=seen.seconds,
        requests=len(seen.samples),
        ok=len(ok),
        stopped=counts[STOPPED],
        errors={c: n for c, n in counts.most_common() if c not in {OK, STOPPED}},
        requests_per_second=len(ok) / seconds,
        output_tokens_per_second=None if output is None else output / seconds,
        prompt_tokens=_sum(usage.prompt_tokens for usage in usages),
        cached_tokens=cached,
        output_tokens=output,
        hit_ratio=cached / asked if asked and cached is not None else None,
        first_token_ms=spread(first_tokens_ms(ok)),
        per_token_ms=spread(_per_token_ms(ok)),
        answer_ms=spread([sample.seconds * 1000 for sample in ok]),
        cost_nanousd=cost,
        cost_usd=None if cost is None else usd(cost),
        cost_from=None if cost is None else "prices" if price is not None else "server",
        cost_unknown=costs.count(None),
        started_late_seconds=seen.started_late_seconds,
        loop_late_p99_ms=lag.quantile_ms(0.99),
        loop_late_max_ms=lag.quantile_ms(1.0),
    )


def first_tokens_ms(samples: Iterable[Sample]) -> list[float]:
    """Return the time to the first token of each successful answer that had one."""
    return [
        sample.first_token_seconds * 1000
        for sample in samples
        if sample.code == OK and sample.first_token_seconds is not None
    ]


def spread(values: Sequence[float]) -> Spread:
    ordered = sorted(values)
    return Spread(*(_quantile(ordered, share) for share in (0.5, 0.95, 0.99)))


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the smallest measured value that `share` of all do not exceed."""
    if not ordered:
        return None
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def _per_token_ms(samples: Iterable[Sample]) -> list[float]:
    """Return the time per token of each answer with more than one token."""
    return [
        sample.tokens_seconds * 1000 / (sample.usage.completion_tokens - 1)
        for sample in samples
        if sample.usage is not None
        and sample.usage.completion_tokens > 1
        and sample.tokens_seconds is not None
    ]


def _cost(sample: Sample, price: Price | None) -> int | None:
    if price is None:
        return sample.cost_nanousd
    return None if sample.usage is None else cost_nanousd(sample.usage, price)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
