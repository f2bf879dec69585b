"""An HTTP client that hides nothing: bytes as they are sent and received, one socket at a time."""

import json
import socket
from types import TracebackType
from typing import Any, Self

import msgspec


class RawAnswer(msgspec.Struct, frozen=True):
    """One answer, its transfer coding taken off."""

    version: str
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class RawClient:
    """One connection to a port of this machine."""

    def __init__(self, port: int, *, seconds: float = 20.0, receive_bytes: int = 0) -> None:
        """`receive_bytes` bounds what the kernel takes in for a client that does not read."""
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(seconds)
        try:
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise
        self._held = bytearray()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_some(self) -> bytes:
        """Whatever comes next; b"" when the other side has closed."""
        if self._held:
            return self._take(len(self._held))
        return self.socket.recv(65536)

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to and including `mark`."""
        searched = 0
        while (found := self._held.find(mark, searched)) < 0:
            searched = max(0, len(self._held) - len(mark))
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError(f"closed before {mark!r}, after {self._held[-300:]!r}")
            self._held += data
        return self._take(found + len(mark))

    def read_exactly(self, size: int) -> bytes:
        while len(self._held) < size:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError(f"closed after {len(self._held)} of {size} bytes")
            self._held += data
        return self._take(size)

    def read_to_the_end(self) -> bytes:
        """All that comes until the other side closes."""
        parts = []
        while data := self.read_some():
            parts.append(data)
        return b"".join(parts)

    def read_head(self) -> tuple[str, int, dict[str, str]]:
        lines = self.read_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, _ = lines[0].split(" ", 2)
        pairs = [line.split(": ", 1) for line in lines[1:] if line]
        return version, int(status), {name.lower(): value for name, value in pairs}

    def read_chunk(self) -> bytes:
        """The next chunk of a chunked body; b"" is its end."""
        size = int(self.read_until(b"\r\n"), 16)
        return self.read_exactly(size + 2)[:-2]

    def read_answer(self) -> RawAnswer:
        version, status, headers = self.read_head()
        if headers.get("transfer-encoding") == "chunked":
            parts = []
            while chunk := self.read_chunk():
                parts.append(chunk)
            body = b"".join(parts)
        elif "content-length" in headers:
            body = self.read_exactly(int(headers["content-length"]))
        else:
            body = self.read_to_the_end()
        return RawAnswer(version, status, headers, body)

    def _take(self, size: int) -> bytes:
        data = bytes(self._held[:size])
        del self._held[:size]
        return data

    def is_closed(self) -> bool:
        """Whether the other side has closed; waits for it, at most the time-out."""
        try:
            return self.read_some() == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def post_bytes(
    path: str,
    body: object,
    key: str,
    *,
    version: str = "1.1",
    headers: dict[str, str] | None = None,
) -> bytes:
    """A whole POST request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {
        "host": "gateway",
        "authorization": f"Bearer {key}",
        "content-length": str(len(content)),
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/{version}\r\n{lines}\r\n".encode() + content


def is_refused(port: int) -> bool:
    """Whether nobody takes a new connection on this port."""
    try:
        RawClient(port).close()
    except ConnectionRefusedError:
        return True
    return False
