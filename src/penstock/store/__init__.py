"""Access to Postgres and the object store; no other room uses their client libraries.

The embedded server for one machine is `penstock.store.embedded`; only its starters import it.
"""

from penstock.store.kept_values import KeptValue, KeptValues
from penstock.store.lock import HeldLock
from penstock.store.migrate import migrate, pending
from penstock.store.objects import Objects
from penstock.store.pool import Store, Transaction
from penstock.store.queries import read_queries
from penstock.store.recent_values import RecentValues
from penstock.store.sealing import ContentSeal, Sealing
from penstock.store.settings import StoreSettings

__all__ = [
    "ContentSeal",
    "HeldLock",
    "KeptValue",
    "KeptValues",
    "Objects",
    "RecentValues",
    "Sealing",
    "Store",
    "StoreSettings",
    "Transaction",
    "migrate",
    "pending",
    "read_queries",
]
