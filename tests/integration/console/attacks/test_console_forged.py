"""Forged cookies, and forms that others made: nobody is let in, and nothing is changed."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlencode

import httpx
import msgspec
import psycopg
import pytest
from tests.integration.cells.control_process import ControlProcess
from tests.integration.cells.raw_client import RawClient
from tests.integration.cells.runtime_dsn import runtime_dsn
from tests.integration.console.console_browser import FORM, Browser
from tests.integration.console.console_cell import OFFERED, accounts_of, assert_safe
from tests.integration.console.console_rows import MARKUP, ConsoleRows

from penstock.clock import SystemClock
from penstock.console.operations import OPERATIONS
from penstock.console.screens.session_cookie import SessionCookies
from penstock.console.settings import ControlSettings
from penstock.testing.manual_clock import ManualClock

_HOUR: Final = 3600.0


@pytest.fixture(scope="module")
def secret(module_dsn: str) -> bytes:
    with psycopg.connect(module_dsn) as connection:
        row = connection.execute("select secret from console_secret").fetchone()
    assert row is not None
    return bytes(row[0])


class Bench:
    """What makes cookies as this cell does, or as somebody else would."""

    def __init__(self, dsn: str, secret: bytes, rows: ConsoleRows) -> None:
        with psycopg.connect(dsn) as connection:
            row = connection.execute("select id from keys where role = 'operator'").fetchone()
            of_cell = connection.execute("select secret from cell").fetchone()
        assert row is not None
        assert of_cell is not None
        self.operator = str(row[0])
        self.runtime = rows.runtime_key
        self.cell_secret = bytes(of_cell[0])
        self.secret = secret

    def cookie(
        self, *, secret: bytes | None = None, key: str = "", began: float = 0, seen: float = 0
    ) -> str:
        """A cookie of a session that began and was seen so many seconds ago."""
        clock = ManualClock(now=SystemClock().now())
        made = SessionCookies(secret or self.secret, ControlSettings(), clock)
        session = made.begin(key or self.operator)
        return made.write(
            msgspec.structs.replace(
                session,
                began_at=int(session.began_at - began),
                seen_at=int(session.seen_at - seen),
            )
        )


@pytest.fixture(scope="module")
def bench(module_dsn: str, secret: bytes, rows: ConsoleRows) -> Bench:
    return Bench(module_dsn, secret, rows)


def _flipped(cookie: str) -> str:
    return cookie[:20] + ("A" if cookie[20] != "A" else "B") + cookie[21:]


# None of these signs anybody in.
_COOKIES: Final[dict[str, Callable[[Bench], str]]] = {
    "none": lambda _: "",
    "made up": lambda _: "x" * 100,
    "another cell's secret": lambda it: it.cookie(secret=b"s" * 32),
    "the secret that gateways read": lambda it: it.cookie(secret=it.cell_secret),
    "one bit other": lambda it: _flipped(it.cookie()),
    "cut": lambda it: it.cookie()[:-3],
    "longer": lambda it: it.cookie() + "AAAA",
    "too old": lambda it: it.cookie(began=9 * _HOUR),
    "idle": lambda it: it.cookie(seen=0.6 * _HOUR),
    "seen tomorrow": lambda it: it.cookie(seen=-24 * _HOUR),
    "an agent's key": lambda it: it.cookie(key=it.runtime),
    "a key that is not there": lambda it: it.cookie(key="nokey"),
    "SQL for a key": lambda it: it.cookie(key="' or role = 'operator"),
    "quoted": lambda it: f'"{it.cookie()}"',
    "huge": lambda _: "a" * 30_000,
    "backslashes": lambda _: '"' + "\\" * 20_000 + '"',
    "not base64": lambda _: "%%%.\u00e9",
}


@pytest.mark.parametrize("name", _COOKIES)
def test_cookies_that_nobody_was_given_open_nothing(
    control: ControlProcess, bench: Bench, name: str
) -> None:
    cookie = _COOKIES[name](bench).encode()
    with httpx.Client(base_url=control.url, trust_env=False) as client:
        headers = {b"cookie": b"penstock=" + cookie} if cookie else {}
        for path in ("/console/", "/console/accounts", "/console/search?q=x", "/console/nothing"):
            answer = client.get(path, headers=headers)
            to = "" if path == "/console/" else f"?{urlencode({'to': path})}"
            assert answer.status_code == 303
            assert answer.headers["location"] == f"/console/sign-in{to}"
            assert answer.text == ""
        part = client.get("/console/fleet", headers={**headers, b"hx-request": b"true"})
        assert (part.status_code, part.text) == (401, "")
        assert part.headers["hx-redirect"] == "/console/sign-in"
        act = client.post("/console/do/create_account", headers=headers, data={"name": "x"})
        assert act.status_code == 303


def test_a_good_cookie_counts_beside_those_of_other_programs(
    control: ControlProcess, bench: Bench
) -> None:
    """Cookies of one host are shared by all its ports."""
    for beside in ('a={"x": 1, "y": [1,2]}', "b", "=c", "d=\x80", 'e="', "penstock2=x"):
        cookie = f"{beside}; penstock={bench.cookie()}; {beside}"
        headers = {b"cookie": cookie.encode("latin-1")}
        answer = httpx.get(f"{control.url}/console/request", headers=headers, trust_env=False)
        assert answer.status_code == 200, beside


def test_gateways_cannot_make_a_cookie(module_dsn: str) -> None:
    with (
        psycopg.connect(runtime_dsn(module_dsn)) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("select secret from console_secret")


class Post:
    """One form of an action, to be spoilt."""

    def __init__(self, browser: Browser, other: Browser) -> None:
        self.browser, self.other = browser, other
        self.path = "/console/do/create_account"
        self.fields: Any = {"token": browser.token(), "name": "never made"}
        self.headers = {"origin": browser.origin}
        self.content: bytes | None = None

    def send(self) -> httpx.Response:
        client = self.browser.client
        if self.content is not None:
            headers = {"content-type": FORM, **self.headers}
            return client.post(self.path, content=self.content, headers=headers)
        return client.post(self.path, data=self.fields, headers=self.headers)


def _fields(**changed: str) -> Callable[[Post], None]:
    return lambda post: post.fields.update(changed)


def _headers(**changed: str) -> Callable[[Post], None]:
    return lambda post: post.headers.update({n.replace("_", "-"): v for n, v in changed.items()})


def _path(path: str) -> Callable[[Post], None]:
    return lambda post: setattr(post, "path", path)


def _content(make: Callable[[str], bytes]) -> Callable[[Post], None]:
    return lambda post: setattr(post, "content", make(str(post.fields["token"])))


# Each is refused with one of these statuses, and makes nothing.
_POSTS: Final[dict[str, tuple[Callable[[Post], Any], set[int]]]] = {
    "no token": (lambda post: post.fields.pop("token"), {403}),
    "an empty token": (_fields(token=""), {403}),
    "a wrong token": (_fields(token="0" * 64), {403}),
    "a token that is no ASCII": (_fields(token="é" * 32), {403}),
    "another session's token": (
        lambda post: post.fields.update(token=post.other.token()),
        {403},
    ),
    "two tokens": (_content(lambda token: f"token={token}&token={token}&name=n".encode()), {400}),
    "no origin": (lambda post: post.headers.pop("origin"), {403}),
    "a foreign origin": (_headers(origin="https://evil.example"), {403}),
    "the origin null": (_headers(origin="null"), {403}),
    "an origin that begins so": (
        lambda post: post.headers.update(origin=post.browser.origin + ".evil.example"),
        {403},
    ),
    "https where http is served": (
        lambda post: post.headers.update(origin=post.browser.origin.replace("http", "https")),
        {403},
    ),
    "a foreign host": (_headers(host="evil.example"), {403}),
    "a JSON body": (_headers(content_type="application/json"), {400}),
    "plain text": (_headers(content_type="text/plain"), {400}),
    "multipart": (_headers(content_type="multipart/form-data; boundary=x"), {400}),
    "no type": (_headers(content_type=""), {400}),
    "bytes that are not UTF-8": (
        _content(lambda token: b"token=" + token.encode() + b"&name=\xff\xfe"),
        {400},
    ),
    "escapes that are not UTF-8": (
        _content(lambda token: f"token={token}&name=%ff%fe".encode()),
        {400},
    ),
    "a NUL": (_content(lambda token: f"token={token}&name=a%00b".encode()), {400}),
    "a NUL in a field's name": (
        _content(lambda token: f"token={token}&name=a&na%00me=b".encode()),
        {400},
    ),
    "ten thousand fields": (
        _content(lambda token: f"token={token}&".encode() + b"a=b&" * 10_000),
        {400},
    ),
    "five megabytes": (
        _content(lambda token: f"token={token}&name=".encode() + b"a" * 5 * 2**20),
        {413},
    ),
    "a field twice": (_content(lambda token: f"token={token}&name=a&name=b".encode()), {400}),
    "a field that it does not have": (_fields(role="operator"), {400}),
    "a field with a name of markup": (_fields(**{MARKUP: "x"}), {400}),
    "a long field's name": (_fields(**{"n" * 100_000: "x"}), {400}),
    "no name": (_fields(name=""), {400}),
    "a name that turns": (_fields(name="\u202egnp"), {400}),
    "a name of two lines": (_fields(name="a\r\nset-cookie: x=y"), {400}),
    "an operation that is not there": (_path("/console/do/nothing"), {404}),
    "an operation that reads": (_path("/console/do/list_keys"), {404}),
    "one that is the API's alone": (_path("/console/do/forget_account"), {404}),
    "one that applies contracts": (_path("/console/do/apply_contracts"), {404}),
    "a path up": (_path("/console/do/..%2f..%2foperator%2fv1%2faccounts"), {404, 405}),
    "a post to a page": (_path("/console/accounts"), {405}),
    "a post to a file": (_path("/console/static/console.css"), {405}),
    "a post to search": (_path("/console/search"), {405}),
}


@pytest.fixture(scope="module")
def other(control: ControlProcess) -> Iterator[Browser]:
    with Browser(control) as other:
        yield other


@pytest.mark.parametrize("name", _POSTS)
def test_forms_that_are_not_ours_change_nothing(
    control: ControlProcess, browser: Browser, other: Browser, name: str
) -> None:
    spoil, statuses = _POSTS[name]
    before = accounts_of(control)
    post = Post(browser, other)
    spoil(post)
    answer = post.send()
    assert answer.status_code in statuses, answer.text[-500:]
    assert "<script>alert" not in answer.text
    assert len(answer.text) < 20_000
    # The connection itself refuses bodies that are too long.
    if answer.status_code != 413:
        assert_safe(answer)
        assert 'http-equiv="refresh"' not in answer.text
    assert accounts_of(control) == before


def test_every_operation_that_the_console_does_not_offer_is_unknown_to_it(
    browser: Browser,
) -> None:
    token = browser.token()
    for operation in OPERATIONS:
        answer = browser.client.post(
            f"/console/do/{operation.name}",
            data={"token": token},
            headers={"origin": browser.origin},
        )
        # Without its fields each is refused; none of those that are offered has none.
        assert answer.status_code == (400 if operation.name in OFFERED else 404), operation.name


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "path", ["/console/do/create_account?name=never", "/console/accounts", "/console/sign-out"]
)
def test_other_methods_change_nothing(
    control: ControlProcess, browser: Browser, method: str, path: str
) -> None:
    before = accounts_of(control)
    answer = browser.client.request(method, path, headers={"origin": browser.origin})
    is_page = path == "/console/accounts" and method in ("GET", "HEAD")
    assert answer.status_code in ({200} if is_page else {404, 405}), answer.text[-300:]
    assert method != "HEAD" or answer.text == ""
    assert_safe(answer)
    assert accounts_of(control) == before
    browser.page("/console/")


def test_a_form_that_breaks_off_is_no_crash(control: ControlProcess, bench: Bench) -> None:
    head = (
        f"POST /console/do/create_account HTTP/1.1\r\nhost: 127.0.0.1:{control.port}\r\n"
        f"origin: {control.url}\r\ncookie: penstock={bench.cookie()}\r\n"
        f"content-type: {FORM}\r\ncontent-length: 500\r\n\r\ntoken="
    )
    for _ in range(5):
        with RawClient(control.port) as client:
            client.send(head.encode())
            time.sleep(0.05)
    with Browser(control) as browser:
        browser.page("/console/")
