"""Reads what a connection needs of a request's head. Pure."""

from typing import Final

import httptools

from penstock.ingress.http.exchange import Headers
from penstock.ingress.settings import IngressSettings

_FILES: Final = b"/v1/files"
# Headers that ask for an upgrade or describe the connection, which closes after this request.
_UPGRADE_HEADERS: Final = frozenset({
    b"connection", b"proxy-connection", b"upgrade", b"http2-settings",
})  # fmt: skip


def new_parser(protocol: object) -> httptools.HttpRequestParser:
    """Return a parser set up like uvicorn's first one: it tolerates data after a last request."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def head_bytes(url: bytes, headers: Headers) -> int:
    return len(url) + sum(len(name) + len(value) for name, value in headers)


def page_bytes_max(target: bytes, settings: IngressSettings) -> int:
    """Return the longest allowed body of a request that is not inference.

    The page for file uploads counts bytes itself and answers 413 for a file that is too large. The
    connection reads on for a while after that answer, so that the client receives it.
    """
    if target.startswith(_FILES):
        return 2 * settings.file_bytes_max + settings.body_bytes_max
    return settings.body_bytes_max


def content_length(headers: Headers) -> int:
    """Return the declared length, or 0. The parser allows only digits, and one such header."""
    for name, value in headers:
        if name == b"content-length":
            # The parser also allows thousands of leading zeros, on which int() fails.
            return int(value.lstrip(b"0") or b"0")
    return 0


def expects_continue(headers: Headers) -> bool:
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers)


def without_upgrade(parser: httptools.HttpRequestParser, target: bytes, headers: Headers) -> bytes:
    """Return the head that this parser has read, without its question for another protocol.

    Java's client asks for h2c with its first request. The parser takes the bytes after the head
    for that protocol, so a new parser gets the head without the question.
    """
    version = parser.get_http_version().encode()
    lines = [b"%s %s HTTP/%s" % (parser.get_method(), target, version), b"connection: close"]
    lines += [b"%s: %s" % pair for pair in headers if pair[0] not in _UPGRADE_HEADERS]
    return b"\r\n".join([*lines, b"", b""])
