"""`/v1/usage` as HTTP: whose usage a key sees, what is refused, and what comes back."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.integration.cells.usage_rows import HOUR, attempt, id_at, write

from penstock import errors
from penstock.catalogue import Catalogue
from penstock.ingress.pages.json_pages import error_page
from penstock.ingress.pages.usage_pages import UsagePages
from penstock.ingress.settings import IngressSettings
from penstock.intake.request_reader import RequestReader
from penstock.metering import PriceBook
from penstock.metering.reports.usage_reports import UsageReports
from penstock.metering.settings import MeteringSettings
from penstock.policy import AccountBook, KeyBook, KeyMirror, PolicySettings
from penstock.records.account import Account, Role
from penstock.store import Store
from penstock.testing.manual_clock import ManualClock

SESSION = "a/b ü"


class Site:
    """The pages on a store, with an account, its key, and an operator's."""

    def __init__(self, client: httpx.AsyncClient, own: Account, other: Account) -> None:
        self.client = client
        self.own = own
        self.other = other
        self.secrets: dict[str, str] = {}
        self.request_id = ""
        self.foreign_id = ""

    async def get(self, path: str, *, who: str = "own") -> httpx.Response:
        headers = {"authorization": f"Bearer {self.secrets[who]}"}
        return await self.client.get(path, headers=headers)

    async def rows(self, query: str, *, who: str = "own") -> list[dict[str, Any]]:
        answer = await self.get(f"/v1/usage?{query}", who=who)
        assert answer.status_code == 200, answer.text
        rows: list[dict[str, Any]] = answer.json()["rows"]
        return rows


def reader_of(mirror: KeyMirror) -> RequestReader:
    return RequestReader(Catalogue([]), mirror, PriceBook([]), IngressSettings().intake)


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.Error)
    return error_page(request, error)


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    own, other = [await AccountBook(store).create(name) for name in ("own", "other")]
    books = KeyBook(store)
    clock = ManualClock(now=(HOUR + timedelta(hours=1)).timestamp())
    mirror = KeyMirror(store, clock, PolicySettings())
    reader = reader_of(mirror)
    pages = UsagePages(reader, UsageReports(store, MeteringSettings()), clock)
    routes = [
        Route("/v1/usage", pages.usage),
        Route("/v1/usage/requests/{id}", pages.request),
        Route("/v1/usage/sessions/{session:path}", pages.session),
    ]
    app = Starlette(routes=routes, exception_handlers={errors.Error: _on_error})
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        made = Site(client, own, other)
        made.secrets["own"] = (await books.create(Role.RUNTIME, own.id, "k"))[1]
        made.secrets["operator"] = (await books.create(Role.OPERATOR, None, "o"))[1]
        await mirror.load()
        made.request_id, made.foreign_id = id_at(HOUR.timestamp()), id_at(HOUR.timestamp())
        await write(
            store,
            [
                attempt(own.id, request=made.request_id, workflow="mine", session=SESSION),
                attempt(other.id, request=made.foreign_id, workflow="theirs", session=SESSION),
            ],
        )
        yield made


async def test_runtime_key_sees_its_own_account_only(site: Site) -> None:
    (row,) = await site.rows("group_by=account,workflow")
    assert row["labels"] == {"account": site.own.id, "workflow": "mine"}
    (same,) = await site.rows(f"group_by=workflow&account={site.own.id}")
    assert same["labels"] == {"workflow": "mine"}
    answer = await site.get(f"/v1/usage?account={site.other.id}")
    assert answer.status_code == 403


async def test_operator_key_sees_all(site: Site) -> None:
    rows = await site.rows("group_by=workflow", who="operator")
    assert {row["labels"]["workflow"] for row in rows} == {"mine", "theirs"}
    (row,) = await site.rows(f"account={site.other.id}&by=day", who="operator")
    assert (row["requests"], row["cost_usd"], row["start"]) == (
        1, "0.000705000", "2026-11-10T00:00:00Z",
    )  # fmt: skip


async def test_request_of_another_account_is_not_found(site: Site) -> None:
    found = await site.get(f"/v1/usage/requests/{site.request_id}")
    assert found.status_code == 200
    (only,) = found.json()["attempts"]
    assert only["charge_nanousd"] == only["calculation"]["calculated_nanousd"] == 705_000
    assert (await site.get(f"/v1/usage/requests/{site.foreign_id}")).status_code == 404
    foreign = await site.get(f"/v1/usage/requests/{site.foreign_id}", who="operator")
    assert foreign.json()["account"] == site.other.id
    assert (await site.get("/v1/usage/requests/nonsense")).status_code == 404
    assert (await site.get(f"/v1/usage/requests/{site.request_id}?x=1")).status_code == 400


async def test_session_is_its_accounts(site: Site) -> None:
    path = f"/v1/usage/sessions/{quote(SESSION, safe='')}"
    mine = (await site.get(path)).json()
    assert (mine["account"], mine["session"]) == (site.own.id, SESSION)
    assert [turn["request"] for turn in mine["turns"]] == [site.request_id]
    assert (await site.get(f"{path}?account={site.other.id}")).status_code == 403
    nameless = await site.get(path, who="operator")
    assert (nameless.status_code, nameless.json()["error"]["param"]) == (400, "account")
    theirs = (await site.get(f"{path}?account={site.other.id}", who="operator")).json()
    assert [turn["request"] for turn in theirs["turns"]] == [site.foreign_id]
    assert (await site.get("/v1/usage/sessions/nobody")).status_code == 404


async def test_unknown_parameter_is_refused_with_what_is_allowed(site: Site) -> None:
    answer = await site.get("/v1/usage?workflw=x")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "workflw"
    assert "prompt_family" in error["message"]


async def test_no_key_no_usage(site: Site) -> None:
    for path in ("", "/requests/x", "/sessions/x"):
        assert (await site.client.get(f"/v1/usage{path}")).status_code == 401


async def test_blocked_account_is_told_so(site: Site, store: Store) -> None:
    await AccountBook(store).set_blocked(site.own.id, True)
    mirror = KeyMirror(store, ManualClock(), PolicySettings())
    await mirror.load()
    reader = reader_of(mirror)
    pages = UsagePages(reader, UsageReports(store, MeteringSettings()), ManualClock())
    headers = [(b"authorization", f"Bearer {site.secrets['own']}".encode())]
    scope = {"type": "http", "headers": headers, "query_string": b"", "path_params": {}}
    with pytest.raises(errors.AccountBlocked):
        await pages.usage(Request(scope))
