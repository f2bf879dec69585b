"""Splits a stream's bytes, which come in any pieces, after the last whole event."""

from typing import Final

from penstock.errors import EngineFailed

END: Final = b"\n\n"


def cut_whole(data: bytes, event_bytes_max: int) -> tuple[bytes, bytes]:
    """Return the whole events at the start of `data`, and the rest: the beginning of another."""
    end = data.rfind(END) + len(END)
    # rfind returns -1 when no event is complete, so `end` is 1 then: all of `data` is the rest.
    if end == 1:
        end = 0
    rest = data[end:]
    if len(rest) > event_bytes_max:
        raise too_large()
    return data[:end], rest


def too_large() -> EngineFailed:
    return EngineFailed("The engine sent an event larger than `engine.event_bytes_max`.")
