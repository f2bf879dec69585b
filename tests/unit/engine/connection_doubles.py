"""What stands on both sides of an engine's connection in tests that feed it bytes."""

from penstock.engine.connection import Connection, IdleCallback


class DroppableTransport:
    """Takes what is written, and can be dropped."""

    def __init__(self) -> None:
        self.is_aborted = False

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted


class CountingPool(IdleCallback):
    """Counts the connections that come back."""

    def __init__(self) -> None:
        self.idled = 0

    def idle(self, connection: Connection) -> None:
        self.idled += 1

    def closed(self, connection: Connection) -> None: ...
