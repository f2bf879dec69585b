"""What an engine says of its load with an answer. A claim: whoever reads it clamps it."""

import msgspec


class EngineLoad(msgspec.Struct, frozen=True, gc=False):
    """Nothing said is nothing there."""

    # Requests that wait inside the engine.
    waiting: int = 0
    # The share of its KV cache that is in use.
    kv_use: float = 0.0
