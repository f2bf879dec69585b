"""What people on call do at the console, in a real browser and by keyboard alone.

The browser of these tests has no mouse: a click fails. Flows by mouse are in the incident's tests.
"""

import asyncio
import json
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
from tests.acceptance.console.marks import marked
from tests.acceptance.site_browser import Browser
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.incident_rows import MODEL

from penstock.policy import KeyBook
from penstock.records.account import Role
from penstock.store import Store, StoreSettings
from penstock.testing import ScriptedEngine

SEED = 7
_FOCUSED = "document.activeElement.matches({!r})"
_REVOKED_SECONDS = 5.0


@pytest.fixture(scope="module")
def cell(server: ConsoleServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleCell]:
    with server.cell(tmp_path_factory.mktemp("cell"), SEED) as cell:
        yield cell


@pytest.fixture(autouse=True)
def without_mouse(browser: Browser) -> Iterator[None]:
    browser.has_mouse = False
    yield
    browser.has_mouse = True


def is_focused(reader: ConsoleReader, selector: str) -> bool:
    return bool(reader.browser.evaluate(_FOCUSED.format(selector)))


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
    reader.check_quiet()


def test_a_click_fails_in_these_tests(reader: ConsoleReader) -> None:
    with pytest.raises(AssertionError, match="only keys are allowed"):
        reader.browser.click("nav a")


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
    reader.check_quiet(refused=401)


def test_a_link_from_elsewhere_leads_to_its_page(reader: ConsoleReader) -> None:
    """As one in a chat: the browser keeps the cookie back when another site asks."""
    link = f"{reader.url}/console/requests?period=7d"
    elsewhere = f"data:text/html,<a href='{link}'>look</a>"
    reader.browser.open(elsewhere)
    reader.browser.activate("a")
    reader.browser.wait_for("!!document.querySelector('nav')", "no page of the console")
    assert reader.title() == "Requests"
    assert reader.browser.evaluate("location.href") == link
    # Who is not signed in comes to the same page through the page to sign in.
    reader.browser.delete_cookies()
    reader.browser.open(elsewhere)
    reader.browser.activate("a")
    reader.browser.wait_for("document.activeElement.id === 'key'", "no page to sign in")
    reader.browser.type(reader.key)
    reader.go(lambda: reader.browser.press("Enter"))
    assert reader.browser.evaluate("location.href") == link


def test_signing_out_ends_the_session(reader: ConsoleReader) -> None:
    reader.click("form[action='/console/sign-out'] button")
    assert reader.title() == "Sign in"
    reader.open("/console/spend")
    assert reader.title() == "Sign in"


def test_a_slow_request_is_found(reader: ConsoleReader, cell: ConsoleCell) -> None:
    assert cell.incident is not None
    reader.follow("requests")
    assert "slowest" in reader.text("[role=group] [aria-current]:not(.periods a)")
    reader.click("main tbody a")
    assert reader.title() == "Request"
    assert f"Replica {cell.incident.replica} is slow" in reader.text(".finding.lead")


def test_a_cost_spike_is_explained_by_its_broken_cache(
    reader: ConsoleReader, cell: ConsoleCell
) -> None:
    assert cell.incident is not None
    reader.follow("spend")
    assert marked(reader.browser) == [cell.incident.workflow]
    assert "hit ratio" in reader.text("main tbody tr")
    reader.click("main tbody a")
    assert "cache break: system" in reader.text("main tbody tr")
    reader.click("main tbody a")
    assert "The system message is not that of the session's last turn" in reader.text(".findings")


@pytest.mark.timeout(120)
def test_a_key_is_made_copied_used_limited_and_revoked(
    server: ConsoleServer, browser: Browser, tmp_path: Path
) -> None:
    with ScriptedEngine(model="kimi") as engine, server.cell(tmp_path, None, engine) as cell:
        gateway = cell.gateway
        reader = ConsoleReader(browser, cell.control.url, cell.control.keys.operator)
        reader.sign_in()
        browser.allow(reader.url, "clipboardReadWrite", "clipboardSanitizedWrite")
        reader.follow("accounts")
        fill(reader, "#new-account", name="Team C")
        reader.click("main tbody a")
        secret = _make_and_copy_key(reader, "laptop of Anna")
        eventually(lambda: _serves(gateway, secret))
        _limit_and_free(reader, gateway, secret)
        row = "tr[data-key='laptop of Anna']"
        fill(reader, row, typed="laptop of Bert")
        assert "Type laptop of Anna to confirm" in reader.text()
        assert _ask(gateway, secret) == 200
        reader.check_quiet(refused=400)
        reader.open("/console/accounts")
        fill(reader, row, typed="laptop of Anna")
        assert "laptop of Anna" not in reader.text()
        eventually(lambda: _ask(gateway, secret) == 401, seconds=_REVOKED_SECONDS)
        reader.check_quiet()


def _make_and_copy_key(reader: ConsoleReader, name: str) -> str:
    """Make a key of the account that the page shows; return what the clipboard has then."""
    browser = reader.browser
    fill(reader, "#new-key", name=name)
    browser.activate("[data-copy]")
    browser.wait_for("document.querySelector('[data-copy]').textContent === 'Copied'", "not copied")
    secret = str(browser.evaluate("navigator.clipboard.readText()"))
    assert secret == reader.text("#secret")
    assert secret not in browser.evaluate("location.href")
    reader.click("main a")
    assert reader.title() == "Accounts"
    assert secret not in browser.evaluate("document.documentElement.outerHTML")
    return secret


def _limit_and_free(reader: ConsoleReader, gateway: str, secret: str) -> None:
    """Allow one request a day, see the next one refused, and take the limit away."""
    fill(reader, "#new-limit", amount="1", period="day")
    assert "requests a day" in reader.text()
    assert _ask(gateway, secret) == 200
    eventually(lambda: _ask(gateway, secret) == 429)
    page = reader.browser.evaluate("location.href").removeprefix(reader.url)

    def is_used_up() -> bool:
        reader.open(page)
        return bool(reader.browser.evaluate("!!document.querySelector('[aria-label=Limits] .bad')"))

    eventually(is_used_up)
    reader.click("form[action$=remove_limit] button")
    assert "No limit." in reader.text()
    eventually(lambda: _ask(gateway, secret) == 200)


def fill(reader: ConsoleReader, place: str, **fields: str) -> None:
    """Open a form that is folded away, fill it, and send it."""
    browser = reader.browser
    browser.activate(f"{place} summary")
    for name, text in fields.items():
        field = f"{place} [name={name}]"
        if browser.evaluate(f"document.querySelector({json.dumps(field)}).matches('select')"):
            browser.choose(field, text)
        else:
            browser.focus(field)
            browser.type(text)
    reader.click(f"{place} form button")


def _serves(gateway: str, secret: str) -> bool:
    """Whether the gateway knows the key and the replica; this counts against no limit."""
    headers = {"authorization": f"Bearer {secret}"}
    answer = httpx.get(f"{gateway}/v1/models", headers=headers, trust_env=False)
    return answer.status_code == 200 and MODEL in answer.text


def _ask(gateway: str, secret: str) -> int:
    """The status of the answer to one small request."""
    body = {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello."}]}
    return httpx.post(
        f"{gateway}/v1/chat/completions",
        headers={"authorization": f"Bearer {secret}"},
        json=body,
        trust_env=False,
        timeout=30,
    ).status_code


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
    browser.activate("main tbody tr:nth-child(2) summary")
    browser.focus("main tbody tr:nth-child(2) input[name=typed]")
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
    browser.activate("#scheme")
    browser.activate("#scheme")
    dark = browser.evaluate(ground)
    assert dark != light
    reader.open("/console/spend")
    assert browser.evaluate(ground) == dark
    browser.activate("#scheme")
    assert browser.evaluate(ground) == light
