"""Makes one HTTP call to an engine or a gateway. It blocks: call it in a thread."""

import http.client
import socket
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from penstock.errors import ReplicaUnreachable

_BYTES_MAX = 8 * 2**20


def connection_to(
    parts: SplitResult, seconds: float, ca_file: str = ""
) -> http.client.HTTPConnection:
    """Return an unopened connection to a base URL's host; ValueError if it has none."""
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("write http://HOST:PORT")
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
    context = ssl.create_default_context(cafile=ca_file or None)
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=seconds, context=context)


class HttpAnswer(NamedTuple):
    """A status and a whole body."""

    status: int
    body: bytes


class HttpCaller:
    """Calls base URLs. `api_keys` maps a base URL to its key, "*" stands for all others."""

    def __init__(
        self, *, api_keys: dict[str, str] | None = None, ca_file: str = "", seconds: float = 10.0
    ) -> None:
        self._api_keys = api_keys or {}
        self._ca_file = ca_file
        self._seconds = seconds

    def without_keys(self) -> "HttpCaller":
        """Return a caller that sends no key."""
        return HttpCaller(ca_file=self._ca_file, seconds=self._seconds)

    def get(self, url: str, path: str) -> HttpAnswer:
        return self.call("GET", url, path, None, {})

    def post(
        self, url: str, path: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        sent = {"content-type": "application/json", **(headers or {})}
        return self.call("POST", url, path, body, sent)

    def call(
        self, method: str, url: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> HttpAnswer:
        """Return the answer; raises ReplicaUnreachable with the reason if there is none."""
        try:
            return self._exchange(method, url, path, body, headers)
        except (OSError, ValueError, http.client.HTTPException) as failure:
            raise ReplicaUnreachable(f"{url}{path}: {self._reason(failure)}") from None

    def _reason(self, failure: Exception) -> str:
        """Return what went wrong, with advice where that is known."""
        if isinstance(failure, ConnectionRefusedError):
            return "nothing listens there. Is it started, and is the port right?"
        if isinstance(failure, socket.gaierror):
            return "there is no such host. Is its name right?"
        if isinstance(failure, TimeoutError):
            return f"no answer within {self._seconds:g} s. Is that address reachable from here?"
        return str(failure) or type(failure).__name__

    def _exchange(
        self, method: str, url: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> HttpAnswer:
        parts = urlsplit(url)
        connection = connection_to(parts, self._seconds, self._ca_file)
        key = self._api_keys.get(url) or self._api_keys.get("*", "")
        if key:
            headers["authorization"] = f"Bearer {key}"
        try:
            connection.request(method, parts.path.rstrip("/") + path, body, headers)
            answer = connection.getresponse()
            return HttpAnswer(answer.status, answer.read(_BYTES_MAX))
        finally:
            connection.close()
