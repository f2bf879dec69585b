"""Streams whose events have names, as a client reads them."""

import json
from typing import Any

import msgspec


class NamedEvent(msgspec.Struct, frozen=True):
    """One event: its name, and its data as JSON."""

    name: str
    data: dict[str, Any]


def named_events(text: str) -> list[NamedEvent]:
    """Every event of a stream; comments are left out, and anything unnamed fails."""
    events = []
    for block in text.split("\n\n"):
        if not block or block.startswith(":"):
            continue
        name, data = block.split("\n")
        assert name.startswith("event: ")
        assert data.startswith("data: ")
        events.append(NamedEvent(name.removeprefix("event: "), json.loads(data[6:])))
    assert all(event.data["type"] == event.name for event in events)
    return events
