"""Builds the pages of files and batches for one gateway worker, and the loop of batches."""

import msgspec

from penstock.clock import Clock
from penstock.contracts.counts import ContractCounts
from penstock.ingress.jobs.batch_intake import BatchIntake, IntakeRooms, Keys
from penstock.ingress.jobs.batch_reading import ReadingRooms
from penstock.ingress.pages.batch_pages import BatchPages, BatchRooms
from penstock.ingress.pages.file_pages import DAY_SECONDS, FilePages
from penstock.ingress.settings import IngressSettings
from penstock.intake.request_reader import RequestReader
from penstock.jobs.submission import JobDesk
from penstock.queue.batch_output import BatchWriter, Keeping
from penstock.queue.files import Files
from penstock.records.decision_log import DecisionLog
from penstock.store import Objects, Store


class BatchNeeds(msgspec.Struct, frozen=True):
    """Objects that the worker has built already."""

    store: Store
    objects: Objects
    desk: JobDesk
    reader: RequestReader
    keys: Keys
    contracts: ContractCounts
    decisions: DecisionLog


class BatchParts:
    """The pages of `files` and `batches`, and `intake`, whose loop the worker runs."""

    def __init__(self, needs: BatchNeeds, settings: IngressSettings, clock: Clock) -> None:
        store, reader, desk = needs.store, needs.reader, needs.desk
        files = Files(store, needs.objects, clock)
        keeping = Keeping(
            lease_seconds=settings.batch_lease_seconds,
            files_seconds=settings.files_keep_days * DAY_SECONDS,
        )
        writer = BatchWriter(store, needs.objects, desk, clock, keeping)
        reading = ReadingRooms(store, files, reader, desk, needs.contracts, needs.decisions)
        self.files = FilePages(reader, files, settings)
        self.batches = BatchPages(reader, BatchRooms(store, files, desk), settings, clock)
        self.intake = BatchIntake(IntakeRooms(reading, needs.keys, writer), settings, clock)
