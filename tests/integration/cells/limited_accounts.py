"""Accounts with one limit at a whole gateway, and their requests."""

import httpx
from tests.integration.cells.gateway_cell import Cell, chat_body
from tests.integration.cells.gateway_process import eventually

from penstock.admission import AdmissionSettings, LimitBook
from penstock.records.account import AccountId
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.store import Store


def set_limit(cell: Cell, measure: Measure, period: Period, amount: int, **of: object) -> str:
    """A new account with one limit; its secret."""
    account, _, secret = cell.add_account(f"{measure} {period}")
    scope, value = Scope(str(of.get("scope", "account"))), str(of.get("value", ""))
    is_hard = bool(of.get("is_hard", True))
    limit = Limit(0, AccountId(account), scope, value, measure, period, amount, is_hard)

    async def create(store: Store) -> object:
        return await LimitBook(store, AdmissionSettings()).create(limit)

    cell.run(create)
    return secret


def ask(cell: Cell, secret: str, path: str = "", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return cell.post(
        path or "/v1/chat/completions",
        chat_body(max_tokens=10),
        headers={"authorization": f"Bearer {secret}", **named},
    )


def first_with_limits(cell: Cell, secret: str, **headers: str) -> httpx.Response:
    """The first answer of a gateway that has read the limit."""
    answers: list[httpx.Response] = []

    def is_limited() -> bool:
        answers.append(ask(cell, secret, **headers))
        seen = answers[-1].headers
        return answers[-1].status_code == 429 or any(n.startswith("x-ratelimit") for n in seen)

    eventually(is_limited, 10)
    return answers[-1]
