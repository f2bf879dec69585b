"""The load of one host's workers at one replica, which the workers exchange in shared memory."""

from penstock.records.replica import ReplicaId


class HostLoad:
    """The load of one worker, or the sum of several workers'. Times are monotonic seconds.

    Immutable: while the load is unchanged, a reader gets the same object again.
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
        # When that oldest request was sent, and when the latest first token arrived; 0 if never.
        self.head_at = head_at
        self.progress_at = progress_at
        self.in_flight = in_flight
        self.decoding = decoding
        # Prompt tokens of all requests in flight.
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
    """Interface between routing and the memory that a host's workers share.

    A class in this room, not a Protocol, so that compiled code calls its methods directly in C.
    """

    def write(self, replica: ReplicaId, load: HostLoad) -> None:
        """Publish this worker's load at a replica."""
        raise NotImplementedError

    def others(self, replica: ReplicaId) -> HostLoad | None:
        """Return the other workers' load there; the same object while the load is unchanged."""
        raise NotImplementedError
