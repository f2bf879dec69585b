"""Workers AI's asynchronous API: what is submitted, and what a poll answers.

Items keep the raw values they came with. The final answer has no `status`, and the API allows its
items in any order; here they are in the order of submission.
"""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from penstock.errors import InvalidRequest, Refused
from penstock.wire.json_body import Field, Fields, is_given

_REQUEST_ID = Field("request_id", msgspec.json.Decoder(str | None), None)
_REQUESTS = Field("requests", msgspec.json.Decoder(list[Fields] | None), None)
_REFERENCE = Field("external_reference", msgspec.json.Decoder(str | None), None)
_REFERENCE_CHARS_MAX: Final = 512
# Fields of a whole submission: they are dropped from its requests.
_BESIDE: Final = ("options", "stream", "stream_options")


class QueueItem(msgspec.Struct):
    """One request of a submission."""

    fields: Fields
    reference: str | None = None


class QueueInput(msgspec.Struct):
    """A poll for `request_id`, or else `items` to be queued."""

    request_id: str | None = None
    items: list[QueueItem] = []


class QueuedAnswer(msgspec.Struct):
    """The answer to a submission."""

    request_id: str
    model: str
    status: str = "queued"


class PendingAnswer(msgspec.Struct):
    """A poll that comes too early."""

    request_id: str
    status: str


class TaskAnswer(msgspec.Struct):
    """The answer to `cf-aig-async: true`, and to a client that asks for a task."""

    taskId: str  # noqa: N815 - as its callers spell it
    status: str = "queued"
    # Set when it has succeeded; for several requests, their `responses` and `usage`.
    result: Raw | UnsetType = UNSET


class ItemError(msgspec.Struct):
    """Why one item failed, after Workers AI's `batch.failed` event."""

    message: str
    internalCode: int  # noqa: N815 - Workers AI's spelling
    httpCode: int  # noqa: N815 - Workers AI's spelling


class ItemAnswer(msgspec.Struct):
    """One item: `id` is its place in the submission; it has a `result` or an `error`."""

    id: int
    success: bool
    external_reference: str | None = None
    result: Raw | UnsetType = UNSET
    error: ItemError | UnsetType = UNSET


class SummedUsage(msgspec.Struct):
    """Tokens of all items together."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class FinalAnswer(msgspec.Struct):
    """A poll when every item has ended."""

    responses: list[ItemAnswer]
    usage: SummedUsage


def wants_queue(fields: Fields) -> bool:
    """Return whether a body's own shape is one for the queue, with or without the flag."""
    return "requests" in fields or "request_id" in fields


def read_queue_input(fields: Fields, items_max: int) -> QueueInput:
    """Read a poll or a submission; refuse a field that has a wrong type."""
    request_id = _REQUEST_ID.read(fields)
    if request_id is not None:
        return QueueInput(request_id=request_id)
    if not is_given(fields, "requests"):
        return QueueInput(items=[_item(fields)])
    requests = _REQUESTS.read(fields) or []
    if not requests:
        raise InvalidRequest("`requests` is empty.", param="requests")
    if len(requests) > items_max:
        raise InvalidRequest(
            f"`requests` has {len(requests)} items; {items_max} are allowed.", param="requests"
        )
    return QueueInput(items=[_named(place, each) for place, each in enumerate(requests)])


def _named(place: int, fields: Fields) -> QueueItem:
    try:
        return _item(fields)
    except InvalidRequest as wrong:
        raise in_item(place, wrong) from None


def in_item(place: int, wrong: Refused) -> InvalidRequest:
    """Return the same refusal, naming the item."""
    refused = InvalidRequest(f"requests[{place}]: {wrong.message}", param=f"requests[{place}]")
    refused.decided = wrong.decided
    return refused


def _item(fields: Fields) -> QueueItem:
    reference = _REFERENCE.read(fields)
    if reference is not None and len(reference) > _REFERENCE_CHARS_MAX:
        raise InvalidRequest(
            f"`external_reference` must be at most {_REFERENCE_CHARS_MAX} characters.",
            param="external_reference",
        )
    dropped = ("external_reference", "request_id", "requests", *_BESIDE)
    kept = {name: raw for name, raw in fields.items() if name not in dropped}
    return QueueItem(kept, reference)
