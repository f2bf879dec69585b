"""Screen 4: one request from its asking to its bill, and what stood out."""

from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.console.charts import TimePart
from penstock.console.incident_operations import EXPLAIN_REQUEST, RequestExplained
from penstock.console.screens.figures import milliseconds
from penstock.console.screens.page import Context, PageRequest
from penstock.wire.resources.usage import AttemptAnswer

_MINUTE: Final = timedelta(minutes=1)


async def read_request(page: PageRequest) -> Context:
    """Read one request; without an id, only the box to look for one."""
    id = page.view.get("id")
    if not id:
        return {"found": None, "id": ""}
    found = await page.read(EXPLAIN_REQUEST, RequestExplained(id=id))
    attempts = found.request.attempts if found.request else []
    whole = max((each.waited_ms + each.duration_ms for each in attempts), default=0.0)
    return {
        "id": id,
        "found": found,
        # As in the summary that `penstock explain` prints, what can be mended leads.
        "findings": sorted(found.findings, key=lambda each: not each.advice),
        "attempts": attempts,
        "last": attempts[-1] if attempts else None,
        "phases": [_phases(each, whole) for each in attempts],
        "whole_ms": whole,
        "minute": _minute_of(found.asked_at),
    }


def _minute_of(time: datetime) -> dict[str, str]:
    """Return the parameters of an address that shows the minute of a time."""
    start = time.astimezone(UTC).replace(second=0, microsecond=0)
    since, until = (f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in (start, start + _MINUTE))
    return {"since": since, "until": until}


def _phases(attempt: AttemptAnswer, whole_ms: float) -> list[TimePart]:
    """Return the parts of an attempt's time, as shares of the whole request's."""
    first = attempt.first_token_ms
    parts = [("waited", attempt.waited_ms)]
    if first is None:
        parts.append(("at the engine", attempt.duration_ms))
    else:
        parts += [("first token", first), ("answering", attempt.duration_ms - first)]
    return [
        TimePart(f"{name} {milliseconds(each)}", each / whole_ms if whole_ms else 0.0)
        for name, each in parts
    ]
