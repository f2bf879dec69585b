"""From what an attempt used to what it is charged; also where cached tokens are estimated. Pure."""

from typing import Final

from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage

# Why tokens that an engine made are not charged.
NOT_DELIVERED: Final = "not_delivered"
# An attempt of a job: the job's completion charges it, if it does.
JOB: Final = "job"
# The tokens are the gateway's estimate, and charged: the engine did not report them.
ESTIMATED: Final = "estimated"


class Bill:
    """Usage as the ledger has it, and its charge. Nobody changes it."""

    def __init__(
        self,
        usage: Usage | None = None,
        charge_nanousd: int = 0,
        reason: str = "",
        is_cached_estimated: bool = False,
    ) -> None:
        self.usage = usage
        self.charge_nanousd = charge_nanousd
        # Why the charge is 0 where tokens were made; or that the tokens are an estimate.
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
    """What is charged for this usage: nothing if it is unknown, or if the caller does not owe it.

    Engines report only at the end how much of a prompt was cached. For a stream that was cut
    before, `cut_expecting` is what routing expected: the caller pays for a cached prompt as such.
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
    """What an attempt of a job is charged by itself: nothing, whatever it made."""
    if billed.usage is None or billed.reason == NOT_DELIVERED:
        return billed
    return Bill(billed.usage, 0, JOB, billed.is_cached_estimated)
