"""What a peer's rule sees of a replica when it chooses, and the shape of such a rule."""

from collections.abc import Sequence
from typing import Protocol

from fleet_simulator.flight import Flight


class ReplicaView:
    """As far as the gateway knows it. Filled in anew for each choice."""

    __slots__ = (
        "cached_tokens", "decoding", "in_flight", "kv_use", "queued_tokens", "replica", "waiting",
    )  # fmt: skip

    def __init__(self, replica: int) -> None:
        self.replica = replica
        self.in_flight = 0
        # Requests without a first token, and the prompt tokens they still need.
        self.waiting = 0
        self.queued_tokens = 0.0
        self.decoding = 0
        # The share of the KV cache that requests hold.
        self.kv_use = 0.0
        # Of this very prompt.
        self.cached_tokens = 0


class Rule(Protocol):
    """One gateway's rule; it may keep a state of its own, such as whose turn it is."""

    def choose(self, flight: Flight, views: Sequence[ReplicaView]) -> int:
        """The chosen replica's number. `views` has the eligible ones."""
        ...
