"""Three honest engines behind one router, in simulated time: one prompt after the other."""

import heapq
from collections.abc import Callable, Iterator
from itertools import count, pairwise

from tests.unit.routing.routing_samples import Roster, a_request

from penstock.records.replica import ReplicaId
from penstock.records.usage import Usage
from penstock.routing import Route, Router

RATE = 15_000
DECODE_SECONDS = 0.2


class ServedFleet:
    """Runs requests at fixed times and remembers when each replica got one."""

    def __init__(self, router: Router, roster: Roster) -> None:
        self.router = router
        self.sent_at: dict[ReplicaId, list[float]] = {each.id: [] for each in roster.all}
        self._free_at = dict.fromkeys(self.sent_at, 0.0)
        self._order = count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []

    def at(self, when: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), act))

    def every(
        self, interval: float, start: float, end: float, act: Callable[[float], None]
    ) -> None:
        for when in spread(interval, start, end):
            self.at(when, act)

    def run(self) -> None:
        while self._events:
            now, _, act = heapq.heappop(self._events)
            act(now)

    def ask(self, now: float) -> None:
        """A new conversation of 1,000 tokens."""
        number = next(self._order)
        route = self.router.pick(a_request(f"t{number}"), (), now)
        self.router.sent(route, now)
        self.sent_at[route.replica.id].append(now)
        began = max(now, self._free_at[route.replica.id])
        first = self._free_at[route.replica.id] = began + route.prompt_tokens / RATE
        self.at(first, lambda at: self.router.first_token(route, at))
        self.at(first + DECODE_SECONDS, lambda at: self._finish(route, at))

    def _finish(self, route: Route, now: float) -> None:
        self.router.finished(route, Usage(route.prompt_tokens, 10, 0), now)

    def longest_gap(self, replica: str, start: float, end: float) -> float:
        times = [start, *(t for t in self.sent_at[ReplicaId(replica)] if start < t < end), end]
        return max(after - before for before, after in pairwise(times))


def spread(interval: float, start: float, end: float) -> Iterator[float]:
    step = 0
    while start + step * interval < end:
        yield start + step * interval
        step += 1
