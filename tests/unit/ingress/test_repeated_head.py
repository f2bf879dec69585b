"""A head is known by its bytes only where a parser would read the same from it."""

import contextlib

import httptools
import pytest

from penstock.ingress.caller_headers import CallerHeaders
from penstock.ingress.exchange import Exchange, Headers
from penstock.ingress.repeated_head import RepeatedHead

TARGET = b"/v1/chat/completions"


class Connection:
    """What an exchange asks of its connection: here, nothing."""

    transport = None

    def date_header(self) -> bytes:
        return b""

    def on_response_complete(self) -> None: ...


def request_of(headers: dict[str, str], body: bytes = b"{}", line: str = "") -> bytes:
    lines = [line or f"POST {TARGET.decode()} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class Parsed:
    """What the connection's own parser makes of bytes: the last of the heads in them."""

    def __init__(self, data: bytes) -> None:
        self.headers: Headers = []
        parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
            parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))


def headers_in(data: bytes) -> Headers:
    return Parsed(data).headers


def exchange_of(data: bytes) -> Exchange:
    return Exchange(Connection(), TARGET, headers_in(data))  # type: ignore[arg-type]


def learned(*requests: bytes) -> RepeatedHead:
    head = RepeatedHead()
    for data in requests:
        if head.body_at(data) < 0:
            head.learn(data, exchange_of(data))
    return head


USUAL = {"Host": "a", "Authorization": "Bearer one", "X-Session-Id": "s-1"}
OTHER_SESSION = {**USUAL, "X-Session-Id": "s-2"}


def test_same_head_with_another_length_is_known() -> None:
    head = learned(request_of(USUAL))
    data = request_of(USUAL, b'{"longer":"body"}')
    assert data[head.body_at(data) :] == b'{"longer":"body"}'
    assert head.headers == headers_in(data)
    assert head.target == TARGET


def test_value_that_changed_once_is_read_from_its_place() -> None:
    head = learned(request_of(USUAL), request_of(OTHER_SESSION))
    data = request_of({**USUAL, "X-Session-Id": "another, longer name"}, b"{ }")
    assert data[head.body_at(data) :] == b"{ }"
    assert head.headers == headers_in(data)
    assert head.caller is not None
    assert head.caller.session() == b"another, longer name"


def test_another_key_is_never_taken_for_the_last_one() -> None:
    others = [request_of({**USUAL, "Authorization": f"Bearer {n}"}) for n in ("two", "six", "one")]
    head = learned(request_of(USUAL))
    assert head.body_at(others[0]) == -1
    head.learn(others[0], exchange_of(others[0]))
    for data, secret in zip(others[1:], (b"six", b"one"), strict=True):
        assert head.body_at(data) > 0
        caller, fresh = head.caller, CallerHeaders(headers_in(data))
        assert caller is not None
        assert caller.secret() == secret
        assert caller.secret_sha256() == fresh.secret_sha256()


def test_what_was_read_of_headers_is_kept_while_they_are_the_same() -> None:
    head = learned(request_of(USUAL))
    assert head.body_at(request_of(USUAL)) > 0
    first = head.caller
    assert head.body_at(request_of(USUAL, b"[1, 2]")) > 0
    assert head.caller is first


@pytest.mark.parametrize(
    "data",
    [
        request_of(USUAL)[:-3],
        request_of(USUAL) + b"P",
        request_of(USUAL)[1:],
        request_of({**USUAL, "X-Other": "1"}),
        request_of(OTHER_SESSION),
        request_of(USUAL).replace(b"Content-Length: 2", b"Content-Length: +2"),
        request_of(USUAL).replace(b"Content-Length: 2", b"Content-Length: "),
        request_of(USUAL).replace(b"Content-Length: 2", b"Content-Length: 2\nX: 1"),
        request_of(USUAL).replace(b"POST", b"PUT"),
        request_of(USUAL, line="POST /v1/embeddings HTTP/1.1"),
    ],
)
def test_anything_else_is_left_to_the_parser(data: bytes) -> None:
    assert learned(request_of(USUAL)).body_at(data) == -1


def test_body_may_not_have_come_to_its_end() -> None:
    whole = request_of(USUAL, b"[1, 2, 3]")
    head = learned(whole[:-4])
    for end in (len(whole), len(whole) - 1, len(whole) - 9):
        start = head.body_at(whole[:end])
        assert whole[start:] == b"[1, 2, 3]"
        assert head.body_bytes == 9
        assert head.headers == headers_in(whole)
    assert head.body_at(whole[: len(whole) - 10]) == -1


@pytest.mark.parametrize("value", ["", " s", "s ", "s\n", "s\0", "s\t", "s\x7f", "s" * 257])
def test_value_that_a_parser_reads_otherwise_is_left_to_it(value: str) -> None:
    head = learned(request_of(USUAL), request_of(OTHER_SESSION))
    assert head.body_at(request_of({**USUAL, "X-Session-Id": value})) == -1


@pytest.mark.parametrize(
    "data",
    [
        request_of({**USUAL, "Transfer-Encoding": "chunked"}),
        request_of({**USUAL, "Expect": "100-continue"}),
        request_of({**USUAL, "Upgrade": "h2c"}),
        request_of({**USUAL, "Connection": "close"}),
        request_of(USUAL, line=f"POST {TARGET.decode()} HTTP/1.0"),
        request_of(USUAL).replace(b"Host: a", b"Host:a"),
        request_of(USUAL).replace(b"Host: a", b"Host:  a"),
        request_of(USUAL).replace(b"Host: a\r\n", b"Host: a\n"),
        request_of(USUAL) + request_of(USUAL),
        request_of(USUAL) + request_of(USUAL)[:-2],
        request_of(USUAL)[:-3],
        b"\r\n" + request_of(USUAL),
    ],
)
def test_unusual_head_is_not_learned(data: bytes) -> None:
    head = RepeatedHead()
    head.learn(data, exchange_of(data))
    assert head.body_at(data) == -1


def test_header_that_may_end_the_connection_is_never_read_from_its_place() -> None:
    head = learned(
        request_of({**USUAL, "Connection": "keep-alive"}),
        request_of({**USUAL, "Connection": "Keep-Alive"}),
    )
    assert head.body_at(request_of({**USUAL, "Connection": "close"})) < 0


def test_client_whose_heads_always_differ_is_given_up() -> None:
    head = RepeatedHead()
    for number in range(20):
        data = request_of({**USUAL, f"X-{number}": "1"})
        assert head.body_at(data) == -1
        head.learn(data, exchange_of(data))
    assert head.body_at(data) == -1
