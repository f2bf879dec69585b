"""Finds the key of an operator's or auditor's request, and bounds how much each may ask."""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from penstock.clock import Clock
from penstock.console.settings import ControlSettings
from penstock.errors import Forbidden, RateLimited, Unauthenticated
from penstock.intake.caller_headers import CallerHeaders
from penstock.policy import KeyBook
from penstock.records.account import Key, Role

_WINDOW_SECONDS: Final = 60.0
_NAMES_MAX: Final = 10_000

Name = TypeVar("Name", bound=Hashable)


class MinuteCounts(Generic[Name]):
    """Counts by name within the present minute."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._now = clock.monotonic
        self._ends_at = 0.0
        self._counts: dict[Name, int] = {}

    def is_full(self, name: Name) -> bool:
        """Return whether a name has had all that a minute allows."""
        if self._now() >= self._ends_at or len(self._counts) > _NAMES_MAX:
            self._counts.clear()
            self._ends_at = self._now() + _WINDOW_SECONDS
        return self._counts.get(name, 0) >= self._most

    def add(self, name: Name) -> None:
        self._counts[name] = self._counts.get(name, 0) + 1

    @property
    def seconds_left(self) -> int:
        return max(1, round(self._ends_at - self._now()))


class SignIn:
    """Looks each key up in Postgres, so that a revoked one is refused at once."""

    def __init__(self, keys: KeyBook, settings: ControlSettings, clock: Clock) -> None:
        self._keys = keys
        self._requests: MinuteCounts[str] = MinuteCounts(settings.requests_per_minute, clock)
        self._wrong: MinuteCounts[str] = MinuteCounts(settings.wrong_keys_per_minute, clock)

    async def key_of(self, headers: list[tuple[bytes, bytes]], address: str) -> Key:
        """Return the key of an operator or auditor, or raise why it is none."""
        if self._wrong.is_full(address):
            raise RateLimited(
                "Too many requests with a wrong key from this address.",
                retry_after_seconds=self._wrong.seconds_left,
            )
        try:
            key = await self._find(headers)
        except (Unauthenticated, Forbidden):
            self._wrong.add(address)
            raise
        if self._requests.is_full(key.id):
            raise RateLimited(
                "Too many requests of this key.", retry_after_seconds=self._requests.seconds_left
            )
        self._requests.add(key.id)
        return key

    async def _find(self, headers: list[tuple[bytes, bytes]]) -> Key:
        key = await self._keys.find(CallerHeaders(headers).secret())
        if key is None or key.is_revoked:
            raise Unauthenticated("This API key is unknown or revoked.")
        if key.role is Role.RUNTIME:
            raise Forbidden("A runtime key may not administer: use an operator's key.")
        return key
