"""Writes the heads of the scripted engine's answers, as uvicorn writes them for vLLM."""

from collections.abc import Mapping
from email.utils import formatdate

from penstock.clock import Clock

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
_NONE: Mapping[str, str] = {}


class ResponseHead:
    """Writes heads; formats the date once a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = 0
        self._date = ""

    def json(self, status: int, length: int, extra: Mapping[str, str] = _NONE) -> bytes:
        return self.plain(status, length, "application/json", extra)

    def plain(
        self, status: int, length: int, content_type: str | None, extra: Mapping[str, str] = _NONE
    ) -> bytes:
        """Return the head of an answer with a content length."""
        kind = "" if content_type is None else f"content-type: {content_type}\r\n"
        return self._head(status, extra, f"content-length: {length}\r\n{kind}")

    def stream(self, extra: Mapping[str, str] = _NONE) -> bytes:
        """Return the head of a chunked answer of server-sent events."""
        content = "content-type: text/event-stream; charset=utf-8\r\n"
        return self._head(200, extra, content, "transfer-encoding: chunked\r\n")

    def _head(self, status: int, extra: Mapping[str, str], *content: str) -> bytes:
        second = int(self._clock.now())
        if second != self._second:
            self._second = second
            self._date = formatdate(second, usegmt=True)
        lines = "".join(f"{name}: {value}\r\n" for name, value in extra.items())
        reason = _REASONS.get(status, "Unknown")
        return (
            f"HTTP/1.1 {status} {reason}\r\ndate: {self._date}\r\nserver: uvicorn\r\n"
            f"{lines}{content[0]}vary: Origin\r\n{''.join(content[1:])}\r\n"
        ).encode("latin-1")
