"""Webhooks about limits and budgets: a real gateway counts, and a real control process delivers."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cells.control_process import OperatorKeys, control_process
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body
from tests.integration.cells.leading_control import WEBHOOKS
from tests.integration.cells.limited_accounts import ask, set_limit
from tests.integration.cells.webhook_receiver import Receiver, receiving
from tests.integration.contracts.contract_cell import REFRESH, contract, in_force

from penstock.admission.windows import window_of
from penstock.clock import SystemClock
from penstock.events import EndpointBook, NewEndpoint, Shape
from penstock.records.account import AccountId
from penstock.records.limit import Measure, Period
from penstock.store import Store

_SETTINGS = {
    **REFRESH,
    "metering.drain_seconds": 0.1,
    "admission.limits_refresh_seconds": 0.1,
    "admission.pots_survey_seconds": 0.1,
}
# Control makes no key here: nobody signs in.
_NO_KEYS = OperatorKeys("", "")


@pytest.fixture
def cell(cells: CellFactory, tmp_path: Path) -> Iterator[Cell]:
    with cells.open(_SETTINGS) as cell:
        cell.set_up(CHAT)
        settings = {
            "store.cell_key_file": cell.key_file,
            "webhooks.allowed_networks": ["127.0.0.0/8"],
            "webhooks.poll_seconds": 0.05,
        }
        with control_process(cell.dsn, tmp_path, settings, _NO_KEYS):
            yield cell


async def test_a_budget_of_a_contract_and_a_limit_that_warns_are_delivered(cell: Cell) -> None:
    async with receiving() as receiver:
        await asyncio.to_thread(_spend_of_a_contract, cell, receiver.url)
        [reached] = await _bodies(receiver, 1)
        await asyncio.to_thread(_pass_a_limit_that_warns, cell, receiver.url)
        _, passed = await _bodies(receiver, 2)
        # Each is told once, also when more requests follow.
        await asyncio.sleep(1.0)
        assert len(receiver.received) == 2
    ends_at = window_of(Period.DAY, SystemClock().now()).end
    assert reached["type"] == "limit.reached"
    assert reached["data"].pop("limit") > 0
    assert reached["data"] == {
        "scope": "workflow",
        "value": "review",
        "contract": "review",
        "measure": "requests",
        "period": "day",
        "amount": 3,
        "resets_at": ends_at,
    }
    assert passed["type"] == "limit.passed"
    assert passed["data"].pop("limit") > 0
    assert passed["data"] == {
        "scope": "account",
        "value": "",
        "contract": None,
        "measure": "requests",
        "period": "day",
        "amount": 2,
        "resets_at": ends_at,
    }


def _spend_of_a_contract(cell: Cell, url: str) -> None:
    cell.run(lambda store: _subscribe(store, AccountId(cell.account), url))
    in_force(cell, contract("review", "[budget]\nrequests_per_day = 3"))
    headers = {"x-penstock-workflow": "review"}
    answers = [
        cell.post("/v1/chat/completions", chat_body(CHAT), headers=headers) for _ in range(6)
    ]
    assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 3


def _pass_a_limit_that_warns(cell: Cell, url: str) -> None:
    key = set_limit(cell, Measure.REQUESTS, Period.DAY, 2, is_hard=False)
    account = cell.run(_newest_account)
    cell.run(lambda store: _subscribe(store, account, url))
    assert {ask(cell, key).status_code for _ in range(6)} == {200}


async def _subscribe(store: Store, account: AccountId, url: str) -> None:
    wanted = NewEndpoint(account, Shape.OPENAI, "mine", url, ("limit.reached", "limit.passed"))
    await EndpointBook(store, WEBHOOKS).create(wanted)


async def _newest_account(store: Store) -> AccountId:
    async with store.statement() as statement:
        row = await statement.fetch_one("select id from accounts order by created_at desc limit 1")
    assert row is not None
    return AccountId(row[0])


async def _bodies(receiver: Receiver, count: int) -> list[dict[str, Any]]:
    return [json.loads(each.body) for each in await receiver.wait_for(count)]
