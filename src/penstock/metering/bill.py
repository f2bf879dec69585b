"""From what an attempt used to what it is charged; also where cached tokens are estimated. Pure."""

from typing import Final

from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage

# Why tokens that an engine made are not charged.
NOT_DELIVERED: Final = "not_delivered"
# An attempt of a job: the job's completion charges it, if it does.
JOB: Final = "job"
# A stream of an API that counts at its end only, cut before that.
USAGE_UNKNOWN: Final = "usage_unknown"


class Bill:
    """Usage as the ledger has it, and its charge. Nobody changes it."""

    __slots__ = ("charge_nanousd", "is_cached_estimated", "reason", "usage")

    def __init__(
        self,
        usage: Usage | None = None,
        charge_nanousd: int = 0,
        reason: str = "",
        is_cached_estimated: bool = False,
    ) -> None:
        self.usage = usage
        self.charge_nanousd = charge_nanousd
        # Why the charge is 0 where tokens were made.
        self.reason = reason
        self.is_cached_estimated = is_cached_estimated


_NOTHING: Final = Bill()
_UNKNOWN: Final = Bill(reason=USAGE_UNKNOWN)


def bill(
    usage: Usage | None,
    price: Price,
    *,
    is_delivered: bool = True,
    cut_expecting: int | None = None,
) -> Bill:
    """What is charged for this usage.

    Engines say only at the end how much of a prompt was cached. For a stream that was cut before,
    `cut_expecting` is what routing expected to be: the caller pays for a cached prompt as such.
    """
    if usage is None:
        return _UNKNOWN if is_delivered else _NOTHING
    is_estimated = False
    if cut_expecting is not None and usage.cached_tokens is None:
        cached = min(cut_expecting, usage.prompt_tokens)
        usage = Usage(usage.prompt_tokens, usage.completion_tokens, cached)
        is_estimated = True
    if not is_delivered:
        return Bill(usage, 0, NOT_DELIVERED, is_estimated)
    return Bill(usage, cost_nanousd(usage, price), "", is_estimated)


def withheld(billed: Bill) -> Bill:
    """What an attempt of a job is charged by itself: nothing, whatever it made."""
    if billed.usage is None or billed.reason:
        return billed
    return Bill(billed.usage, 0, JOB, billed.is_cached_estimated)
