"""Counts the requests that this worker has in flight at one replica."""

import math
from typing import Final

from penstock.routing.route import Route

# Nothing shows when the prefill of an unstreamed request ends: the request counts as decoding after
# this multiple of the expected wait.
_UNSEEN_FIRST_TOKEN: Final = 1.5


class Outstanding:
    """Requests in flight, those among them without a first token, and their tokens.

    The sums are updated at every change, because a choice reads them for every candidate.
    """

    def __init__(self) -> None:
        # The time before which `settle` has nothing to do.
        self._settles_at = 0.0
        # Requests without a first token, in the order in which they were sent.
        self._waiting: dict[Route, None] = {}
        self.in_flight = 0
        self.decoding = 0
        # Uncached prompt tokens of all in `_waiting`, and of the oldest of them.
        self.queued_tokens = 0
        self.head_tokens = 0
        self.head_at = 0.0
        # How many in `_waiting` are not streamed.
        self.unstreamed = 0
        # Prompt tokens of all in flight: what they take of the KV cache.
        self.prompt_tokens = 0
        # When the replica last finished a prompt, or began its only one.
        self.progress_at = 0.0

    def add(self, route: Route, now: float) -> None:
        tokens = route.uncached
        if not self._waiting:
            self.progress_at = self.head_at = now
            self.head_tokens = tokens
        route.is_waiting = True
        self._waiting[route] = None
        self.in_flight += 1
        self.queued_tokens += tokens
        self.prompt_tokens += route.prompt_tokens
        if not route.is_stream:
            self.unstreamed += 1
            self._settles_at = min(self._settles_at, _settles_at(route))

    def note_first(self, route: Route, now: float) -> None:
        """Record that the request's prompt is prefilled. Repeated calls have no effect."""
        if route.is_waiting:
            self._leave(route)
            self.progress_at = now

    def remove(self, route: Route, now: float) -> None:
        if route.is_waiting:
            # It ended without a first token: only if it was the head does another prompt begin.
            is_head = next(iter(self._waiting)) is route
            self._leave(route)
            if is_head:
                self.progress_at = now
        self.in_flight -= 1
        self.decoding -= 1
        self.prompt_tokens -= route.prompt_tokens

    def settle(self, now: float) -> None:
        """Count unstreamed requests as decoding once their prefill must be over."""
        if now < self._settles_at:
            return
        overdue = []
        self._settles_at = math.inf
        for route in self._waiting:
            if route.is_stream:
                continue
            at = _settles_at(route)
            if now < at:
                self._settles_at = at
                break
            overdue.append(route)
        for route in overdue:
            self._leave(route)
            self.progress_at = max(self.progress_at, route.sent_at + route.expected_seconds)

    def _leave(self, route: Route) -> None:
        route.is_waiting = False
        self.decoding += 1
        del self._waiting[route]
        self.queued_tokens -= route.uncached
        if not route.is_stream:
            self.unstreamed -= 1
            # The next unstreamed request may be due before this one was.
            self._settles_at = 0.0
        self.head_tokens, self.head_at = 0, 0.0
        if self._waiting:
            for head in self._waiting:
                self.head_tokens, self.head_at = head.uncached, head.sent_at
                break


def _settles_at(route: Route) -> float:
    """Return when the prefill of an unstreamed request must be over."""
    return route.sent_at + _UNSEEN_FIRST_TOKEN * route.expected_seconds
