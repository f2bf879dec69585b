"""What a screen gets to answer one request: its view, its reader, and the operations."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from penstock.console.operation import Answered, Asked, Operation
from penstock.console.rooms import OperatorRooms
from penstock.console.screens.page_view import PageView
from penstock.console.screens.shared_readings import SharedReadings
from penstock.records.account import Key, Role

# Readers of live pages, which ask every 2 s, share one reading in this time.
_SHARED_SECONDS: Final = 1.5


class PageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a page, from somebody who has signed in."""

    view: PageView
    key: Key
    rooms: OperatorRooms
    readings: SharedReadings

    @property
    def may_change(self) -> bool:
        """Return whether the reader may change anything: auditors may not."""
        return self.key.role is Role.OPERATOR

    async def read(self, operation: Operation[Asked, Answered], asked: Asked) -> Answered:
        """Run an operation that changes nothing."""
        assert operation.is_reading, operation.name
        return await self.readings.read(
            (operation.name, msgspec.json.encode(asked)),
            _SHARED_SECONDS,
            lambda: operation.run(self.rooms, asked),
        )


# What a screen's template is given beside the frame's own values.
Context = Mapping[str, Any]


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """One page: where it is, the question that it answers, and how it is read."""

    name: str
    path: str
    title: str
    # The heading, as a question.
    question: str
    read: Callable[[PageRequest], Awaitable[Context]]
    # Its digit in the list of pages; "" for a page that others link.
    digit: str = ""
    # Renews itself while it is looked at.
    is_live: bool = False
    has_period: bool = True

    @property
    def template(self) -> str:
        return f"{self.name}.html"
