"""An event of the log, the event types, and an event's body in each of two shapes. Pure."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from penstock.queue.outbox import Data
from penstock.records.account import AccountId

BATCH_TYPES: Final = ("batch.completed", "batch.failed", "batch.expired", "batch.cancelled")
RESPONSE_TYPES: Final = (
    "response.completed", "response.incomplete", "response.failed", "response.cancelled",
)  # fmt: skip
# Penstock's own names. openai's `unwrap` silently takes an unknown type for some other event, so
# these are sent only to endpoints that ask for them by name.
JOB_TYPES: Final = ("job.succeeded", "job.failed", "job.cancelled", "job.expired")
LIMIT_TYPES: Final = ("limit.reached", "limit.passed")
OPENAI_TYPES: Final = (*BATCH_TYPES, *RESPONSE_TYPES, *JOB_TYPES, *LIMIT_TYPES)
_MODEL_BATCH: Final = "cf.workersAi.model.batch"
WORKERS_AI_TYPES: Final = (
    f"{_MODEL_BATCH}.queued",
    f"{_MODEL_BATCH}.succeeded",
    f"{_MODEL_BATCH}.failed",
)
# Returns the HTTP status and number of an error code in Workers AI's API; ingress has the table.
FailureNumbers = Callable[[str], tuple[int, int]]


class Shape(StrEnum):
    """The API whose bodies an endpoint gets."""

    OPENAI = "openai"
    WORKERS_AI = "workers_ai"


class Event(msgspec.Struct, frozen=True):
    """A change in an account's work. `sequence` is its position in the log."""

    id: str
    account: AccountId
    type: str
    # In seconds since 1970.
    created_at: float
    data: Data
    sequence: int = 0

    @property
    def public_id(self) -> str:
        return f"evt_{self.id.replace('-', '')}"

    @property
    def model(self) -> str:
        return str(self.data.get("model", ""))


def openai_body(event: Event) -> bytes:
    """Render a thin body, as OpenAI's are: the type and an id; the receiver fetches the rest."""
    return msgspec.json.encode(
        {
            "object": "event",
            "id": event.public_id,
            "type": event.type,
            "created_at": int(event.created_at),
            "data": event.data,
        }
    )


def workers_ai_body(event: Event, subscription: str, numbers: FailureNumbers) -> bytes:
    """Render the body that Workers AI puts into a queue for a subscription."""
    payload: dict[str, object] = {"requestId": event.data["id"]}
    if event.type.endswith(".failed"):
        http_code, internal_code = numbers(str(event.data.get("code")))
        payload["message"] = event.data.get("message") or "Model execution failed"
        payload["internalCode"] = internal_code
        payload["httpCode"] = http_code
    when = datetime.fromtimestamp(event.created_at, UTC).isoformat(timespec="milliseconds")
    return msgspec.json.encode(
        {
            "type": event.type,
            "source": {"type": "workersAi.model", "modelName": event.model},
            "payload": payload,
            "metadata": {
                "accountId": event.account,
                "eventSubscriptionId": subscription,
                "eventSchemaVersion": 1,
                "eventTimestamp": when.replace("+00:00", "Z"),
            },
        }
    )
