"""Meters requests: prices, the journal that survives a kill, the ledger it is drained into.

Promises: an attempt is in the journal before the engine gets the request, and its usage before the
answer ends; replays write a ledger row once; unknown is null, never 0; money is integers.
"""

from penstock.metering.charge import JobCharge, charge
from penstock.metering.drain import Drain
from penstock.metering.journal import Journal
from penstock.metering.ledger import Ledger
from penstock.metering.meter import Meter, Metering
from penstock.metering.prices import PriceBook, usd, usd_bytes
from penstock.metering.refusals import Refusals
from penstock.metering.retention import Retention
from penstock.metering.settings import MeteringSettings

__all__ = [
    "Drain",
    "JobCharge",
    "Journal",
    "Ledger",
    "Meter",
    "Metering",
    "MeteringSettings",
    "PriceBook",
    "Refusals",
    "Retention",
    "charge",
    "usd",
    "usd_bytes",
]  # fmt: skip
