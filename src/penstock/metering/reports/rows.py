"""Turns database rows into answers: ratios, money as text, a charge step by step. Pure."""

from typing import Any, Final

from penstock.metering.bill import ESTIMATED
from penstock.metering.prices import usd
from penstock.metering.reports.quantiles import quantile_ms
from penstock.metering.reports.statement import knows_refusals
from penstock.metering.reports.sums import BUCKETS, NAMES
from penstock.records.price import ONCE, Price, cost_nanousd
from penstock.records.usage import Usage
from penstock.wire.resources.usage import (
    AttemptAnswer,
    Calculation,
    ChargeLine,
    RequestAnswer,
    Turn,
    UsageRow,
)
from penstock.wire.resources.usage_query import UsageQuery

# Columns of `usage_attempts`, in the order of AttemptAnswer's fields.
ATTEMPT_COLUMNS: Final = tuple(
    name for name in AttemptAnswer.__struct_fields__ if name not in {"charge_usd", "calculation"}
)
_NO_SUMS: Final = (0,) * (len(NAMES) - 1) + ((0,) * BUCKETS,)


def usage_row(query: UsageQuery, row: tuple[Any, ...]) -> UsageRow:
    """Convert one row of `usage_statement`. A row of refusals alone has no sums."""
    start, rest = row[0], row[1:]
    labels, sums = rest[: len(query.group_by)], rest[len(query.group_by) : -1]
    known = dict(zip(NAMES, _NO_SUMS if sums[0] is None else sums, strict=True))
    histogram = known.pop("first_token")
    prompt_known = known.pop("prompt_tokens_known")
    cost, saved = known.pop("charge_nanousd"), known.pop("saved_nanousd")
    return UsageRow(
        **known,
        start=None if query.by is None else start,
        labels=dict(zip(map(str, query.group_by), labels, strict=True)),
        hit_ratio=ratio(known["cached_tokens"], prompt_known),
        cost_nanousd=cost,
        cost_usd=usd(cost),
        saved_nanousd=saved,
        saved_usd=usd(saved),
        first_token_p50_ms=quantile_ms(histogram, 0.5),
        first_token_p95_ms=quantile_ms(histogram, 0.95),
        retry_success=ratio(known["retried_ok"], known["retried"]),
        refusals=(row[-1] or {}) if knows_refusals(query) else None,
    )


def turn(row: tuple[Any, ...]) -> Turn:
    """Convert one row of a session's turns: Turn's fields in order, without the derived ones."""
    number, request, asked_at, model, outcome, prompt, cached, output, first, *others = row
    duration, cost, replica, session_moved, cache_break = others
    return Turn(
        number=number,
        request=str(request),
        asked_at=asked_at,
        model=model,
        outcome=outcome,
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=output,
        tokens=None if prompt is None else prompt + (output or 0),
        first_token_ms=first,
        duration_ms=duration,
        cost_nanousd=cost,
        cost_usd=usd(cost),
        replica=replica,
        session_moved=session_moved,
        cache_break=cache_break,
    )


def request_answer(rows: list[tuple[Any, ...]]) -> RequestAnswer:
    """Convert one request's rows: at least one, of ATTEMPT_COLUMNS, in order of attempts."""
    attempts = [_attempt(row) for row in rows]
    cost = sum(each.charge_nanousd for each in attempts)
    first = attempts[0]
    return RequestAnswer(
        id=first.request,
        account=first.account,
        asked_at=first.asked_at,
        cost_nanousd=cost,
        cost_usd=usd(cost),
        attempts=attempts,
    )


def calculation(usage: Usage, price: Price, *, charge_nanousd: int, reason: str) -> Calculation:
    """Explain a charge step by step, as `cost_nanousd` computes it."""
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    kinds = (
        ("uncached", usage.prompt_tokens - cached, price.input_nanousd_per_mtok),
        ("cached", cached, price.cached_input_nanousd_per_mtok),
        ("output", usage.completion_tokens, price.output_nanousd_per_mtok),
    )
    lines = [
        ChargeLine(kind=kind, tokens=tokens, nanousd_per_mtok=each, product=tokens * each)
        for kind, tokens, each in kinds
    ]
    cost = cost_nanousd(usage, price)
    terms = " + ".join(f"{line.tokens} {line.kind} x {line.nanousd_per_mtok}" for line in lines)
    text = f"({terms}) x {price.multiplier_bp}/{ONCE} / 1000000 = {cost} nano-dollars"
    if cost != charge_nanousd:
        text += f"; charged {charge_nanousd}" + (f": {reason}" if reason else "")
    elif reason == ESTIMATED:
        text += "; the tokens are estimated"
    return Calculation(
        lines=lines, multiplier_bp=price.multiplier_bp, calculated_nanousd=cost, text=text
    )


def ratio(part: int, whole: int) -> float | None:
    """Return part / whole; None, never 0, if the ratio is unknown because `whole` is 0."""
    return part / whole if whole else None


def _attempt(row: tuple[Any, ...]) -> AttemptAnswer:
    columns = dict(zip(ATTEMPT_COLUMNS, row, strict=True))
    columns["request"] = str(columns["request"])
    usage = Usage(
        prompt_tokens=columns["prompt_tokens"] or 0,
        completion_tokens=columns["output_tokens"] or 0,
        cached_tokens=columns["cached_tokens"],
    )
    price = Price(
        columns["input_nanousd_per_mtok"],
        columns["cached_input_nanousd_per_mtok"],
        columns["output_nanousd_per_mtok"],
        columns["multiplier_bp"],
    )
    charge = columns["charge_nanousd"]
    return AttemptAnswer(
        **columns,
        charge_usd=usd(charge),
        calculation=calculation(
            usage, price, charge_nanousd=charge, reason=columns["charge_reason"]
        ),
    )
