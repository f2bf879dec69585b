"""Chooses a replica from what is known; pure, with time passed in. Open router.py first."""

from penstock.routing.choice import Weighed
from penstock.routing.route import Route
from penstock.routing.router import LoadChanges, Roster, Router
from penstock.routing.settings import RoutingSettings

__all__ = ["LoadChanges", "Roster", "Route", "Router", "RoutingSettings", "Weighed"]
