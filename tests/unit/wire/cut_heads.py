"""Heads of one connection that end anywhere: what a known head finds, beside what a parser reads.

The unit tests run these cases on the sources, the integration tests on the compiled package.
"""

import httptools
from hypothesis import strategies as st

from penstock.wire.http.known_head import Headers, KnownHead

REQUEST_LINE = b"POST /v1/chat/completions HTTP/1.1\r\n"
STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
DATES = (b"Tue, 14 Nov 2023 22:13:20 GMT", b"Tue, 14 Nov 2023 22:13:21 GMT")


class Parsed:
    """What a fresh parser makes of bytes that begin one message."""

    def __init__(self, data: bytes) -> None:
        self.headers: Headers = []
        self.body = b""
        self.has_head = False
        self.is_wrong = False
        kind = httptools.HttpResponseParser if data[:4] == b"HTTP" else httptools.HttpRequestParser
        try:
            kind(self).feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.is_wrong = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, data: bytes) -> None:
        self.body += data


def learned(*messages: bytes) -> KnownHead:
    """A known head, after these messages have come on its connection."""
    known = KnownHead()
    for data in messages:
        if known.body_at(data) < 0:
            parsed = Parsed(data)
            if parsed.has_head and not parsed.is_wrong:
                known.learn(data, parsed.headers, data[: data.find(b"\n") + 1])
    return known


def check_read(known: KnownHead, data: bytes) -> bool:
    """Whether the head is known; if it is, the parser must read the same from it."""
    start = known.body_at(data)
    if start < 0:
        return False
    parsed = Parsed(data[: start + known.body_bytes])
    assert parsed.has_head, data
    assert not parsed.is_wrong, data
    assert known.headers == parsed.headers, data
    assert parsed.body == data[start : start + known.body_bytes], data
    return True


def message(line: bytes, body: bytes, *, date: bytes = b"", more: bytes = b"") -> bytes:
    dated = b"Date: %b\r\n" % date if date else b""
    length = b"content-length: %d\r\n" % len(body)
    return b"%b%bhost: x\r\n%b%b\r\n%b" % (line, dated, length, more, body)


first_lines = st.sampled_from([REQUEST_LINE, STATUS_LINE])
bodies = st.sampled_from([b"{}", b"", b'{"a":1}', b"x" * 200, b"HTTP/1.1 200 OK\r\n\r\n"])
dates = st.sampled_from([b"", *DATES])
more_lines = st.sampled_from([
    b"", b"x-session-id: s-1\r\n", b"connection: keep-alive\r\n", b"x-last: \r\n",
    b"x-session-id: s-2\r\nserver: uvicorn\r\n",
])  # fmt: skip
others = st.one_of(
    st.binary(min_size=1, max_size=3),
    st.sampled_from([b"\r", b"\n", b"\r\n", b"\r\n\r\n", b" ", b":", b"0", b"-", b"\x00", b"\xff"]),
)
