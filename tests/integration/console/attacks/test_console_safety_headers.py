"""Every kind of answer has the whole policy and each header of safety once."""

import re
from collections.abc import Callable
from typing import Final

import httpx
import pytest
from tests.integration.cells.control_process import ControlProcess
from tests.integration.console.console_browser import Browser
from tests.integration.console.console_cell import assert_safe
from tests.integration.console.console_rows import ConsoleRows

from penstock.console.screens.page import Screen
from penstock.console.screens.screens import SCREENS

_PART: Final = {"hx-request": "true"}
_STATIC: Final = re.compile(r'(?:href|src)="(/console/static/[^"]+)"')
_FROM_A_MAIL: Final = {"sec-fetch-site": "cross-site"}


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.name)
def test_pages_and_their_live_parts(browser: Browser, rows: ConsoleRows, screen: Screen) -> None:
    for query in ("", f"?id={rows.hostile}", "?period=7d", "?nothing=there"):
        assert_safe(browser.get(f"{screen.path}{query}"))
        assert_safe(browser.get(f"{screen.path}{query}", **_PART))


def _signed_out(browser: Browser, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{browser.origin}{path}", headers=headers, trust_env=False)


def _ask(browser: Browser) -> httpx.Response:
    headers = {"origin": browser.origin, "x-form-token": browser.token()}
    return browser.client.post("/console/playground/ask", content=b"{}", headers=headers)


# A kind of answer, its status, and how it is had.
_ANSWERS: Final[dict[str, tuple[int, Callable[[Browser], httpx.Response]]]] = {
    "to the first page": (303, lambda it: it.get("/console")),
    "to the page to sign in": (303, lambda it: _signed_out(it, "/console/fleet")),
    "a part, signed out": (401, lambda it: _signed_out(it, "/console/fleet", **_PART)),
    "the page to sign in": (200, lambda it: _signed_out(it, "/console/sign-in")),
    "a link from a mail": (200, lambda it: _signed_out(it, "/console/sign-in", **_FROM_A_MAIL)),
    "a wrong key": (403, lambda it: it.sign_in("psk_wrong")),
    "search": (303, lambda it: it.get("/console/search?q=nothing")),
    "no such page": (404, lambda it: it.get("/console/nothing")),
    "no such part": (404, lambda it: it.get("/console/nothing", **_PART)),
    "no such request": (404, lambda it: it.get("/console/request?id=x")),
    "no such file": (404, lambda it: it.get("/console/static/nothing")),
    "a wrong method": (405, lambda it: it.client.put("/console/sign-in")),
    "a wrong question": (400, lambda it: it.get("/console/?period=never")),
    "a forged form": (403, lambda it: it.client.post("/console/do/create_key", data={"a": "b"})),
    "a wrong form": (400, lambda it: it.do("create_account", name="")),
    "an act": (303, lambda it: it.do("change_flex", model="kimi-k2.5", in_flight_max="3")),
    "a secret": (200, lambda it: it.do("create_key", role="auditor", name="one")),
    "a refusal in JSON": (403, _ask),
}  # fmt: skip


@pytest.mark.parametrize("kind", _ANSWERS)
def test_all_other_answers(browser: Browser, kind: str) -> None:
    status, get = _ANSWERS[kind]
    answer = get(browser)
    assert answer.status_code == status, answer.text[-300:]
    assert_safe(answer)


def test_files(control: ControlProcess, browser: Browser) -> None:
    pages = [browser.page(path) for path in ("/console/", "/console/playground")]
    files = {name for page in pages for name in _STATIC.findall(page)}
    assert {name.rpartition(".")[2] for name in files} >= {"css", "js", "svg"}
    for name in files:
        assert_safe(httpx.get(f"{control.url}{name}", trust_env=False))
