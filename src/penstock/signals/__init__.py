"""What gateway workers and keepers tell each other while they run. Nothing durable goes this way.

Promises: silence is noticed within `silence_seconds`; what is not from this cell is dropped; a
lying or lost message can at worst cost speed. It decides nothing: routing does.
"""

from penstock.signals.counts import Drop, SignalCounts
from penstock.signals.gossip_loops import (
    Announcer,
    CellKey,
    Engines,
    GossipLoops,
    KeeperGossipLoops,
)
from penstock.signals.identity import Identity, keeper_identity, worker_identity
from penstock.signals.load_table import LoadTable, open_table
from penstock.signals.reach import Reach
from penstock.signals.settings import SignalsSettings

__all__ = [
    "Announcer",
    "CellKey",
    "Drop",
    "Engines",
    "GossipLoops",
    "Identity",
    "KeeperGossipLoops",
    "LoadTable",
    "Reach",
    "SignalCounts",
    "SignalsSettings",
    "keeper_identity",
    "open_table",
    "worker_identity",
]
