"""Builds the endpoints and pages of jobs for one gateway worker."""

from penstock.catalogue import Catalogue
from penstock.clock import Clock
from penstock.ingress.jobs.flex_endpoint import FlexEndpoint
from penstock.ingress.jobs.job_answers import JobLookup
from penstock.ingress.jobs.job_waits import JobWaits
from penstock.ingress.jobs.queue_answers import QueueAnswers
from penstock.ingress.jobs.queue_endpoint import QueueEndpoint
from penstock.ingress.pages.job_pages import JobPages
from penstock.ingress.settings import IngressSettings
from penstock.intake.request_reader import RequestReader
from penstock.jobs.submission import DeskRooms, JobDesk


class FlexParts:
    """`flex` and `queue` for the inference endpoint, `pages`, and `waits`, whose loop must run."""

    def __init__(
        self,
        rooms: DeskRooms,
        desk: JobDesk,
        reader: RequestReader,
        catalogue: Catalogue,
        settings: IngressSettings,
        clock: Clock,
    ) -> None:
        lookup = JobLookup(rooms.store, rooms.queue)
        answers = QueueAnswers(rooms.store, rooms.batches, desk, catalogue)
        self.waits = JobWaits(lookup.ended, desk.cancel, settings)
        self.flex = FlexEndpoint(desk, lookup, self.waits, settings, clock)
        self.queue = QueueEndpoint(reader, desk, answers, settings, clock)
        self.pages = JobPages(reader, lookup, answers, desk)
