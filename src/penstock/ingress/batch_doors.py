"""Files and batches, joined for one gateway worker: their pages, and the loop behind them."""

import msgspec

from penstock.clock import Clock
from penstock.ingress.batch_intake import BatchIntake, IntakeRooms, Keys
from penstock.ingress.batch_pages import BatchPages, BatchRooms
from penstock.ingress.batch_reading import ReadingRooms
from penstock.ingress.file_pages import DAY_SECONDS, FilePages
from penstock.ingress.reading import RequestReader
from penstock.ingress.settings import Settings
from penstock.queue.batch_output import BatchWriter, Keeping
from penstock.queue.files import Files
from penstock.serving.submission import JobDesk
from penstock.store import Objects, Store


class BatchParts(msgspec.Struct, frozen=True):
    """What a worker has already."""

    store: Store
    objects: Objects
    desk: JobDesk
    reader: RequestReader
    keys: Keys


class BatchDoors:
    """`files` and `batches` answer clients; `intake` runs beside them."""

    def __init__(self, parts: BatchParts, settings: Settings, clock: Clock) -> None:
        store, reader, desk = parts.store, parts.reader, parts.desk
        files = Files(store, parts.objects, clock)
        keeping = Keeping(
            lease_seconds=settings.batch_lease_seconds,
            files_seconds=settings.files_keep_days * DAY_SECONDS,
        )
        writer = BatchWriter(store, parts.objects, clock, keeping)
        reading = ReadingRooms(store, files, reader, desk)
        self.files = FilePages(reader, files, settings)
        self.batches = BatchPages(reader, BatchRooms(store, files, desk), settings, clock)
        self.intake = BatchIntake(IntakeRooms(reading, parts.keys, writer), settings, clock)
