"""Peers' rules that look at load or at the session, and not at what is cached where."""

import math
from collections.abc import Sequence
from random import Random

from fleet_simulator.flight import Flight
from fleet_simulator.peer_rules.view import ReplicaView

_WORD = 2**64 - 1


class RoundRobin:
    """Each in turn."""

    def __init__(self) -> None:
        self._turn = 0

    def choose(self, flight: Flight, views: Sequence[ReplicaView]) -> int:
        del flight
        self._turn += 1
        return views[(self._turn - 1) % len(views)].replica


class LeastRequests:
    """The fewest in flight; ties at random."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, flight: Flight, views: Sequence[ReplicaView]) -> int:
        del flight
        least = min(view.in_flight for view in views)
        return self._random.choice([v.replica for v in views if v.in_flight == least])


class SessionHash:
    """Always the session's rendezvous replica, whatever the load."""

    def choose(self, flight: Flight, views: Sequence[ReplicaView]) -> int:
        session = flight.request.session
        return max(views, key=lambda view: rank(session, view.replica)).replica


class BoundedLoadHash:
    """The session's first rendezvous replica that has at most 1.25 of the mean in flight."""

    load_factor = 1.25

    def __init__(self, random: Random) -> None:
        self._otherwise = LeastRequests(random)

    def choose(self, flight: Flight, views: Sequence[ReplicaView]) -> int:
        session = flight.request.session
        total = 1 + sum(view.in_flight for view in views)
        limit = math.ceil(self.load_factor * total / len(views))
        by_rank = sorted(views, key=lambda view: rank(session, view.replica), reverse=True)
        for view in by_rank:
            if view.in_flight + 1 <= limit:
                return view.replica
        return self._otherwise.choose(flight, views)


def rank(session: int, replica: int) -> int:
    """Rendezvous: the same order of replicas for a session in every gateway."""
    return mix(mix(session * 7919 + 13) ^ mix(replica * 1_000_003 + 77))


def mix(word: int) -> int:
    """SplitMix64: every bit of the result depends on every bit of the word."""
    word = (word + 0x9E3779B97F4A7C15) & _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)
