"""The made-up incident, with culprits drawn by a seed: each cause is found by three clicks.

A reader begins on the first page and knows nothing of the culprits: each click is on the first
element that the page marks, or on its largest words. Two commands find each cause as well.
"""

import json
import re
from collections.abc import Iterator

import pytest
from tests.acceptance.console.console_cell import (
    ConsoleCell,
    ConsoleReader,
    ConsoleServer,
)
from tests.acceptance.console.marks import (
    click_largest,
    click_marked,
    largest,
    marked,
)
from tests.integration.cells.incident_rows import WORKFLOWS
from typer.testing import CliRunner

from penstock.cli.commands import app

# The first one in CI, all at full length.
SEEDS = (1, 2, 3, 4, 5)
_IN_CI = 1
BROKEN = "The system message is not that of the session's last turn"


@pytest.fixture(scope="module", params=SEEDS)
def cell(
    server: ConsoleServer,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ConsoleCell]:
    if request.param > _IN_CI and not request.config.getoption("--full"):
        pytest.skip("further seeds: `make nightly`, or --full")
    with server.cell(tmp_path_factory.mktemp("cell"), request.param) as cell:
        yield cell


def culprits(cell: ConsoleCell) -> tuple[str, str]:
    assert cell.incident is not None
    return cell.incident.workflow, cell.incident.replica


def begin(reader: ConsoleReader) -> None:
    """Stand on the first page, as somebody who was woken up does."""
    assert reader.browser.evaluate("location.pathname") == "/console/"


@pytest.mark.timeout(120)
def test_the_broken_cache_is_two_marks_away_from_the_first_page(
    reader: ConsoleReader, cell: ConsoleCell
) -> None:
    workflow, _ = culprits(cell)
    begin(reader)
    assert marked(reader.browser) == [workflow]
    reader.go(lambda: click_marked(reader.browser))
    reader.go(lambda: click_marked(reader.browser))
    assert BROKEN in reader.text(".findings")
    assert largest(reader.browser) == reader.text(".finding.lead p")
    assert workflow in reader.text("main .figure + p")


@pytest.mark.timeout(120)
def test_the_slow_replica_is_behind_the_largest_words_and_two_marks(
    reader: ConsoleReader, cell: ConsoleCell
) -> None:
    _, replica = culprits(cell)
    begin(reader)
    reader.go(lambda: click_largest(reader.browser))
    assert reader.title() == "Fleet"
    assert marked(reader.browser) == [replica]
    reader.go(lambda: click_marked(reader.browser))
    reader.go(lambda: click_marked(reader.browser))
    assert largest(reader.browser).startswith(f"Replica {replica} is slow")


@pytest.mark.timeout(120)
def test_the_page_of_spending_marks_the_same_workflow(
    reader: ConsoleReader, cell: ConsoleCell
) -> None:
    workflow, _ = culprits(cell)
    reader.follow("spend")
    assert marked(reader.browser) == [workflow]
    reader.go(lambda: click_marked(reader.browser))
    reader.go(lambda: click_marked(reader.browser))
    assert BROKEN in reader.text(".findings")


def test_nothing_is_marked_where_nothing_is_wrong(reader: ConsoleReader, cell: ConsoleCell) -> None:
    workflow, _ = culprits(cell)
    well = next(each for each in WORKFLOWS if each != workflow)
    for path in ("/console/?workflow=", "/console/requests?order=last&workflow="):
        reader.open(path + well)
        assert well in reader.text("main tbody")
        assert marked(reader.browser) == []


@pytest.fixture
def remote(cell: ConsoleCell, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """Commands that know control's address and a key, and nothing of the database."""
    monkeypatch.delenv("PENSTOCK_STORE_DSN", raising=False)
    monkeypatch.setenv("PENSTOCK_OPERATOR_URL", cell.control.url)
    monkeypatch.setenv("PENSTOCK_OPERATOR_KEY", cell.control.keys.operator)
    monkeypatch.setenv("COLUMNS", "250")
    return CliRunner()


def run(remote: CliRunner, *words: str) -> str:
    done = remote.invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_two_commands_find_the_spike(remote: CliRunner, cell: ConsoleCell) -> None:
    workflow, _ = culprits(cell)
    changed = json.loads(run(remote, "usage", "diff", "--since", "24h", "--json"))
    first = changed["rows"][0]
    assert first["labels"]["workflow"] == workflow
    parts = first["parts_nanousd"]
    assert max(parts, key=lambda name: abs(parts[name])) == "cache"
    table = run(remote, "requests", "--dear", "--since", "24h", "--limit", "10")
    assert table.count("cache break: system") == table.count(f" {workflow} ") == 10


def test_two_commands_find_the_slow_replica(remote: CliRunner, cell: ConsoleCell) -> None:
    _, replica = culprits(cell)
    table = run(remote, "requests", "--slow", "--since", "24h", "--limit", "1")
    id = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", table)
    assert id is not None, table
    assert f"Replica {replica} is slow" in run(remote, "explain", id[0])
