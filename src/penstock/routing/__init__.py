"""Which replica: pure decisions over what is known. Time is passed in. Open router.py first."""

from penstock.routing.choice import Weighed
from penstock.routing.route import Route
from penstock.routing.router import Roster, Router, Told
from penstock.routing.settings import Settings

__all__ = ["Roster", "Route", "Router", "Settings", "Told", "Weighed"]
