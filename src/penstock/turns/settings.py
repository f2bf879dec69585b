"""Settings of turns with tools, `[turns]`."""

from typing import Annotated

import msgspec
from msgspec import Meta


class TurnsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many turns run at once, and how far one may go."""

    # How many turns with tools one worker runs at once; more are refused.
    foreground_max: Annotated[int, Meta(ge=1, le=10_000)] = 64
    # How often the model is asked in one turn, the last time without tools.
    calls_max: Annotated[int, Meta(ge=2, le=1000)] = 64
    # How many tool calls one turn may run; a request may ask for fewer by `max_tool_calls`.
    tool_calls_max: Annotated[int, Meta(ge=1, le=1000)] = 64
    # How many calls of one answer run at the same time.
    parallel_max: Annotated[int, Meta(ge=1, le=64)] = 4
    # How long a turn may take.
    seconds_max: Annotated[float, Meta(ge=1, le=86_400)] = 3600.0
