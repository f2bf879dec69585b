"""What a client owes us, and how long it may take for it."""

from typing import Final

from penstock.ingress.settings import Settings

FOREVER: Final = 1e9
# A head, a body, or nothing while it is served. Not an Enum, whose members are looked up through
# their class each time: these are on the path of every read.
HEAD: Final = 0
BODY: Final = 1
SERVING: Final = 2


def patience(settings: Settings, phase: int, *, is_head_begun: bool) -> float:
    """In seconds. Half a head may have come while an answer was being made."""
    if phase == SERVING:
        return FOREVER
    if phase == BODY:
        return settings.body_grace_seconds
    return settings.header_seconds if is_head_begun else settings.keep_alive_seconds


def is_too_slow(settings: Settings, body_bytes: int, seconds: float) -> bool:
    """Of a body of which so much has come in this time."""
    return body_bytes < seconds * settings.body_bytes_per_second_min
