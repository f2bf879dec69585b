"""Journals of other releases: earlier ones are adopted, later ones are left alone."""

from pathlib import Path

import pytest
from tests.integration.cells.metering_lines import Worker, attempts, halves

from penstock.clock import new_id
from penstock.metering import MeteringSettings
from penstock.metering.journal import FORMAT
from penstock.metering.journal_format import CLOSED, OPENED_UNLABELLED, frame
from penstock.metering.ledger_line import UNLABELLED
from penstock.store import Store

QUICK = MeteringSettings(
    segment_bytes=2**16,
    journal_bytes_max=2**20,
    open_max=64,
    drain_seconds=0.05,
    drain_rows_max=7,
    drain_retry_seconds_max=0.2,
    last_drain_seconds=2.0,
    adopt_seconds=0.2,
)


async def test_journal_of_a_later_release_is_left_alone_and_reported_once(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    newer = tmp_path / f"{new_id()}.{FORMAT + 1}"
    newer.mkdir(parents=True)
    (newer / "00000001.journal").write_bytes(b"another format")
    worker = Worker(store, tmp_path, QUICK)
    for _ in range(2):
        await worker.drain.adopt()
    assert (newer / "00000001.journal").read_bytes() == b"another format"
    said = [record for record in caplog.records if getattr(record, "action", "") == "journal_newer"]
    assert [getattr(record, "journal", "") for record in said] == [newer.name]
    await worker.drain.finish()


async def test_dead_workers_journal_of_the_release_before_is_adopted(
    store: Store, tmp_path: Path
) -> None:
    dead = Worker(store, tmp_path, QUICK)
    dead.write(session="s")
    dead.journal.leave()
    # The release before wrote the same files without the labels, into a folder without a suffix.
    segment = dead.journal.folder / "00000001.journal"
    opened, closed = halves(session="s")
    frames = frame(OPENED_UNLABELLED, 0, opened.removesuffix(UNLABELLED)) + frame(CLOSED, 0, closed)
    segment.write_bytes(frames.ljust(segment.stat().st_size, b"\0"))
    dead.journal.folder.rename(tmp_path / dead.journal.holder)
    worker = Worker(store, tmp_path, QUICK)
    await worker.drain.adopt()
    assert (worker.drain.adopted, worker.released) == (1, [dead.journal.holder])
    (row,) = await attempts(store)
    assert (row["session"], row["parent_id"], row["contract"]) == ("s", "", "")
    await worker.drain.finish()


async def test_labels_of_turns_and_contracts_reach_the_ledger(store: Store, tmp_path: Path) -> None:
    labels = {
        "parent_id": "p",
        "purpose": "step",
        "contract": "c@3",
        "task": "t",
        "model_asked": "m",
    }
    worker = Worker(store, tmp_path, QUICK)
    worker.write(**labels)
    await worker.drain.empty()
    (row,) = await attempts(store)
    assert {name: row[name] for name in labels} == labels
    await worker.drain.finish()
