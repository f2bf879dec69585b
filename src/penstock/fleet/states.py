"""A replica's states and the allowed transitions, as docs/replicas.md shows them."""

from penstock.errors import Superseded
from penstock.records.replica import ReplicaState

ALLOWED: dict[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.STARTING: frozenset(
        {
            ReplicaState.READY,
            ReplicaState.DRAINING,
            ReplicaState.GONE,
        }
    ),
    ReplicaState.READY: frozenset({ReplicaState.DRAINING, ReplicaState.GONE}),
    ReplicaState.DRAINING: frozenset({ReplicaState.GONE}),
    # A gone replica never returns: a replacement is a new replica with a new id.
    ReplicaState.GONE: frozenset(),
}


def check_move(old: ReplicaState, new: ReplicaState) -> None:
    """Raise Superseded unless a replica may go from `old` to `new`."""
    if new not in ALLOWED[old]:
        raise Superseded(f"A replica does not go from {old} to {new}.")
