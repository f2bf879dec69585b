"""The caller's labels: which workflow a request belongs to, and what the client says of retries.

They are counted by, never trusted: bounded in length and in letters here, and in number where they
are kept.
"""

import re
from typing import Final

import msgspec

from penstock.errors import InvalidRequest

_WORKFLOW: Final = re.compile(r"[A-Za-z0-9._:/-]{1,64}")
_METADATA_BYTES_MAX: Final = 8192
_RETRY_MAX: Final = 1000


class _Metadata(msgspec.Struct):
    workflow: str = ""


_metadata_decoder = msgspec.json.Decoder(_Metadata)


def workflow_label(header: bytes, aig_metadata: bytes, in_body: str) -> str:
    """`x-penstock-workflow`, else `workflow` in `cf-aig-metadata`, else in the body's `metadata`.

    Ours is refused when it is wrong; the other two may mean something else, and are left out.
    """
    if header:
        name = header.decode("latin-1")
        if not _WORKFLOW.fullmatch(name):
            raise InvalidRequest(
                "`x-penstock-workflow` is up to 64 letters, digits and . _ : / -",
                param="x-penstock-workflow",
            )
        return name
    if aig_metadata and _WORKFLOW.fullmatch(name := _in_metadata(aig_metadata)):
        return name
    return in_body if _WORKFLOW.fullmatch(in_body) else ""


def retry_number(header: bytes) -> int | None:
    """What openai's SDKs count in `x-stainless-retry-count`."""
    if not header.isdigit() or len(header) > 4:
        return None
    return min(int(header), _RETRY_MAX)


def _in_metadata(raw: bytes) -> str:
    if len(raw) > _METADATA_BYTES_MAX:
        return ""
    try:
        return _metadata_decoder.decode(raw).workflow
    except (msgspec.DecodeError, RecursionError):
        return ""
