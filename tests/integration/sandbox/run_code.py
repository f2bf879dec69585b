"""Runs code in a container and joins what it reports."""

from collections.abc import Sequence

from penstock.sandbox.box import Box
from penstock.sandbox.kernel_events import CallEvent
from penstock.wire.resources.sandbox import Failed, Output, ShownValue


async def run_code(box: Box, code: str, seconds: float = 20.0) -> list[CallEvent]:
    return [event async for event in box.execute(code, seconds)]


def text_of(events: Sequence[CallEvent]) -> str:
    return "".join(
        event.text for event in events if isinstance(event, Output | ShownValue | Failed)
    )
