"""A copy of the database and of all folders, but for the key, has no word of jobs and batches."""

from collections.abc import Iterator

import pytest
from tests.integration.cells.batch_cell import QUICK, line, lines_in, run_jobs, sdk, start_batch
from tests.integration.cells.batch_cell import wait_for as wait_for_batch
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.job_runner import JobRunner
from tests.integration.cells.kept_bytes import find_in_database, find_in_folder

MARKER = "tangerine-submarine-4711"
LARGE = f"{MARKER} " * 20_000


@pytest.fixture(scope="module")
def cell(cells: CellFactory) -> Iterator[Cell]:
    with cells.open(QUICK) as opened:
        yield opened


def test_markers_of_jobs_and_files_are_nowhere(cell: Cell) -> None:
    engine = cell.set_up(CHAT)
    client = sdk(cell)
    with JobRunner(cell, engine.url) as runner:
        for text in (MARKER, LARGE):
            answer = client.chat.completions.create(
                model=CHAT,
                messages=[{"role": "user", "content": text}],
                service_tier="flex",
                max_tokens=8,
            )
            assert answer.choices[0].message.content
        assert len(runner.ran) == 2
    batch = start_batch(client, line("short", MARKER), line("large", LARGE))
    wait_for_batch(client, batch, "in_progress")
    # Before its jobs run, payloads are kept; afterwards the answers, which repeat them.
    _expect_nothing(cell)
    assert run_jobs(cell) == 2
    done = wait_for_batch(client, batch, "completed")
    answers = [
        each["response"]["body"]["choices"][0]["message"]["content"]
        for each in lines_in(client, done.output_file_id)
    ]
    assert answers == [f"re: {MARKER}", f"re: {LARGE}"]
    assert client.files.content(batch.input_file_id).text.count(MARKER) == 20_001
    _expect_nothing(cell)


def test_the_search_finds_what_is_kept_in_clear(cells: CellFactory) -> None:
    """Otherwise the test above could not fail."""
    with cells.open({**QUICK, "store.cell_key_file": ""}) as cell:
        cell.set_up(CHAT)
        batch = start_batch(sdk(cell), line("short", MARKER))
        wait_for_batch(sdk(cell), batch, "in_progress")
        assert find_in_database(cell.dsn, MARKER.encode()) == ["jobs"]
        assert find_in_folder(cell.journal.parent, MARKER.encode(), without="cell.key")


def _expect_nothing(cell: Cell) -> None:
    assert find_in_database(cell.dsn, MARKER.encode()) == []
    assert find_in_folder(cell.journal.parent, MARKER.encode(), without="cell.key") == []
