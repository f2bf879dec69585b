"""Joins the rooms that keep jobs, the same way for gateways, keepers and control."""

from penstock.config import Config
from penstock.jobs.job_values import JobValues
from penstock.jobs.submission import DeskRooms
from penstock.queue import Batches, Queue
from penstock.store import Objects, Store


def desk_rooms(store: Store, objects: Objects, config: Config) -> DeskRooms:
    """Build the rooms that a process needs to submit, run or end jobs."""
    values = JobValues(objects, config.serving)
    return DeskRooms(store, Queue(config.queue), Batches(), values)
