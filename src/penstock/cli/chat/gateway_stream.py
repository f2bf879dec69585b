"""Calls a gateway for the playground: lists models, and streams one answer at a time."""

import http.client
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final
from urllib.parse import urlsplit

import msgspec

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.http_call import HttpCaller, connection_to
from penstock.wire.resources.errors import OpenAIErrorAnswer

# A long prompt may take minutes to its first token, but comments arrive meanwhile.
_SILENCE_SECONDS: Final = 120.0
_LINE_BYTES_MAX: Final = 8 * 2**20


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model] = []


class GatewayStream:
    """A client of one gateway, with one key."""

    def __init__(self, url: str, secret: str) -> None:
        # `up` prints the address for OpenAI's clients, with `/v1`; accept that too.
        url = self._url = url.rstrip("/").removesuffix("/v1")
        try:
            self._parts = urlsplit(url)
            # Read the port now: `urlsplit` notices an invalid one only when it is read.
            _ = self._parts.port
        except ValueError as wrong:
            raise CommandFailed(f"{url}: {wrong}", ExitCode.USAGE) from None
        self._secret = secret
        # The replica of the last answer, if the answer before came from another replica.
        self.moved_to = ""
        self._replica = ""

    def models(self) -> list[str]:
        """Return the ids of the models that this key may use."""
        answer = HttpCaller(api_keys={"*": self._secret}).get(self._url, "/v1/models")
        if answer.status != 200:
            raise CommandFailed(_reason(answer.status, answer.body))
        return [model.id for model in msgspec.json.decode(answer.body, type=_Models).data]

    @contextmanager
    def answer(self, body: bytes, session: str) -> Iterator[Iterator[bytes]]:
        """Yield the lines of one streamed answer. Leaving early closes it, and the engine stops."""
        with closing(self._connect()) as connection:
            headers = {
                "authorization": f"Bearer {self._secret}",
                "content-type": "application/json",
                "x-session-affinity": session,
                "x-penstock-cost": "1",
            }
            path = self._parts.path.rstrip("/") + "/v1/chat/completions"
            try:
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                if response.status != 200:
                    raise CommandFailed(_reason(response.status, response.read(_LINE_BYTES_MAX)))
                replica = response.getheader("x-penstock-replica", "")
                is_moved = bool(replica and self._replica and replica != self._replica)
                self.moved_to = replica if is_moved else ""
                self._replica = replica or self._replica
                yield iter(lambda: response.readline(_LINE_BYTES_MAX), b"")
            except (OSError, http.client.HTTPException) as failure:
                raise CommandFailed(f"{self._url}: {failure or type(failure).__name__}") from None

    def _connect(self) -> http.client.HTTPConnection:
        try:
            return connection_to(self._parts, _SILENCE_SECONDS)
        except ValueError as wrong:
            raise CommandFailed(f"{self._url}: {wrong}") from None


def _reason(status: int, body: bytes) -> str:
    try:
        error = msgspec.json.decode(body, type=OpenAIErrorAnswer).error
    except msgspec.DecodeError:
        return f"The gateway says {status}."
    return f"{error.message} ({error.code})"
