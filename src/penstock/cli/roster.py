"""Reads the roster once, for commands that show replicas."""

from penstock.clock import SystemClock
from penstock.config import Config
from penstock.fleet.roster import RosterMirror
from penstock.records.replica import Replica
from penstock.store import Sealing, Store


async def read_replicas(
    store: Store, config: Config, sealing: Sealing | None = None
) -> tuple[Replica, ...]:
    """Return every replica of the roster that is not gone, oldest first.

    Only with `sealing` do they have their engines' keys.
    """
    roster = RosterMirror(store, SystemClock(), config.fleet, sealing)
    await roster.load()
    return roster.all()
