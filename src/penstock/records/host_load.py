"""What the workers of one host have under way at one replica, as they share it in memory."""

from penstock.records.replica import ReplicaId


class HostLoad:
    """A worker's own figures, or the sum of several workers'. Times are monotonic seconds.

    Never changed once made: where nothing has happened, a reader is given the same one again.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the fields of a record
        self,
        outstanding: float = 0.0,
        head_tokens: float = 0.0,
        head_at: float = 0.0,
        progress_at: float = 0.0,
        in_flight: float = 0.0,
        decoding: float = 0.0,
        prompt_tokens: float = 0.0,
    ) -> None:
        # Uncached prompt tokens of requests without a first token, and of the oldest of them.
        self.outstanding = outstanding
        self.head_tokens = head_tokens
        # When that oldest request went out, and when the last first token came; 0 when none did.
        self.head_at = head_at
        self.progress_at = progress_at
        self.in_flight = in_flight
        self.decoding = decoding
        # Prompt tokens of everything in flight.
        self.prompt_tokens = prompt_tokens

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostLoad) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def _fields(self) -> tuple[float, ...]:
        return (
            self.outstanding, self.head_tokens, self.head_at, self.progress_at, self.in_flight,
            self.decoding, self.prompt_tokens,
        )  # fmt: skip


class HostTable:
    """The port between routing and the memory that a host's workers share.

    A class, not a Protocol, and below both rooms: so that calls to it are calls of C.
    """

    def write(self, replica: ReplicaId, load: HostLoad) -> None:
        """What this worker has under way there."""
        raise NotImplementedError

    def others(self, replica: ReplicaId) -> HostLoad | None:
        """What the other workers have there; the same object again while that is the same."""
        raise NotImplementedError
