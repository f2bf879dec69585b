"""Decides whether a request may run now: limits, budgets, and a bounded wait for a free slot."""

from penstock.admission.concurrency_slots import ConcurrencySlots
from penstock.admission.estimate import estimate_nanousd
from penstock.admission.gate import Capacity, Gate
from penstock.admission.hold import NO_HOLD, Hold
from penstock.admission.job_budgets import (
    Moment,
    Settlement,
    find_money_limits,
    hold_jobs,
    limits_counting,
    release_jobs,
    settle_jobs,
)
from penstock.admission.limit_book import LimitBook
from penstock.admission.limit_notices import LimitNotice
from penstock.admission.limit_states import LimitState
from penstock.admission.limit_table import contract_of
from penstock.admission.limits import LimitKind, Limits
from penstock.admission.lost_leases import (
    LostLeases,
    is_alive,
    list_holders,
    release_holder,
    release_lost,
)
from penstock.admission.no_limits import NoLimits
from penstock.admission.owned_limits import OwnedLimits
from penstock.admission.quantity import quantity
from penstock.admission.settings import AdmissionSettings
from penstock.admission.spent_budget import SpentBudget

__all__ = [
    "NO_HOLD",
    "AdmissionSettings",
    "Capacity",
    "ConcurrencySlots",
    "Gate",
    "Hold",
    "LimitBook",
    "LimitKind",
    "LimitNotice",
    "LimitState",
    "Limits",
    "LostLeases",
    "Moment",
    "NoLimits",
    "OwnedLimits",
    "Settlement",
    "SpentBudget",
    "contract_of",
    "estimate_nanousd",
    "find_money_limits",
    "hold_jobs",
    "is_alive",
    "limits_counting",
    "list_holders",
    "quantity",
    "release_holder",
    "release_jobs",
    "release_lost",
    "settle_jobs",
]
