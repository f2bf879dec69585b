"""One request on its way down the path, and what is known of it at its end."""

from enum import StrEnum
from typing import NewType

import msgspec

from penstock.records.account import AccountId, KeyId
from penstock.records.model import Model
from penstock.records.usage import Usage

RequestId = NewType("RequestId", str)


class InferenceRequest(msgspec.Struct, frozen=True):
    """What every stage sees. `body` is the caller's JSON object, name to raw value."""

    id: RequestId
    account: AccountId
    key: KeyId
    model: Model
    body: dict[str, msgspec.Raw]
    is_stream: bool
    cache_salt: str
    session: str = ""
    wants_usage: bool = False
    wants_continuous_usage: bool = False
    choices: int = 1
    reject_if_busy: bool = False
    caller_request_id: str = ""


class Outcome(StrEnum):
    """How a request ended, for the log line and the metrics."""

    OK = "ok"
    CLIENT_LEFT = "client_left"
    FAILED = "failed"


class RequestEnd(msgspec.Struct):
    """The facts of one finished request: filled in along the path, logged once, counted once."""

    attempts: int = 0
    replica: str = ""
    usage: Usage | None = None
    waited_seconds: float = 0.0
    first_token_seconds: float | None = None
    # From the first data line of a stream to its last; None when nothing was streamed.
    streamed_seconds: float | None = None
    total_seconds: float = 0.0
    outcome: Outcome = Outcome.OK
    error_code: str = ""
    status: int = 0
