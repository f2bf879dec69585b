"""Splits the change of a group's charges between two periods into eight parts. Pure.

A group's list cost is a product and sum of seven factors:

    requests x attempts per request x sum over models (share of the attempts
        x (prompt tokens x price by hit ratio + output tokens x output price))

Each factor's part is its exact Shapley share: the mean, over all orders in which the seven factors
could have changed one after another, of what the cost changes when this one does. So no order is
preferred, and swapping the periods negates each part. The eighth part is the rest: what was charged
changes otherwise than the list cost, because callers left, jobs failed, or tokens were estimated.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import factorial, fsum
from operator import add
from typing import Final, NamedTuple

import msgspec

from penstock.metering.reports.model_use import ModelTier, ModelUse
from penstock.wire.resources.usage_difference import ChangeParts

FACTORS: Final = ("volume", "retries", "models", "prompts", "cache", "answers", "price")
_COUNT: Final = len(FACTORS)
# The factors behind volume and retries, in the order of the bits of a mask: a set bit takes that
# factor from the later period.
_INNER: Final = _COUNT - 2
_MASKS: Final = range(2**_INNER)


class PeriodUse(msgspec.Struct, frozen=True):
    """What one group used in one period."""

    requests: int
    models: Mapping[ModelTier, ModelUse]

    @property
    def attempts(self) -> int:
        return sum(each.attempts for each in self.models.values())

    @property
    def charge_nanousd(self) -> int:
        return sum(each.charge_nanousd for each in self.models.values())

    @property
    def list_nanousd(self) -> int:
        """The list cost, rounded once."""
        return ModelUse.rounded(sum(each.list_units for each in self.models.values()))


class _Terms(NamedTuple):
    """One model's factors in one period."""

    share: float
    prompt: float
    hit: float
    output: float
    prices: tuple[float, float, float]


class _Sides(NamedTuple):
    """The factors of both periods: volume, retries, and the terms of each model."""

    volume: tuple[float, float]
    retries: tuple[float, float]
    models: list[tuple[_Terms, _Terms]]


def difference(before: PeriodUse, after: PeriodUse) -> ChangeParts:
    """Return the parts of the change of the charges; they add up to it to the nano-dollar."""
    parts = [round(share) for share in _shares(_sides(before, after))]
    largest = max(range(_COUNT), key=lambda number: abs(parts[number]))
    if parts[largest]:
        # Rounding leaves a few nano-dollars; where they go must not depend on a direction.
        parts[largest] += after.list_nanousd - before.list_nanousd - sum(parts)
    change = after.charge_nanousd - before.charge_nanousd
    named = dict(zip(FACTORS, parts, strict=True))
    return ChangeParts(**named, uncharged=change - sum(parts))


def added(parts: Sequence[ChangeParts]) -> ChangeParts:
    """Return the sums of several groups' parts."""
    names = ChangeParts.__struct_fields__
    return ChangeParts(**{name: sum(getattr(each, name) for each in parts) for name in names})


def _sides(before: PeriodUse, after: PeriodUse) -> _Sides:
    """Return the factors; what a period does not have is taken as in the other one.

    So the whole change of a group that is new or gone is volume, and of a model is models.
    """
    one_total, two_total = before.attempts, after.attempts
    # A first attempt may be missing: its row could not be written, or is not drained yet.
    first, second = before.requests or one_total, after.requests or two_total
    retries = (
        _ratio(one_total, first) or _ratio(two_total, second) or 1.0,
        _ratio(two_total, second) or _ratio(one_total, first) or 1.0,
    )
    models = []
    # In one order, so that swapped periods calculate with the very same numbers.
    for name in sorted(before.models.keys() | after.models.keys()):
        one, two = _used(before, name), _used(after, name)
        if one is None and two is None:
            continue
        models.append(
            (
                _terms(one_total, one, two_total, two),
                _terms(two_total, two, one_total, one),
            )
        )
    return _Sides((first, second), retries, models)


def _used(period: PeriodUse, name: ModelTier) -> ModelUse | None:
    use = period.models.get(name)
    return use if use is not None and use.attempts else None


def _terms(total: int, use: ModelUse | None, other_total: int, other: ModelUse | None) -> _Terms:
    """Return a model's terms in a period, from the other period where this one has none."""
    known, also = use or other, other or use
    assert known is not None, "one of the two periods has it"
    assert also is not None, "one of the two periods has it"
    if total:
        share = 0.0 if use is None else use.attempts / total
    else:
        share = 0.0 if other is None else other.attempts / other_total
    hit = known.cached_share
    if hit is None:
        hit = also.cached_share or 0.0
    return _Terms(
        share,
        known.prompt_tokens / known.attempts,
        hit,
        known.output_tokens / known.attempts,
        known.token_prices,
    )


def _weight(others: int) -> float:
    """Return the share of all orders in which exactly these many others come first."""
    return factorial(others) * factorial(_COUNT - 1 - others) / factorial(_COUNT)


_WEIGHTS: Final = tuple(_weight(others) for others in range(_COUNT))
# The masks by how many bits they have.
_BY_SIZE: Final = tuple(
    tuple(mask for mask in _MASKS if mask.bit_count() == size) for size in range(_INNER + 1)
)
# For each inner factor: the masks without it, with it as a second one, by how many bits they have.
_STEPS: Final = tuple(
    tuple(
        tuple((mask, mask | 1 << number) for mask in masks if not mask >> number & 1)
        for masks in _BY_SIZE[:-1]
    )
    for number in range(_INNER)
)


def _shares(sides: _Sides) -> list[float]:
    """Return each factor's share, in the order of FACTORS.

    Volume and retries multiply everything behind them, and a share's weight depends only on how
    many factors came before. So the changes of the inner cost are summed by that number first, and
    multiplied once: a quarter of the time that all 128 costs take. `fsum` does not depend on the
    order of its terms, so swapped periods give exactly the negative shares.
    """
    costs = _inner_costs(sides.models)
    sums = [fsum(costs[mask] for mask in masks) for masks in _BY_SIZE]
    volume, retries = sides.volume, sides.retries
    none = volume[0] * retries[0]
    one = volume[1] * retries[0] + volume[0] * retries[1]
    both = volume[1] * retries[1]
    outer = [
        fsum((none * first, one * second, both * third))
        for first, second, third in zip(_WEIGHTS, _WEIGHTS[1:], _WEIGHTS[2:], strict=False)
    ]
    return [
        (volume[1] - volume[0]) * _beside(retries, sums),
        (retries[1] - retries[0]) * _beside(volume, sums),
        *(
            fsum(
                weight * fsum(costs[with_] - costs[without] for without, with_ in steps)
                for weight, steps in zip(outer, by_size, strict=True)
            )
            for by_size in _STEPS
        ),
    ]


def _beside(other: tuple[float, float], sums: Sequence[float]) -> float:
    """Return the mean, over all orders, of the other outer factor times the inner cost."""
    pairs = pairwise(_WEIGHTS)
    return fsum(
        total * (other[0] * first + other[1] * second)
        for total, (first, second) in zip(sums, pairs, strict=True)
    )


def _inner_costs(models: Iterable[tuple[_Terms, _Terms]]) -> list[float]:
    """Return the cost of one attempt by mask."""
    costs = [0.0] * len(_MASKS)
    for one, two in models:
        # The last bit changes slowest.
        found = [
            share * (prompt * (hit * cached + (1 - hit) * uncached) + output * output_price)
            for uncached, cached, output_price in (one.prices, two.prices)
            for output in (one.output, two.output)
            for hit in (one.hit, two.hit)
            for prompt in (one.prompt, two.prompt)
            for share in (one.share, two.share)
        ]
        costs = list(map(add, costs, found))
    return costs


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
