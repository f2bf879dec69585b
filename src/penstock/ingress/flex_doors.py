"""The doors to the queue, put together: what they share is made once, for each worker."""

from penstock.catalogue import Catalogue
from penstock.clock import Clock
from penstock.ingress.flex_door import FlexDoor
from penstock.ingress.job_answers import JobLookup
from penstock.ingress.job_pages import JobPages
from penstock.ingress.job_waits import JobWaits
from penstock.ingress.queue_answers import QueueAnswers
from penstock.ingress.queue_door import QueueDoor
from penstock.ingress.reading import RequestReader
from penstock.ingress.settings import Settings
from penstock.serving.submission import DeskRooms, JobDesk


class FlexDoors:
    """`flex` and `queue` are for the hot door, `pages` for the rest; `waits` must be run."""

    def __init__(
        self,
        rooms: DeskRooms,
        desk: JobDesk,
        reader: RequestReader,
        catalogue: Catalogue,
        settings: Settings,
        clock: Clock,
    ) -> None:
        lookup = JobLookup(rooms.store, rooms.queue)
        answers = QueueAnswers(rooms.store, rooms.batches, desk, catalogue)
        self.waits = JobWaits(lookup.ended, desk.cancel, settings)
        self.flex = FlexDoor(desk, lookup, self.waits, settings, clock)
        self.queue = QueueDoor(reader, desk, answers, settings, clock)
        self.pages = JobPages(reader, lookup, answers, desk)
