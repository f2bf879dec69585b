"""Explains an attempt's charge to people, in dollars."""

from decimal import Decimal

from penstock.cli.dollars import exact_usd
from penstock.metering.bill import ESTIMATED
from penstock.records.price import ONCE
from penstock.wire.resources.usage import AttemptAnswer


def charge_line(attempt: AttemptAnswer) -> str:
    """Return how the charge was calculated, without kinds of tokens that did not occur."""
    steps = attempt.calculation
    terms = [
        f"{line.tokens:,} {line.kind} x {_usd(line.nanousd_per_mtok)}"
        for line in steps.lines
        if line.tokens
    ]
    if not terms:
        return _usd(attempt.charge_nanousd)
    tier = "" if steps.multiplier_bp == ONCE else f" x {steps.multiplier_bp / ONCE:g} for the tier"
    text = f"({' + '.join(terms)}) / 1 million{tier} = {_usd(steps.calculated_nanousd)}"
    reason = attempt.charge_reason
    if steps.calculated_nanousd != attempt.charge_nanousd:
        return f"{text}; charged {_usd(attempt.charge_nanousd)}" + (f": {reason}" if reason else "")
    return f"{text}; the tokens are estimated" if reason == ESTIMATED else text


def _usd(nanousd: int) -> str:
    return exact_usd(Decimal(nanousd).scaleb(-9))
