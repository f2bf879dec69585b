"""The console's pages over HTTP: every screen, link and action of a control process."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cells.control_process import ControlProcess, control_process
from tests.integration.console.console_browser import Browser, links_of
from tests.integration.console.console_rows import (
    CALLER_ID,
    HOST,
    MARKUP,
    REPLICA,
    ConsoleRows,
    fill,
)

from penstock.console.screens.page_view import PERIODS
from penstock.console.screens.screens import SCREENS
from penstock.store import Store, StoreSettings

_PATHS = [screen.path for screen in SCREENS]
_PAGES_MAX = 250


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("control")


@pytest.fixture(scope="module")
def rows(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> ConsoleRows:
    async def filled() -> ConsoleRows:
        store = Store(StoreSettings(dsn=module_dsn))
        await store.open()
        try:
            return await fill(store, tmp_path_factory.mktemp("journal"))
        finally:
            await store.close()

    return asyncio.run(filled())


@pytest.fixture(scope="module")
def control(module_dsn: str, folder: Path, rows: ConsoleRows) -> Iterator[ControlProcess]:
    settings = {"control.requests_per_minute": 100_000, "control.console_sign_ins_per_minute": 1000}
    with control_process(module_dsn, folder, settings) as control:
        yield control


@pytest.fixture
def browser(control: ControlProcess) -> Iterator[Browser]:
    with Browser(control) as browser:
        yield browser


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.name)
@pytest.mark.parametrize("role", ["operator", "auditor"])
def test_every_screen_answers(control: ControlProcess, role: str, screen: Any) -> None:
    with Browser(control, getattr(control.keys, role)) as browser:
        page = browser.page(screen.path)
        assert f"<h1>{screen.question}</h1>" in page
        assert f"{role}, {role}" in page
        # An auditor gets no form but that to sign out, and those that look for something.
        posts = re.findall(r'<form method="post" action="([^"]*)"', page)
        if role == "auditor":
            assert posts == ["/console/sign-out"]
        part = browser.get(screen.path, **{"hx-request": "true"})
        assert (part.status_code, "<html" in part.text, "<h1" in part.text) == (200, False, False)


def test_every_screen_answers_from_an_empty_database(dsn: str, tmp_path: Path) -> None:
    with control_process(dsn, tmp_path) as control, Browser(control) as browser:
        for path in _PATHS:
            for period in PERIODS:
                browser.page(f"{path}?period={period}")


@pytest.mark.parametrize("path", _PATHS)
def test_periods_and_filters(browser: Browser, rows: ConsoleRows, path: str) -> None:
    for query in (
        *(f"period={each}" for each in PERIODS),
        "since=2d&until=1d",
        f"since={rows.incident.began_at:%Y-%m-%dT%H:00:00Z}",
        f"period=7d&account={rows.account}",
        f"period=7d&account={rows.incident.account}&workflow={rows.incident.workflow}",
        "account=Team%20A",
        "workflow=nothing",
        "account=&workflow=&session=&period=",
    ):
        browser.page(f"{path}?{query}")


def test_what_the_pages_show_is_what_happened(browser: Browser, rows: ConsoleRows) -> None:
    incident = rows.incident
    assert incident.workflow in browser.page("/console/?period=7d")
    assert incident.replica in browser.page("/console/requests?period=7d&order=slow")
    assert rows.request in browser.page(f"/console/request?id={rows.request}")
    assert rows.session in browser.page(f"/console/sessions?session={rows.session}")
    assert "3</strong> <span>waiting" in browser.page("/console/flex")
    fleet = browser.page("/console/fleet")
    assert (REPLICA in fleet, HOST in fleet) == (True, True)
    assert "Refused last" in browser.page("/console/policy")


@pytest.mark.parametrize("order", ["cost", "slope", "moves", "breaks", "last"])
def test_orders_of_sessions(browser: Browser, order: str) -> None:
    browser.page(f"/console/sessions?order={order}")


@pytest.mark.parametrize(
    "query",
    ["order=bogus", "since=never", "period=9y", "account=nobody%20here", "since=1d&until=2d"],
)
def test_what_cannot_be_asked_is_said(browser: Browser, query: str) -> None:
    answer = browser.get(f"/console/requests?{query}")
    assert answer.status_code in (400, 404), answer.text[-500:]
    assert "This did not work" in answer.text


def test_search_leads_to_what_was_looked_for(browser: Browser, rows: ConsoleRows) -> None:
    def found(text: str) -> str:
        answer = browser.client.get("/console/search", params={"q": text})
        assert answer.status_code == 303
        return str(answer.headers["location"])

    request = f"/console/request?id={rows.request}"
    assert found(rows.request) == found(rows.request.upper()) == request
    # The trace of a request that came without one.
    assert found(rows.request.replace("-", "")) == request
    # Callers use such ids, too.
    assert found(CALLER_ID) == found(f"  {CALLER_ID} ") == request
    assert found(rows.session).startswith(f"/console/sessions?session={rows.session}")
    assert found("nothing-of-that-name").endswith("caller_request=nothing-of-that-name")
    for text in ("x" * 5000, "\u202e", "<b>", "%", "'; drop table keys; --", "f" * 32, ""):
        assert browser.page(found(text))
    assert browser.get("/console/search?q=a%00b").status_code == 400


def test_every_link_leads_somewhere(browser: Browser) -> None:
    waiting = [f"{path}?period=7d" for path in _PATHS]
    seen = set(waiting)
    count = 0
    while waiting and count < _PAGES_MAX:
        path = waiting.pop(0)
        answer = browser.get(path)
        assert answer.status_code == 200, (path, answer.text[-500:])
        count += 1
        if "text/html" not in answer.headers["content-type"]:
            continue
        links = [each for each in links_of(answer.text) if not each.startswith("#")]
        assert all(each.startswith("/console/") for each in links), path
        # Of each kind of page a few, so that all kinds have their turn.
        for each in links:
            kind = re.sub(r"=[^&]*", "", each)
            if each not in seen and sum(re.sub(r"=[^&]*", "", one) == kind for one in seen) < 4:
                seen.add(each)
                waiting.append(each)
    assert count > 60


def test_links_are_not_cut(browser: Browser) -> None:
    long = "é" * 250
    page = browser.page(f"/console/requests?session={long}&caller_request={long}")
    assert "…" not in "".join(links_of(page))
    orders = [each for each in links_of(page) if "order=dear" in each]
    assert orders
    assert all(each.count("%C3%A9") == 500 for each in orders)


def test_a_key_is_made_and_its_secret_is_shown_once(
    control: ControlProcess, browser: Browser, rows: ConsoleRows, folder: Path
) -> None:
    answer = browser.do("create_key", role="runtime", account=rows.account, name="shown once")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    [secret] = re.findall(r"psk_[\w-]{43}", answer.text)
    assert "shown once" in browser.page("/console/accounts")
    places = [browser.page(path) for path in _PATHS]
    places += [(folder / "control.log").read_text(), str(_acts(control)), str(answer.headers)]
    assert not any(secret in place for place in places)
    [made] = _acts(control, "create_key")
    assert (made["actor"], made["verdict"]) == (_own_key(control), "allow")
    assert made["facts"]["name"] == "shown once"


def test_an_account_is_made_and_seen_at_once_and_blocked_by_its_name(
    control: ControlProcess, browser: Browser
) -> None:
    browser.page("/console/accounts")
    made = browser.do("create_account", name="Twice  spaced ")
    assert (made.status_code, made.headers["location"]) == (303, "/console/accounts")
    assert "Twice  spaced" in browser.page("/console/accounts")
    with control.client() as client:
        [id] = [
            each["id"]
            for each in client.get("/accounts").json()["accounts"]
            if each["name"] == "Twice  spaced "
        ]
    # However it is said that it be blocked, and however the account is named.
    for fields in (
        {"account": id, "is_blocked": "true"},
        {"account": id, "is_blocked": "1"},
        {"account": "Twice  spaced ", "is_blocked": "true"},
        {"account": id, "is_blocked": "true", "typed": "Twice"},
        {"account": id, "is_blocked": "true", "typed": id},
    ):
        refused = browser.do("change_account", **fields)
        assert (refused.status_code, "to confirm" in refused.text) == (400, True), fields
    assert not _acts(control, "change_account")
    done = browser.do("change_account", account=id, is_blocked="true", typed="Twice spaced")
    assert done.status_code == 303
    assert "blocked" in browser.page(f"/console/accounts?account={id}")
    [act] = _acts(control, "change_account")
    assert act["actor"] == _own_key(control)


def test_limits_are_set_and_removed(
    control: ControlProcess, browser: Browser, rows: ConsoleRows
) -> None:
    limit = {"measure": "requests", "period": "day", "amount": "1000"}
    assert browser.do("set_limits", account=rows.account, scope="account", **limit).is_redirect
    page = browser.page(f"/console/accounts?account={rows.account}")
    [id] = re.findall(r'name="limit" value="([^"]+)"', page)
    assert browser.do("remove_limit", limit=id).is_redirect
    assert 'name="limit"' not in browser.page(f"/console/accounts?account={rows.account}")
    assert browser.do("set_limits", account=rows.account, measure="nonsense").status_code == 400
    assert len(_acts(control, "set_limits")) == len(_acts(control, "remove_limit")) == 1


def test_flex_is_paused_and_hosts_and_replicas_are_taken_out(
    control: ControlProcess, browser: Browser
) -> None:
    model = "kimi-k2.5"
    assert browser.do("change_flex", model=model, is_paused="true").is_redirect
    assert "paused" in browser.page("/console/flex")
    assert browser.do("change_flex", model=model, in_flight_max="7").is_redirect
    assert 'value="7"' in browser.page("/console/flex")
    assert browser.do("drain_replica", replica=REPLICA).is_redirect
    assert "drain asked" in browser.page("/console/fleet")
    assert browser.do("restart_replica", replica=REPLICA).status_code == 400
    assert browser.do("restart_replica", replica=REPLICA, typed=REPLICA).is_redirect
    assert browser.do("cordon_host", host=HOST).is_redirect
    assert "cordoned" in browser.page("/console/fleet")
    assert browser.do("uncordon_host", host=HOST).is_redirect
    assert browser.do("drain_host", host=HOST).status_code == 400
    assert browser.do("drain_replica", replica="no such").status_code == 404
    mine = _own_key(control)
    for name in ("change_flex", "drain_replica", "restart_replica", "cordon_host", "uncordon_host"):
        assert {act["actor"] for act in _acts(control, name)} == {mine}, name


def test_keys_are_revoked_by_their_name(
    control: ControlProcess, browser: Browser, rows: ConsoleRows
) -> None:
    with control.client() as client:
        made = client.post("/keys", json={"account": rows.account, "name": f"old {MARKUP}"}).json()
    id = made["key"]["id"]
    assert browser.do("revoke_key", key=id).status_code == 400
    assert browser.do("revoke_key", key=id, typed=f"old {MARKUP}").is_redirect
    assert browser.do("revoke_key", key="no such").status_code == 404
    with control.client() as client:
        keys = client.get("/keys").json()["keys"]
    assert next(each for each in keys if each["id"] == id)["is_revoked"]


def test_signing_out_ends_the_cookie(browser: Browser) -> None:
    token = browser.token()
    answer = browser.client.post(
        "/console/sign-out", data={"token": token}, headers={"origin": browser.origin}
    )
    assert answer.headers["location"] == "/console/sign-in"
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert browser.get("/console/").headers["location"] == "/console/sign-in"


def _acts(control: ControlProcess, name: str = "") -> list[dict[str, Any]]:
    with control.client() as client:
        rows = client.get("/decisions", params={"kind": "operator", "limit": "1000"}).json()["data"]
    return [row for row in rows if name in ("", row["subjects"][0])]


def _own_key(control: ControlProcess) -> str:
    with control.client() as client:
        keys = client.get("/keys").json()["keys"]
    return next(str(key["id"]) for key in keys if key["role"] == "operator")
