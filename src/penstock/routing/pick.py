"""The rule: among replicas that may take the request, the one with the fewest in flight.

Ties go round, so that an idle fleet is used evenly. A rule that knows prefixes takes this one's
place in `Router`; it has the same question to answer.
"""

from collections.abc import Collection, Sequence

from penstock.records.replica import Replica, ReplicaId
from penstock.routing.outstanding import Outstanding


def least_in_flight(
    candidates: Sequence[Replica],
    outstanding: Outstanding,
    *,
    excluded: Collection[ReplicaId],
    start: int,
) -> Replica | None:
    """The replica with the least share of its slots taken, counted from `start` round the list."""
    best: Replica | None = None
    best_share = 0.0
    count = len(candidates)
    for step in range(count):
        replica = candidates[(start + step) % count]
        if replica.id in excluded:
            continue
        share = outstanding.at(replica.id) / replica.slots_live
        if best is None or share < best_share:
            best, best_share = replica, share
            if not share:
                break
    return best
