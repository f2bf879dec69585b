"""Postgres and the object store, and the only room that knows how they are spoken to.

The embedded server for one machine is `penstock.store.embedded`, imported by those who start it.
"""

from penstock.store.lock import HeldLock
from penstock.store.migrate import migrate, pending
from penstock.store.objects import Objects
from penstock.store.pool import Store, Transaction
from penstock.store.queries import read_queries
from penstock.store.settings import StoreSettings

__all__ = [
    "HeldLock",
    "Objects",
    "Store",
    "StoreSettings",
    "Transaction",
    "migrate",
    "pending",
    "read_queries",
]
