"""Reads the caller's labels: a request's workflow, and the client's count of its retries.

Labels group counters and are never trusted: their length and letters are bounded here, their
number where they are kept.
"""

from typing import Final

import msgspec

from penstock.errors import InvalidRequest
from penstock.records.account import WORKFLOW

_METADATA_BYTES_MAX: Final = 8192
_RETRY_MAX: Final = 1000
# A header may have any bytes.
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Metadata(msgspec.Struct):
    workflow: str = ""


class _TaskMetadata(msgspec.Struct):
    task: str = ""


_metadata_decoder = msgspec.json.Decoder(_Metadata)
_task_decoder = msgspec.json.Decoder(_TaskMetadata)


def workflow_label(header: bytes, aig_metadata: bytes, in_body: str) -> str:
    """`x-penstock-workflow`, else `workflow` in `cf-aig-metadata`, else in the body's `metadata`.

    An invalid header of ours is refused; the other two may mean something else, and are ignored.
    """
    if header:
        name = header.decode("latin-1")
        if not WORKFLOW.fullmatch(name):
            raise InvalidRequest(
                "`x-penstock-workflow` is up to 64 letters, digits and . _ : / -",
                param="x-penstock-workflow",
            )
        return name
    if aig_metadata and WORKFLOW.fullmatch(name := _in_metadata(aig_metadata)):
        return name
    return in_body if WORKFLOW.fullmatch(in_body) else ""


def task_label(header: bytes, aig_metadata: bytes, body_metadata: bytes) -> str:
    """`x-penstock-task`, else `task` in `cf-aig-metadata`, else in the body's `metadata`."""
    if header:
        return header.decode("latin-1")
    for raw in (aig_metadata, body_metadata):
        if raw and len(raw) <= _METADATA_BYTES_MAX:
            try:
                task = _task_decoder.decode(raw).task
            except _UNREADABLE:
                continue
            if task:
                return task
    return ""


def retry_number(header: bytes) -> int | None:
    """Return the number of retries that openai's SDKs send in `x-stainless-retry-count`."""
    if not header.isdigit() or len(header) > 4:
        return None
    return min(int(header), _RETRY_MAX)


def _in_metadata(raw: bytes) -> str:
    if len(raw) > _METADATA_BYTES_MAX:
        return ""
    try:
        return _metadata_decoder.decode(raw).workflow
    except _UNREADABLE:
        return ""
