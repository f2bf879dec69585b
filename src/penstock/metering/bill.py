"""Computes an attempt's charge from its usage, also where cached tokens are estimated. Pure."""

from typing import Final

from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage

# The tokens are not charged, because the caller does not owe them.
NOT_DELIVERED: Final = "not_delivered"
# A job's attempt is charged only by the job's completion, if at all.
JOB: Final = "job"
# The charge is for the gateway's estimate, because the engine did not report the tokens.
ESTIMATED: Final = "estimated"


class Bill:
    """Usage as the ledger stores it, and its charge. Immutable."""

    def __init__(
        self,
        usage: Usage | None = None,
        charge_nanousd: int = 0,
        reason: str = "",
        is_cached_estimated: bool = False,
    ) -> None:
        self.usage = usage
        self.charge_nanousd = charge_nanousd
        # Why the charge is 0 although tokens were made, or that the tokens are an estimate.
        self.reason = reason
        self.is_cached_estimated = is_cached_estimated


_NOTHING: Final = Bill()


def bill(
    usage: Usage | None,
    price: Price,
    *,
    is_owed: bool = True,
    cut_expecting: int | None = None,
) -> Bill:
    """Return the bill for a usage: 0 if the usage is unknown or the caller does not owe it.

    Engines report only at the end how much of a prompt was cached. For a stream cut before its
    end, `cut_expecting` is the cached part that routing expected, billed at the cached price.
    An estimated usage has its own cached part, or none.
    """
    if usage is None:
        return _NOTHING
    is_cached_estimated = usage.is_estimated and usage.cached_tokens is not None
    if cut_expecting is not None and usage.cached_tokens is None and not usage.is_estimated:
        cached = min(cut_expecting, usage.prompt_tokens)
        usage = Usage(usage.prompt_tokens, usage.completion_tokens, cached)
        is_cached_estimated = True
    if not is_owed:
        return Bill(usage, 0, NOT_DELIVERED, is_cached_estimated)
    reason = ESTIMATED if usage.is_estimated else ""
    return Bill(usage, cost_nanousd(usage, price), reason, is_cached_estimated)


def withheld(billed: Bill) -> Bill:
    """Return the bill of a job's attempt with the charge removed."""
    if billed.usage is None or billed.reason == NOT_DELIVERED:
        return billed
    return Bill(billed.usage, 0, JOB, billed.is_cached_estimated)
