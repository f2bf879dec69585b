"""Checks whether signals reach every host: `local` stays on one host, NATS may be unreachable."""

import logging
from collections.abc import Collection
from typing import Final

from penstock.signals.settings import SignalsSettings

# A change is reported only if it lasts this long, so that a normal connect is no problem.
_STEADY_SECONDS: Final = 3.0
ADVICE: Final = 'Set signals.transport = "nats" and signals.nats_url on every host.'

logger = logging.getLogger(__name__)


def reach_problem(settings: SignalsSettings, hosts: int, *, is_up: bool) -> str:
    """Return why signals do not reach all hosts; empty if they do, or if there is only one host.

    `is_up`: whether the transport that reaches furthest is connected.
    """
    if hosts < 2:
        return ""
    if settings.transport != "nats":
        return f'there are {hosts} hosts, and signals.transport is "{settings.transport}"'
    return "" if is_up else f"there are {hosts} hosts, and NATS cannot be reached"


class Reach:
    """Logs each change once; `problem` is the current problem, or empty."""

    def __init__(self, settings: SignalsSettings, own_host: str) -> None:
        self._settings = settings
        self._own_host = own_host
        self._seen = ""
        self._seen_at = 0.0
        self.problem = ""

    def note(self, hosts: Collection[str], now: float, *, is_up: bool) -> None:
        """Check again. `hosts` are the roster's; a replica without a host does not count."""
        count = len({self._own_host, *hosts} - {""})
        seen = reach_problem(self._settings, count, is_up=is_up)
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        if seen == self.problem or now - self._seen_at < _STEADY_SECONDS:
            return
        self.problem = seen
        if seen:
            extra = {"action": "hosts_unheard", "reason": seen, "advice": ADVICE}
            logger.warning("hosts do not hear each other", extra=extra)
        else:
            logger.info("hosts hear each other", extra={"action": "hosts_heard"})
