"""Joins the rooms that keep jobs, the same way for gateways, keepers and control."""

from penstock.config import Config
from penstock.jobs.submission import DeskRooms
from penstock.queue import Batches, Queue
from penstock.store import Objects, Store
from penstock.store.kept_values import KeptValues


def desk_rooms(store: Store, objects: Objects, config: Config) -> DeskRooms:
    """Build the rooms that a process needs to submit, run or end jobs."""
    values = KeptValues(objects, config.serving)
    return DeskRooms(store, Queue(config.queue), Batches(), values)
