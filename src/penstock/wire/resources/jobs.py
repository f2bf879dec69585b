"""`/v1/jobs`: a job as its account sees it, and the filters of the list."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from penstock.errors import InvalidRequest
from penstock.records.job import JobState
from penstock.wire.resources.batches import batch_of
from penstock.wire.resources.usage_query import read_parameters, read_value

JOBS_DEFAULT: Final = 20
JOBS_MAX: Final = 1000


class JobUsage(msgspec.Struct):
    """Tokens of a job's answer."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: int | None = None


class JobError(msgspec.Struct):
    """Why a job has no result; `code` is one of the documented error codes."""

    code: str
    message: str


class JobAnswer(msgspec.Struct, kw_only=True):
    """One job. `position` is its place in its account's line, `result` a chat completion."""

    id: str
    account: str
    model: str
    state: str
    door: str
    priority: str
    batch: str | None
    reference: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    deadline: datetime
    attempts: int
    is_cancelling: bool
    usage: JobUsage | None
    cost_nanousd: int
    cost_usd: str
    error: JobError | None
    # How the last failed attempt ended, even if the job was retried or has succeeded since.
    last_error: JobError | None
    # Set only where a single job is read, while it waits.
    position: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET
    eta_seconds: float | UnsetType | None = UNSET
    # Set only where a single job is read, when it has succeeded.
    result: Raw | UnsetType = UNSET
    object: str = "job"


class JobListAnswer(msgspec.Struct):
    """`GET /v1/jobs`, newest first. `next` is the `after` of the following page."""

    data: list[JobAnswer]
    has_more: bool
    next: str | None = None
    object: str = "list"


class JobsAsked(msgspec.Struct, frozen=True):
    """The filters and the page of a list; a filter that is None does not apply."""

    account: str | None
    model: str | None
    state: JobState | None
    batch: str | None
    after: str | None
    limit: int


def read_jobs_asked(given: Iterable[tuple[str, str]], account: str | None) -> JobsAsked:
    """Read a list's filters. `account` is the only one allowed; None lets an operator name any."""
    allowed = ("state", "model", "batch", "after", "limit", "account")
    params = {
        name: read_value(text, name) for name, text in read_parameters(given, allowed).items()
    }
    return JobsAsked(
        account=account if account is not None else params.get("account"),
        model=params.get("model"),
        state=_state(params.get("state")),
        batch=read_batch(params.get("batch")),
        after=read_id(params.get("after"), "after"),
        limit=_limit(params.get("limit")),
    )


def read_id(text: str | None, name: str) -> str | None:
    """Return a job's or batch's id; refuse other text, on which Postgres would fail."""
    if text is None:
        return None
    if not is_id(text):
        raise InvalidRequest(f"`{name}` must be an id.", param=name)
    return text


def read_batch(text: str | None) -> str | None:
    """Return a batch's id from the caller's: `batch_…` of `/v1/batches`, or a `request_id`."""
    return None if text is None else read_id(batch_of(text) or text, "batch")


def is_id(text: str) -> bool:
    """Return whether a text has the form of our ids."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _state(text: str | None) -> JobState | None:
    if text is None:
        return None
    if text not in frozenset(map(str, JobState)):
        raise InvalidRequest(f"`state` must be one of {', '.join(JobState)}.", param="state")
    return JobState(text)


def _limit(text: str | None) -> int:
    if text is None:
        return JOBS_DEFAULT
    is_number = text.isascii() and text.isdigit() and len(text) <= 5
    if not is_number or not 1 <= int(text) <= JOBS_MAX:
        raise InvalidRequest(f"`limit` must be a whole number from 1 to {JOBS_MAX}.", param="limit")
    return int(text)
