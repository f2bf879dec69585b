"""May it run now: a bounded wait for a free slot, in order of arrival."""

from penstock.admission.gate import Capacity, Gate
from penstock.admission.settings import Settings

__all__ = ["Capacity", "Gate", "Settings"]
