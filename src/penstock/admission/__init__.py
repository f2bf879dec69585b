"""May it run now: limits and budgets, and a bounded wait for a free slot, in order of arrival."""

from penstock.admission.estimate import estimate_nanousd
from penstock.admission.gate import Capacity, Gate
from penstock.admission.hold import NO_HOLD, Hold
from penstock.admission.limit_book import LimitBook
from penstock.admission.limit_states import LimitState
from penstock.admission.limits import LimitKind, Limits
from penstock.admission.lost_leases import (
    LostLeases,
    is_alive,
    list_holders,
    release_holder,
    release_lost,
)
from penstock.admission.quantity import quantity
from penstock.admission.settings import Settings

__all__ = [
    "NO_HOLD",
    "Capacity",
    "Gate",
    "Hold",
    "LimitBook",
    "LimitKind",
    "LimitState",
    "Limits",
    "LostLeases",
    "Settings",
    "estimate_nanousd",
    "is_alive",
    "list_holders",
    "quantity",
    "release_holder",
    "release_lost",
]
