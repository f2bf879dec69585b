"""Keys and accounts as a caller meets them: revocation, blocking, and Postgres going away."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body, prompt
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.runtime_dsn import prepare_runtime_role

from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Role
from penstock.store import Store, migrate
from penstock.store.embedded import EmbeddedPostgres

_V1 = "/v1/chat/completions"


@pytest.fixture(scope="module")
def ruled(cells: CellFactory) -> Iterator[Cell]:
    """As an operator would run it: two workers, and the refresh that the settings come with."""
    with cells.open({"ingress.workers": 2, "policy.refresh_seconds": 2.0}) as cell:
        cell.set_up(CHAT)
        eventually(lambda: cell.gateway.metric("penstock_workers") == 2)
        yield cell


def _status(cell: Cell, key: str) -> int:
    """Asked on a new connection, so that any worker may answer."""
    headers = {"authorization": f"Bearer {key}", "connection": "close"}
    return cell.post(_V1, chat_body(), headers=headers).status_code


def _always(cell: Cell, key: str, status: int) -> bool:
    return all(_status(cell, key) == status for _ in range(6))


def test_a_new_key_works_at_once(ruled: Cell) -> None:
    for _ in range(3):
        _, _, key = ruled.add_account("new")
        began = time.monotonic()
        assert _status(ruled, key) == 200
        assert time.monotonic() - began < 1


def test_a_revoked_key_is_refused_within_5_s_everywhere(ruled: Cell) -> None:
    _, key_id, key = ruled.add_account("leaver")
    assert _always(ruled, key, 200)
    ruled.run(lambda store: KeyBook(store).revoke(key_id))
    eventually(lambda: _always(ruled, key, 401), 5)
    # Another key of the installation is not touched by it.
    assert _status(ruled, ruled.key) == 200


def test_error_3023_a_blocked_account_is_refused_within_5_s(ruled: Cell) -> None:
    account, _, key = ruled.add_account("blocked")
    assert _always(ruled, key, 200)
    ruled.run(lambda store: AccountBook(store).set_blocked(account, True))
    eventually(lambda: _always(ruled, key, 403), 5)
    headers = {"authorization": f"Bearer {key}"}
    path = f"/client/v4/accounts/{account}/ai/run/{CHAT}"
    check_envelope(ruled.post(path, {"messages": prompt()}, headers=headers), 403, 3023)
    check_openai(ruled.post(_V1, chat_body(), headers=headers), 403, "account_blocked")
    check_openai(ruled.get("/v1/models", headers=headers), 403, "account_blocked")
    ruled.run(lambda store: AccountBook(store).set_blocked(account, False))
    eventually(lambda: _always(ruled, key, 200), 5)


def test_a_second_key_of_an_account_has_its_models_and_its_path(ruled: Cell) -> None:
    async def add(store: Store) -> str:
        _, secret = await KeyBook(store).create(Role.RUNTIME, ruled.account, "second")
        return secret

    headers = {"authorization": f"Bearer {ruled.run(add)}"}
    path = ruled.path(f"run/{CHAT}")
    assert ruled.post(path, {"messages": prompt()}, headers=headers).status_code == 200


def test_an_unknown_key_is_401_however_often_it_is_tried(ruled: Cell) -> None:
    began = time.monotonic()
    assert _always(ruled, "psk_nobody", 401)
    assert _always(ruled, ".", 401)
    assert time.monotonic() - began < 5


def test_postgres_stopped_known_keys_go_on_and_unknown_ones_are_503(
    own_postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    dsn = own_postgres.start()
    asyncio.run(migrate(dsn))
    asyncio.run(prepare_runtime_role(dsn))
    settings = {"policy.miss_wait_seconds": 2.0, "store.acquire_seconds": 0.5}
    cell = Cell(dsn, tmp_path, settings)
    try:
        cell.set_up(CHAT)
        assert _status(cell, cell.key) == 200
        own_postgres.stop()
        for _ in range(5):
            assert _status(cell, cell.key) == 200
            time.sleep(0.2)
        headers = {"authorization": "Bearer psk_unknown"}
        answer = cell.post(_V1, chat_body(), headers=headers)
        check_openai(answer, 503, "store_unavailable", retry=True, retry_after=True)
        answer = cell.post(cell.path(f"run/{CHAT}"), {"messages": prompt()}, headers=headers)
        check_envelope(answer, 503, 8005, retry=True, retry_after=True)
        assert cell.client.get(cell.gateway.url + "/readyz").status_code == 200
        assert cell.get("/v1/models").status_code == 200
        own_postgres.start()
        eventually(lambda: _status(cell, "psk_unknown") == 401, 15)
        # Nothing was forgotten and nothing ejected.
        assert _status(cell, cell.key) == 200
        assert cell.gateway.metric("penstock_ejected_replicas") == 0
        assert cell.gateway.metric("penstock_ready_replicas") == 1
        _, _, key = cell.add_account("after")
        eventually(lambda: _status(cell, key) == 200, 5)
    finally:
        cell.close()
