"""The rooms that jobs are kept by, joined the same way for whoever submits, runs or ends them."""

from penstock.config import Config
from penstock.jobs.large_values import LargeValues
from penstock.jobs.submission import DeskRooms
from penstock.queue import Batches, Queue
from penstock.store import Objects, Store


def desk_rooms(store: Store, objects: Objects, config: Config) -> DeskRooms:
    """The rooms that take jobs in and keep them, for whoever submits, runs or ends some."""
    values = LargeValues(objects, config.serving)
    return DeskRooms(store, Queue(config.queue), Batches(), values)
