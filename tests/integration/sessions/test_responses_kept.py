"""How long and how much is kept, who can read it, and how it is forgotten."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.integration.cells.gateway_answers import check_openai
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.kept_bytes import find_in_database, find_in_folder
from tests.integration.cells.ledger_rows import rows_of
from tests.integration.cells.stored_cell import STORING, V1, answered, ask, count_rows
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.clock import SystemClock
from penstock.sessions import ResponsesSettings, ResponseUpkeep
from penstock.store import Store
from penstock.testing.manual_clock import ManualClock

MARKER = "tangerine-submarine-4711"
LARGE = f"{MARKER} " * 20_000


@pytest.fixture(scope="module")
def cell(cells: CellFactory) -> Iterator[Cell]:
    with cells.open(STORING) as opened:
        opened.set_up(CHAT)
        yield opened


@pytest.fixture
def command(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PENSTOCK_STORE_DSN", cell.dsn)
    monkeypatch.setenv("PENSTOCK_STORE_CELL_KEY_FILE", cell.key_file)
    monkeypatch.setenv("PENSTOCK_STORE_OBJECTS_URL", f"file:{_objects(cell)}")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def _objects(cell: Cell) -> str:
    return f"{cell.journal.parent}/penstock-state/objects"


def test_thief_of_everything_but_the_key_finds_no_marker(cell: Cell) -> None:
    for text in (MARKER, LARGE):
        first = answered(cell, ask({"text": f"I say {MARKER}"}, text=text, instructions=MARKER))
        assert MARKER in str(cell.get(f"{V1}/{first['id']}").json())
        again = answered(cell, ask(text=MARKER, previous_response_id=first["id"]))
        assert cell.get(f"{V1}/{again['id']}/input_items").status_code == 200
    assert count_rows(cell, "responses") >= 4
    assert find_in_database(cell.dsn, MARKER.encode()) == []
    assert find_in_folder(cell.journal.parent, MARKER.encode(), without="cell.key") == []


def test_operator_sees_facts_and_no_content(cell: Cell, command: Any) -> None:
    made = answered(cell, ask(text=MARKER))
    listed = command("responses", "list", "--account", "first", "--json")
    assert listed.exit_code == 0, listed.output
    assert made["id"] in listed.stdout
    shown = command("responses", "show", made["id"])
    assert "completed" in shown.stdout
    assert MARKER not in listed.stdout + shown.stdout
    assert made["id"][:20] in command("responses", "list").stdout
    assert command("responses", "delete", made["id"]).exit_code == 0
    assert cell.get(f"{V1}/{made['id']}").status_code == 404
    for missing in (made["id"], "resp_1"):
        assert command("responses", "show", missing).exit_code != 0


def test_old_responses_are_gone_with_their_objects(cells: CellFactory) -> None:
    with cells.open(STORING) as cell:
        cell.set_up(CHAT)
        _grow_old(cell)


def _grow_old(cell: Cell) -> None:
    made = [answered(cell, ask(text=text)) for text in ("short", "long " * 20_000)]
    with psycopg.connect(cell.dsn) as connection:
        connection.execute("update responses set created_at = created_at - interval '31 days'")
    for each in made:
        assert cell.get(f"{V1}/{each['id']}").status_code == 404
        refused = cell.post(V1, ask(previous_response_id=each["id"]))
        check_openai(refused, 404, "previous_response_not_found")

    async def drop(store: Store) -> int:
        clock = ManualClock(now=SystemClock().now() + timedelta(days=31).total_seconds())
        upkeep = ResponseUpkeep(store, await cell.open_values(store), ResponsesSettings(), clock)
        return await upkeep.drop_old()

    assert cell.run(drop) == 1
    assert count_rows(cell, "responses") == count_rows(cell, "stored_bytes") == 0
    assert not [path for path in (cell.journal.parent).rglob("*-input/*") if path.is_file()]


def test_account_that_has_kept_enough_is_refused(cells: CellFactory) -> None:
    with cells.open({**STORING, "responses.bytes_per_account_max": 2000}) as cell:
        cell.set_up(CHAT)
        first = answered(cell, ask(text="word " * 500))
        refused = cell.post(V1, ask(store=True))
        check_openai(refused, 429, "quota_spent")
        assert cell.post(V1, ask(store=False)).status_code == 200
        answer = cell.client.delete(
            f"{cell.gateway.url}{V1}/{first['id']}", headers=cell.authorization()
        )
        assert answer.status_code == 200
        assert cell.post(V1, ask(store=True)).status_code == 200


@pytest.mark.parametrize(
    ("setting", "value"), [("responses.chain_max", 2), ("responses.context_bytes_max", 4000)]
)
def test_chains_are_bounded(cells: CellFactory, setting: str, value: int) -> None:
    with cells.open({**STORING, setting: value}) as cell:
        cell.set_up(CHAT)
        previous = None
        for _ in range(3):
            answer = cell.post(V1, ask(text="word " * 150, previous_response_id=previous))
            previous = answer.json().get("id")
        refused = cell.post(V1, ask(previous_response_id=previous))
        check_openai(refused, 400, "invalid_request")
        assert "compact" in refused.json()["error"]["message"]


def test_forgotten_account_leaves_its_bill(cell: Cell, command: Any) -> None:
    account, _, key = cell.add_account("leaving")
    headers = {"authorization": f"Bearer {key}"}
    answers = [cell.post(V1, ask(text=text), headers=headers) for text in (MARKER, LARGE)]
    charged = [rows_of(cell, each.headers["x-request-id"])[0] for each in answers]
    before = count_rows(cell, "responses")
    assert command("account", "forget", account).exit_code == 2
    forgotten = command("account", "forget", account, "--yes")
    assert forgotten.exit_code == 0, forgotten.output
    assert count_rows(cell, "responses") == before - 2
    with psycopg.connect(cell.dsn) as connection:
        for table in ("account_keys", "responses", "stored_bytes", "files", "jobs"):
            left = connection.execute(
                f"select count(*) from {table} where account = %s",
                (account,),
            ).fetchone()
            assert left == (0,), table
    assert not [path for path in (cell.journal.parent).rglob(f"{account}/**/*") if path.is_file()]
    again = [rows_of(cell, each.headers["x-request-id"])[0] for each in answers]
    assert again == charged
    # Twice equals once.
    assert command("account", "forget", account, "--yes").exit_code == 0
