"""What a request cost: prices, the journal that survives a kill, the ledger it is drained into.

Promises: usage is on disk before the engine is asked and before the answer ends; a row of the
ledger is written once, whatever is replayed; unknown is null, never 0; money is integers.
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
