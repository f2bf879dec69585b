"""Messages that gateway workers and keepers exchange while they run. Nothing durable is sent here.

Guarantees: a silent peer is detected after `silence_seconds`; messages from outside this cell are
dropped; a false or lost message can at worst cost speed. Routing makes all decisions.
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
