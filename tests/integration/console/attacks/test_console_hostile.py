"""Hostile labels, addresses, heads and files: all is text, nothing breaks or leads away."""

import re
from html.parser import HTMLParser
from typing import Final

import httpx
import pytest
from tests.integration.cells.control_process import ControlProcess
from tests.integration.cells.raw_client import RawAnswer, RawClient
from tests.integration.console.console_browser import Browser
from tests.integration.console.console_cell import assert_safe
from tests.integration.console.console_rows import HOSTILE, MARKUP, ConsoleRows

from penstock.console.screens.screens import SCREENS


@pytest.mark.parametrize(
    "back",
    [
        "//evil.example", "https://evil.example", "\\\\evil.example", "/\\evil.example",
        "javascript:alert(1)", "/console/\\..\\..\\evil", "%2f%2fevil.example", "/console/\r\nx: y",
        "/console\n//evil.example", "\t//evil.example", " //evil.example", "/consolex",
        "/operator/v1/accounts", "data:text/html,x", "///evil.example", "http:evil.example",
        "/console/" + "a" * 10_000, "/console/\u202e",
    ],
)  # fmt: skip
def test_nobody_is_led_elsewhere(browser: Browser, back: str) -> None:
    answer = browser.do("change_flex", model="kimi-k2.5", is_paused="false", back=back)
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/")
    shown = browser.do("create_key", role="auditor", name="led elsewhere", back=back)
    assert '<a href="/console/">Back</a>' in shown.text


class _Tags(HTMLParser):
    """Notes what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        names = sorted(given)
        if any(name.startswith("on") or name == "style" for name in names):
            self.found.append(f"{tag} {names}")
        if tag == "script" and not str(given.get("src")).startswith("/console/static/"):
            self.found.append(f"script {given}")
        if tag == "img" and given.get("src") == "x":
            self.found.append("img of an attacker")
        for name in ("href", "src", "action", "hx-get"):
            if given.get(name) and not str(given[name]).startswith(("/console/", "#")):
                self.found.append(f"{tag} {name}={given[name]}")


def test_labels_are_text_on_every_page(browser: Browser, rows: ConsoleRows) -> None:
    everywhere = ""
    quoted = httpx.QueryParams({"session": HOSTILE, "account": rows.account})
    filters = httpx.QueryParams({"workflow": HOSTILE, "period": "7d"})
    paths = [f"{screen.path}?period=7d" for screen in SCREENS]
    paths += [
        f"/console/request?id={rows.hostile}",
        "/console/request?id=01900000-0000-7000-8000-0000000000ff",
        f"/console/sessions?period=7d&{quoted}",
        *(f"{screen.path}?{filters}" for screen in SCREENS),
        "/console/requests?order=last&outcome=failed&period=7d",
        *(f"/console/sessions?order={each}" for each in ("slope", "moves", "breaks", "last")),
        f"/console/requests?{httpx.QueryParams({'replica': HOSTILE, 'caller_request': HOSTILE})}",
        f"/console/nothing?{httpx.QueryParams({'x': HOSTILE})}",
        f"/console/{MARKUP}",
        f"/console/requests?{httpx.QueryParams({'order': HOSTILE})}",
        f"/console/requests?{httpx.QueryParams({'account': HOSTILE})}",
        f"/console/request?{httpx.QueryParams({'id': HOSTILE})}",
        f"/console/fleet?done={MARKUP}",
    ]
    for path in paths:
        page = browser.get(path).text
        tags = _Tags()
        tags.feed(page)
        assert not tags.found, (path, tags.found)
        assert "<script>alert" not in page, path
        visible = re.sub(r'value="[^"]*"', "", page)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]", visible), path
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", visible), path
        everywhere += page
    # Where they are found at all, so that this test tests something.
    assert everywhere.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 40


def test_nothing_that_an_address_says_is_shown_as_ours(browser: Browser) -> None:
    page = browser.page("/console/?done=Your+key+has+expired&flash=Call+us&title=Hello")
    shown = re.sub(r'href="[^"]*"', "", page)
    assert "expired" not in shown
    assert "Call us" not in shown


_STATIC: Final = [
    "../settings.py", "..%2fsettings.py", "%2e%2e/%2e%2e/settings.py", "....//settings.py",
    "console.css", "vendor/htmx-4.0.0.min.js", "vendor%2fSHA256SUMS", "SHA256SUMS",
    "%00", "..\\settings.py", "/etc/passwd", "%2fetc%2fpasswd", "console.css%00.js",
    "../templates/page.html", "", ".", "~root", "con",
]  # fmt: skip


@pytest.mark.parametrize("name", _STATIC)
def test_only_files_with_their_digest_are_served(control: ControlProcess, name: str) -> None:
    for folder in ("/console/static/", "/console/templates/", "/static/"):
        with RawClient(control.port) as client:
            client.send(f"GET {folder}{name} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            answer = client.read_answer()
        assert answer.status in (303, 400, 404), answer
        assert b"class ControlSettings" not in answer.body
        assert b"root:" not in answer.body


def test_files_are_kept_and_pages_are_not(control: ControlProcess, browser: Browser) -> None:
    page = browser.get("/console/")
    assert page.headers["cache-control"] == "no-store"
    names = re.findall(r'(?:href|src)="(/console/static/[^"]+)"', page.text)
    assert len(names) >= 4
    for name in names:
        answer = httpx.get(f"{control.url}{name}", trust_env=False)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert_safe(answer)
    # With a cookie nothing is added to a file that everybody may keep.
    assert "set-cookie" not in browser.get(names[0]).headers


@pytest.mark.parametrize(
    "path",
    [
        "/", "/console", "/console/", "/console/nothing", "/console/sign-in", "/console/do/x",
        "/console/static/nothing", "/console/search", "/console/search?q=x",
        "/console/fleet?a=1&a=2", "/console/requests?order=x", "/console/policy/",
    ],
)  # fmt: skip
def test_every_answer_has_the_headers_of_safety(
    control: ControlProcess, browser: Browser, path: str
) -> None:
    assert_safe(browser.get(path))
    assert_safe(browser.get(path, **{"hx-request": "true"}))
    assert_safe(httpx.get(f"{control.url}{path}", trust_env=False))


_QUERIES: Final = [
    "account=" + "a" * 5000, "&".join(f"p{number}=x" for number in range(200)),
    "period=1h&period=7d", "a=b&" * 4000, "=", "&&&", "%", "%zz=%zz", "since=%00", "x%00=1",
    "since=9999999999d", "since=-1d", "until=0001-01-01", "since=1970-01-01", "period=__class__",
    "account=%ff", "account=\u00e9", "since=NaN", "since=1e400", "limit=1", "id=../../x",
    "id=" + "0" * 36, "session=%F0%9F%92%A9", "order=__dict__", "against=x", "by=x",
    "since=" + "9" * 200, "workflow=%25s%25(x)s", "account={{7*7}}", "id={{config}}",
]  # fmt: skip


@pytest.mark.parametrize("query", _QUERIES)
def test_no_address_breaks_a_page(browser: Browser, query: str) -> None:
    for screen in SCREENS:
        answer = browser.get(f"{screen.path}?{query}")
        assert answer.status_code in (200, 400, 404), (screen.path, answer.text[-500:])
    assert browser.get(f"/console/search?{query}&q=x").status_code in (303, 400)


_HEADS: Final = {
    "bytes in the query": b"GET /console/requests?session=\xff\xfe HTTP/1.1\r\nhost: x\r\n",
    "bytes in the path": b"GET /console/\xff\xfe HTTP/1.1\r\nhost: x\r\n",
    "an address as a path": b"GET http://evil.example/console/ HTTP/1.1\r\nhost: x\r\n",
    "no host": b"GET /console HTTP/1.1\r\n",
    "a host of markup": b'GET /console HTTP/1.1\r\nhost: "><script>\r\n',
    "two slashes": b"GET //evil.example/console/.. HTTP/1.1\r\nhost: x\r\n",
    "HTTP/1.0": b"GET /console/ HTTP/1.0\r\n",
    "forwarded": b"GET /console HTTP/1.1\r\nhost: x\r\nx-forwarded-host: evil.example\r\n"
    b"x-forwarded-proto: https\r\n",
}


@pytest.mark.parametrize("name", _HEADS)
def test_no_head_leads_elsewhere(control: ControlProcess, name: str) -> None:
    with RawClient(control.port) as client:
        client.send(_HEADS[name] + b"connection: close\r\n\r\n")
        answer: RawAnswer = client.read_answer()
    assert answer.status in (303, 400, 404), answer
    assert answer.headers.get("location", "/console/").startswith("/console/")
