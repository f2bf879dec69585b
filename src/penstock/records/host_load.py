"""What the workers of one host have under way at one replica, as they share it in memory."""

import msgspec


class HostLoad(msgspec.Struct, frozen=True, gc=False):
    """A worker's own figures, or the sum of several workers'. Times are monotonic seconds."""

    # Uncached prompt tokens of requests without a first token, and of the oldest of them.
    outstanding: float = 0.0
    head_tokens: float = 0.0
    # When that oldest request went out, and when the last first token came; 0 when there is none.
    head_at: float = 0.0
    progress_at: float = 0.0
    in_flight: float = 0.0
    decoding: float = 0.0
    # Prompt tokens of everything in flight.
    prompt_tokens: float = 0.0
