"""Which replica: pure decisions over the roster and what is in flight. Time is passed in."""

from penstock.routing.router import Roster, Router
from penstock.routing.settings import Settings

__all__ = ["Roster", "Router", "Settings"]
