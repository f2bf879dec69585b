"""The load that an engine reports with an answer. Not trusted: its reader clamps the numbers."""

import msgspec


class EngineLoad(msgspec.Struct, frozen=True, gc=False):
    """Load of one engine; a figure that the engine does not report is 0."""

    # Requests that wait inside the engine.
    waiting: int = 0
    # The share of the engine's KV cache that is in use.
    kv_use: float = 0.0
