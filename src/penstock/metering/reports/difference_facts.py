"""Puts a change into words: its two largest parts, each with a measured figure. Pure.

A figure is of the one model that moved the part most, and names it where the group has several;
a mean over models could point the other way than the part.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from penstock.metering.prices import usd
from penstock.metering.reports.difference import PeriodUse
from penstock.metering.reports.model_use import ModelTier, ModelUse
from penstock.records.price_book import Tier
from penstock.wire.resources.usage_difference import ChangeParts

# A second part that is smaller than this share of the first is not worth a reader's time.
_SECOND_MIN: Final = 0.05


class _Pair(NamedTuple):
    """One model in both periods, with its mean share of the attempts."""

    name: ModelTier
    before: ModelUse
    after: ModelUse
    weight: float


def why(before: PeriodUse, after: PeriodUse, parts: ChangeParts) -> str:
    """Return one short sentence without a full stop."""
    if not before.attempts and not after.attempts:
        return ""
    if not before.attempts:
        return f"new: {after.requests:,} requests"
    if not after.attempts:
        return f"gone: {before.requests:,} requests before"
    sizes = msgspec.structs.asdict(parts)
    ordered = sorted(sizes, key=lambda name: -abs(sizes[name]))
    least = max(abs(sizes[ordered[0]]) * _SECOND_MIN, 1)
    told = [
        _FACTS[name](before, after, sizes[name])
        for name in ordered[:2]
        if abs(sizes[name]) >= least
    ]
    return "; ".join(told) or "no change"


def _volume(before: PeriodUse, after: PeriodUse, _: int) -> str:
    return f"requests {before.requests:,} → {after.requests:,}"


def _retries(before: PeriodUse, after: PeriodUse, _: int) -> str:
    one, two = (each.attempts / max(each.requests, 1) for each in (before, after))
    return f"attempts a request {_told(one, two, 2)}"


def _models(before: PeriodUse, after: PeriodUse, _: int) -> str:
    def share(period: PeriodUse, name: ModelTier) -> float:
        use = period.models.get(name)
        return 0.0 if use is None else use.attempts / period.attempts

    names = sorted(before.models.keys() | after.models.keys())
    risen = {name: round(share(after, name) - share(before, name), 9) for name in names}
    # Of two that trade places, the one that came.
    most = max(names, key=lambda name: (abs(risen[name]), risen[name]))
    one, two = (100 * share(period, most) for period in (before, after))
    return f"{_model(most)} {_told(one, two, 0)} % of requests"


def _prompts(before: PeriodUse, after: PeriodUse, part: int) -> str:
    def moved(pair: _Pair) -> float:
        tokens = _each(pair.after.prompt_tokens, pair.after) - _each(
            pair.before.prompt_tokens, pair.before
        )
        return tokens * sum(_prompt_price(use) for use in (pair.before, pair.after))

    return _tokens("prompts", lambda use: use.prompt_tokens, moved, before, after, part)


def _answers(before: PeriodUse, after: PeriodUse, part: int) -> str:
    def moved(pair: _Pair) -> float:
        tokens = _each(pair.after.output_tokens, pair.after) - _each(
            pair.before.output_tokens, pair.before
        )
        return tokens * sum(use.token_prices[2] for use in (pair.before, pair.after))

    return _tokens("answers", lambda use: use.output_tokens, moved, before, after, part)


def _cache(before: PeriodUse, after: PeriodUse, part: int) -> str:
    def moved(pair: _Pair) -> float:
        hits = (pair.after.cached_share or 0) - (pair.before.cached_share or 0)
        prompts = sum(_each(use.prompt_tokens, use) for use in (pair.before, pair.after))
        full, cached, _ = pair.after.token_prices
        return hits * prompts * (cached - full)

    found = _most(before, after, moved, part)
    if found is None:
        return "hit ratio"
    one, two = found.before.hit_ratio, found.after.hit_ratio
    if one is None or two is None:
        return f"{_of(found, before, after)}hit ratio not always known"
    return f"{_of(found, before, after)}hit ratio {_told(100 * one, 100 * two, 0)} %"


def _price(before: PeriodUse, after: PeriodUse, part: int) -> str:
    def cost(pair: _Pair, prices: tuple[float, float, float]) -> float:
        uses = (pair.before, pair.after)
        return sum(
            use.uncached_tokens * prices[0]
            + use.cached_tokens * prices[1]
            + use.output_tokens * prices[2]
            for use in uses
        )

    def moved(pair: _Pair) -> float:
        return cost(pair, pair.after.token_prices) - cost(pair, pair.before.token_prices)

    found = _most(before, after, moved, part)
    if found is None:
        return "prices"
    old = cost(found, found.before.token_prices)
    share = f"{100 * moved(found) / old:+.1f} %" if old else "from nothing"
    return f"{_of(found, before, after)}prices {share}"


def _uncharged(before: PeriodUse, after: PeriodUse, _: int) -> str:
    one, two = (each.list_nanousd - each.charge_nanousd for each in (before, after))
    if one < 0 or two < 0:
        # The catalogue's prices are not those that were charged.
        return f"charged above list {_signed_usd(-one)} → {_signed_usd(-two)}"
    return f"not charged {_signed_usd(one)} → {_signed_usd(two)}"


_FACTS: Final[dict[str, Callable[[PeriodUse, PeriodUse, int], str]]] = {
    "volume": _volume,
    "retries": _retries,
    "models": _models,
    "prompts": _prompts,
    "cache": _cache,
    "answers": _answers,
    "price": _price,
    "uncharged": _uncharged,
}


def _tokens(
    title: str,
    tokens: Callable[[ModelUse], int],
    moved: Callable[[_Pair], float],
    before: PeriodUse,
    after: PeriodUse,
    part: int,
) -> str:
    found = _most(before, after, moved, part)
    if found is None:
        return title
    more = _each(tokens(found.after), found.after) - _each(tokens(found.before), found.before)
    count = f"{more:+,.0f}" if abs(more) >= 10 else f"{more:+.1f}"
    return f"{_of(found, before, after)}{title} {count} tokens a request"


def _most(
    before: PeriodUse, after: PeriodUse, moved: Callable[[_Pair], float], part: int
) -> _Pair | None:
    """Return the model, used in both periods, that moved most in the direction of the part."""
    pairs = []
    for name in sorted(before.models.keys() & after.models.keys()):
        one, two = before.models[name], after.models[name]
        if one.attempts and two.attempts:
            weight = one.attempts / before.attempts + two.attempts / after.attempts
            pairs.append(_Pair(name, one, two, weight))
    sign = 1 if part > 0 else -1
    best = max(pairs, key=lambda pair: sign * pair.weight * moved(pair), default=None)
    return best if best is not None and sign * moved(best) > 0 else None


def _of(pair: _Pair, before: PeriodUse, after: PeriodUse) -> str:
    """Return the model's name where it is not the only one."""
    is_only = len(before.models.keys() | after.models.keys()) == 1
    return "" if is_only else f"{_model(pair.name)} "


def _model(name: ModelTier) -> str:
    model, tier = name
    short = model.rpartition("/")[2]
    return short if tier == Tier.NOW else f"{short} ({tier})"


def _each(tokens: int, use: ModelUse) -> float:
    return tokens / use.attempts


def _prompt_price(use: ModelUse) -> float:
    full, cached, _ = use.token_prices
    hit = use.cached_share or 0.0
    return hit * cached + (1 - hit) * full


def _told(one: float, two: float, digits: int) -> str:
    """Return both figures, with one digit more where they would look the same."""
    if f"{one:.{digits}f}" == f"{two:.{digits}f}":
        digits += 1
    return f"{one:.{digits}f} → {two:.{digits}f}"


def _signed_usd(nanousd: int) -> str:
    """Return dollars with cents, or with millionths where that is less than a cent."""
    whole, _, part = usd(abs(nanousd)).partition(".")
    digits = 2 if abs(nanousd) >= 10**7 or not nanousd else 6
    return f"{'-' if nanousd < 0 else ''}${int(whole):,}.{part[:digits]}"
