"""Reads ids of requests as people paste them: with dashes, or as the id of a trace. Pure."""

import re
from typing import Final

_ID: Final = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)


def request_id_of(text: str) -> str:
    """Return a text as a request's id; "" for one that is none.

    A trace that no caller began has the digits of its request's id, without dashes.
    """
    if not _ID.fullmatch(text):
        return ""
    digits = text.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
