"""What people on call do at the console, in a real browser: by mouse, and by keyboard alone."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.acceptance.console.console_cell import (
    ConsoleCell,
    ConsoleReader,
    ConsoleServer,
)
from tests.acceptance.site_browser import Browser
from tests.integration.cells.gateway_process import GatewayProcess

from penstock.policy import KeyBook
from penstock.records.account import Role
from penstock.store import Store, StoreSettings

SEED = 7
_FOCUSED = "document.activeElement.matches({!r})"
_REVOKED_SECONDS = 5.0


@pytest.fixture(scope="module")
def cell(server: ConsoleServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleCell]:
    with server.cell(tmp_path_factory.mktemp("cell"), SEED) as cell:
        yield cell


def is_focused(reader: ConsoleReader, selector: str) -> bool:
    return bool(reader.browser.evaluate(_FOCUSED.format(selector)))


def tab_to(reader: ConsoleReader, selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(120):
        reader.browser.press("Tab")
        if is_focused(reader, selector):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def make_key(dsn: str, role: Role, account: str | None = None) -> tuple[str, str]:
    """A new key's id and its secret."""

    async def make() -> tuple[str, str]:
        store = Store(StoreSettings(dsn=dsn))
        await store.open()
        try:
            key, secret = await KeyBook(store).create(role, account, "somebody")
        finally:
            await store.close()
        return key.id, secret

    return asyncio.run(make())


def test_a_wrong_key_is_told_so_and_a_right_one_signs_in(
    browser: Browser, cell: ConsoleCell
) -> None:
    reader = ConsoleReader(browser, cell.control.url, cell.control.keys.operator)
    browser.delete_cookies()
    reader.open()
    # The field has the focus by itself.
    browser.type("psk_wrong")
    reader.go(lambda: browser.press("Enter"))
    assert "unknown or revoked" in reader.text("[role=alert]")
    reader.check_quiet(refused=403)
    reader.sign_in(cell.control.keys.auditor)
    assert reader.title() == "Stability"
    reader.check_quiet()
    # An auditor sees no button that changes anything.
    for path in ("/console/fleet", "/console/flex", "/console/accounts"):
        reader.open(path)
        assert browser.evaluate("document.querySelectorAll('main form').length") == 0, path


def test_a_revoked_key_is_signed_out_while_it_looks_at_a_live_page(
    browser: Browser, cell: ConsoleCell
) -> None:
    key, secret = make_key(cell.dsn, Role.OPERATOR)
    reader = ConsoleReader(browser, cell.control.url, cell.control.keys.operator)
    reader.sign_in(secret)
    reader.follow("fleet")
    with cell.control.client() as client:
        assert client.delete(f"/keys/{key}").status_code < 300
    began = time.monotonic()
    browser.wait_for("document.title.startsWith('Sign in')", "still signed in")
    assert time.monotonic() - began <= _REVOKED_SECONDS
    # All of the page, not only what renews itself.
    assert not browser.evaluate("!!document.querySelector('nav')")


def test_a_link_from_elsewhere_leads_to_its_page(reader: ConsoleReader) -> None:
    """As one in a chat: the browser keeps the cookie back when another site asks."""
    link = f"{reader.url}/console/requests?period=7d"
    elsewhere = f"data:text/html,<a href='{link}'>look</a>"
    reader.browser.open(elsewhere)
    reader.browser.click("a")
    reader.browser.wait_for("!!document.querySelector('nav')", "no page of the console")
    assert reader.title() == "Requests"
    assert reader.browser.evaluate("location.href") == link
    # Who is not signed in comes to the same page through the page to sign in.
    reader.browser.delete_cookies()
    reader.browser.open(elsewhere)
    reader.browser.click("a")
    reader.browser.wait_for("document.activeElement.id === 'key'", "no page to sign in")
    reader.browser.type(reader.key)
    reader.go(lambda: reader.browser.press("Enter"))
    assert reader.browser.evaluate("location.href") == link
    reader.check_quiet()


def test_signing_out_ends_the_session(reader: ConsoleReader) -> None:
    reader.click("form[action='/console/sign-out'] button")
    assert reader.title() == "Sign in"
    reader.open("/console/spend")
    assert reader.title() == "Sign in"


def test_a_slow_request_is_three_clicks_from_the_first_page(
    reader: ConsoleReader, cell: ConsoleCell
) -> None:
    assert cell.incident is not None
    reader.click("nav a[data-digit='0']")
    assert "slowest" in reader.text("[role=group] [aria-current]:not(.periods a)")
    reader.click("main a.first")
    assert reader.title() == "Request"
    assert f"Replica {cell.incident.replica} is slow" in reader.text(".finding.lead")
    reader.check_quiet()


def test_a_cost_spike_is_explained_by_its_broken_cache(
    reader: ConsoleReader, cell: ConsoleCell
) -> None:
    assert cell.incident is not None
    reader.follow("spend")
    first = reader.text("main tbody tr")
    assert first.startswith(cell.incident.workflow)
    assert "hit ratio" in first
    reader.click("main a.first")
    assert "cache break: system" in reader.text("main tbody tr")
    reader.click("main a.first")
    assert "The system message is not that of the session's last turn" in reader.text(".findings")
    reader.check_quiet()


@pytest.mark.timeout(120)
def test_a_key_is_made_copied_used_and_revoked(
    server: ConsoleServer, browser: Browser, tmp_path: Path
) -> None:
    with server.cell(tmp_path, None) as cell:
        reader = ConsoleReader(browser, cell.control.url, cell.control.keys.operator)
        reader.sign_in()
        browser.allow(reader.url, "clipboardReadWrite", "clipboardSanitizedWrite")
        reader.follow("accounts")
        fill(reader, "#new-account", name="Team C")
        reader.click("main a.first")
        fill(reader, "#new-key", name="laptop of Anna")
        browser.click("[data-copy]")
        copied = "document.querySelector('[data-copy]').textContent === 'Copied'"
        browser.wait_for(copied, "not copied")
        secret = browser.evaluate("navigator.clipboard.readText()")
        assert secret == reader.text("#secret")
        assert secret not in browser.evaluate("location.href")
        reader.click("main a")
        assert reader.title() == "Accounts"
        assert secret not in browser.evaluate("document.documentElement.outerHTML")
        gateway = GatewayProcess(tmp_path, {"store.dsn": cell.dsn}).start()
        try:
            assert _models(gateway, secret) == 200
            row = "tr[data-key='laptop of Anna']"
            fill(reader, row, typed="laptop of Bert")
            assert "Type laptop of Anna to confirm" in reader.text()
            assert _models(gateway, secret) == 200
            reader.open("/console/accounts")
            fill(reader, row, typed="laptop of Anna")
            assert "laptop of Anna" not in reader.text()
            deadline = time.monotonic() + _REVOKED_SECONDS
            while _models(gateway, secret) != 401:
                assert time.monotonic() < deadline, "the revoked key still works"
                time.sleep(0.1)
        finally:
            gateway.stop()
        reader.check_quiet(refused=400)


def fill(reader: ConsoleReader, place: str, **fields: str) -> None:
    """Open a form that is folded away, fill it, and send it."""
    reader.browser.click(f"{place} summary")
    for name, text in fields.items():
        reader.browser.click(f"{place} input[name={name}]")
        reader.browser.type(text)
    reader.click(f"{place} form button")


def _models(gateway: GatewayProcess, secret: str) -> int:
    headers = {"authorization": f"Bearer {secret}"}
    return httpx.get(f"{gateway.url}/v1/models", headers=headers, trust_env=False).status_code


def test_a_limit_is_set_by_keyboard_alone(reader: ConsoleReader, cell: ConsoleCell) -> None:
    browser = reader.browser
    assert cell.incident is not None
    reader.go(lambda: browser.press("g", "8"))
    tab_to(reader, "main a.first")
    reader.go(lambda: browser.press("Enter"))
    tab_to(reader, "#new-limit > summary")
    browser.press("Enter")
    tab_to(reader, "#new-limit input[name=amount]")
    browser.type("4321")
    reader.go(lambda: browser.press("Enter"))
    assert "4.3k" in reader.text()
    reader.check_quiet()


def test_keys_lead_through_a_list_to_a_request(reader: ConsoleReader) -> None:
    browser = reader.browser
    reader.go(lambda: browser.press("g", "3"))
    assert reader.title() == "Spend"
    reader.go(lambda: browser.press("g", "0"))
    names = browser.evaluate(
        "[...document.querySelectorAll('main tbody tr a')].map(a => a.search).slice(0, 30)"
    )
    browser.press("j", "j", "j", "k")
    assert (
        browser.evaluate(
            "[...document.querySelectorAll('tbody tr')].findIndex(e => e.matches('[data-at]'))"
        )
        == 1
    )
    wanted = browser.evaluate("document.querySelector('tr[data-at] a').search")
    assert wanted in names
    reader.go(lambda: browser.press("Enter"))
    assert browser.evaluate("location.search") == wanted
    reader.check_quiet()


def test_the_search_takes_a_session_and_a_request(reader: ConsoleReader, cell: ConsoleCell) -> None:
    browser = reader.browser
    browser.press("/")
    assert is_focused(reader, ".search input")
    # What is typed there is no key of the page.
    browser.press("g", "3")
    assert browser.evaluate("document.querySelector('.search input').value") == "g3"
    browser.press("Backspace", "Backspace")
    assert cell.incident is not None
    session = f"{cell.incident.workflow}-now-{cell.incident.replica}"
    browser.type(session)
    reader.go(lambda: browser.press("Enter"))
    assert reader.title() == "Sessions"
    assert reader.text(".figure").startswith(session)
    reader.click("main tbody a")
    id = reader.text("main code")
    browser.press("/")
    browser.type(id)
    reader.go(lambda: browser.press("Enter"))
    assert reader.text("main code") == id
    reader.check_quiet()


def test_the_list_of_keys_opens_and_closes(reader: ConsoleReader) -> None:
    browser = reader.browser
    browser.press("?")
    assert browser.evaluate("document.getElementById('keys').open")
    assert "go to a page" in reader.text("#keys")
    browser.press("Escape")
    assert not browser.evaluate("document.getElementById('keys').open")
    reader.check_quiet()


def test_the_live_page_renews_itself_and_keeps_what_the_reader_holds(
    reader: ConsoleReader,
) -> None:
    browser = reader.browser
    reader.follow("fleet")
    asked = len(browser.requests)
    tab_to(reader, "main tbody tr:nth-child(2) summary")
    browser.press("Enter")
    tab_to(reader, "main tbody tr:nth-child(2) input[name=typed]")
    browser.type("r-")
    deadline = time.monotonic() + 10
    while len(browser.requests) < asked + 3:
        assert time.monotonic() < deadline, "the page does not renew itself"
        browser.evaluate("new Promise(done => setTimeout(done, 200))")
    assert browser.evaluate("document.querySelector('tr:nth-child(2) details').open")
    assert is_focused(reader, "tr:nth-child(2) input[name=typed]")
    assert browser.evaluate("document.activeElement.value") == "r-"
    reader.check_quiet()


def test_the_scheme_is_kept(reader: ConsoleReader) -> None:
    browser = reader.browser
    browser.prefer("light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = browser.evaluate(ground)
    browser.click("#scheme")
    browser.click("#scheme")
    dark = browser.evaluate(ground)
    assert dark != light
    reader.open("/console/spend")
    assert browser.evaluate(ground) == dark
    browser.click("#scheme")
    assert browser.evaluate(ground) == light
