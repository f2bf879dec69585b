"""A client's connection that keeps what is written to it."""


class Transport:
    """Keeps each write by itself."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_closed = False

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def close(self) -> None:
        self.is_closed = True


class Connection:
    """What an exchange needs of its connection."""

    def __init__(self) -> None:
        self.transport = Transport()

    def date_header(self) -> bytes:
        return b""

    def on_response_complete(self) -> None: ...


def unchunked(written: bytes) -> bytes:
    """The body of one chunked answer; it must be complete."""
    _, _, rest = written.partition(b"\r\n\r\n")
    body = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        count = int(size, 16)
        if not count:
            assert rest == b"\r\n"
            return body
        body, rest = body + rest[:count], rest[count + 2 :]
