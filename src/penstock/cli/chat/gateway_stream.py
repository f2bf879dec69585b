"""Calls a gateway for the playground: lists models, and streams one answer at a time."""

import http.client
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import BinaryIO, Final
from urllib.parse import quote, urlsplit

import msgspec

from penstock.cli.chat.saved_files import CitedFile
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.http_call import HttpCaller, connection_to
from penstock.wire.resources.errors import OpenAIErrorAnswer

# A long prompt may take minutes to its first token, but comments arrive meanwhile.
_SILENCE_SECONDS: Final = 120.0
# The last event of a response repeats what all its code printed.
_LINE_BYTES_MAX: Final = 64 * 2**20
_FILE_BYTES_MAX: Final = 2**30
_CHUNK_BYTES: Final = 2**20
_CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
_CONTAINERS: Final = "/v1/containers"
_NO_SANDBOX: Final = (
    "This gateway cannot run code now: it has no sandbox host, or none that answers and has room."
)
_NO_TOOLS: Final = "/tools off goes on without tools."


class _Model(msgspec.Struct):
    id: str


class _Container(msgspec.Struct):
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

    def try_sandbox(self) -> None:
        """Start and end a container; CommandFailed says why no code can run.

        An engine may ignore a tool that its gateway does not run, so an answer would not tell.
        """
        caller = HttpCaller(api_keys={"*": self._secret})
        answer = caller.post(self._url, _CONTAINERS, b'{"name":"penstock chat"}')
        if answer.status == 503:
            raise CommandFailed(_NO_SANDBOX)
        if answer.status != 200:
            raise CommandFailed(_reason(answer.status, answer.body))
        started = msgspec.json.decode(answer.body, type=_Container)
        caller.call("DELETE", self._url, f"{_CONTAINERS}/{quote(started.id, '')}", None, {})

    @contextmanager
    def answer(self, body: bytes, session: str, page: str = _CHAT) -> Iterator[Iterator[bytes]]:
        """Yield the lines of one streamed answer. Leaving early closes it, and the engine stops."""
        with closing(self._connect()) as connection:
            headers = {
                "authorization": f"Bearer {self._secret}",
                "content-type": "application/json",
                "x-session-affinity": session,
                "x-penstock-cost": "1",
            }
            path = self._parts.path.rstrip("/") + page
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

    def download(self, file: CitedFile, target: BinaryIO) -> None:
        """Write the content of a file that an answer cites."""
        path = f"{_CONTAINERS}/{quote(file.container_id, '')}/files/{quote(file.file_id, '')}"
        headers = {"authorization": f"Bearer {self._secret}"}
        with closing(self._connect()) as connection:
            try:
                connection.request(
                    "GET", f"{self._parts.path.rstrip('/')}{path}/content", headers=headers
                )
                response = connection.getresponse()
                if response.status != 200:
                    raise CommandFailed(_reason(response.status, response.read(_LINE_BYTES_MAX)))
                size = 0
                while chunk := response.read(_CHUNK_BYTES):
                    size += len(chunk)
                    if size > _FILE_BYTES_MAX:
                        raise CommandFailed(f"{file.filename} is too large.")
                    target.write(chunk)
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
    if error.param is not None and error.param.startswith("tools"):
        return f"{error.message} ({error.code}) {_NO_TOOLS}"
    return f"{error.message} ({error.code})"
