"""Every error that crosses a room, cut by what a caller asks: did anything run, and may I retry?

Error
├── Refused             the caller's side; nothing ran, nothing is billed
│   ├── InvalidRequest        400  the request itself is wrong
│   │   ├── MissingBody           400  there is no body, or a required header is missing
│   │   ├── BadBase64             400  an inline image or file is not valid base64
│   │   ├── MissingCapability     400  the model cannot do what was asked
│   │   ├── PromptTooLong         400  the prompt is longer than the model's context
│   │   ├── StateUnavailable      400  it refers to what would have to be kept here
│   │   └── MissingToolOutput     400  a call of a tool has no output
│   ├── Unauthenticated       401  no key, or one we do not know
│   ├── Forbidden             403  the key may not do this
│   │   ├── AccountBlocked        403  the whole account is stopped
│   │   └── ModelNotAllowed       403  the model is private to other accounts
│   ├── NotFound              404  no such path
│   │   ├── ContainerExpired      404  the container has ended
│   │   ├── ResponseNotFound      404  the response to go on from is not there
│   │   ├── UnknownModel          404  a well-formed name that is not in the catalogue
│   │   └── MalformedModel        404  not a model name at all
│   ├── LoraUnsupported       405  the model takes no adapters
│   ├── MethodNotAllowed      405  the path exists, the method does not
│   ├── BodyTooSlow           408  the body came slower than the least rate
│   ├── BodyTooLarge          413  the body is over the limit
│   ├── HeadersTooLarge       431  the headers are over the limit
│   ├── CostCapped            400  the request may cost more than its caller allows
│   ├── Conflict              409  the present state does not allow it
│   │   ├── JobCancelled          409  the job was cancelled before it was done
│   │   ├── ContainerBusy         409  other code runs in the container
│   │   └── ConversationLocked    409  another response is being written into the conversation
│   ├── QueueFull             429  the account has as many jobs waiting as it may
│   └── OverLimit             429  a limit on requests, tokens or money is reached
│       ├── RateLimited           429  of requests or tokens in this minute
│       ├── QuotaSpent            429  of requests or tokens in this day or month
│       └── BudgetSpent           429  of money
├── Unavailable         our side; nothing ran, safe to retry
│   ├── OutOfCapacity         429  every replica is busy and the wait was too long
│   ├── NoReplica             503  the model has no replica that can serve
│   ├── ReplicaUnreachable    503  the chosen replica did not take the request; try another
│   ├── Overloaded            503  this gateway holds as much as it may
│   ├── JobExpired            504  the job was not begun before its deadline
│   ├── SandboxUnavailable    503  no sandbox host takes a container or a call
│   ├── JournalFull           503  usage could not be recorded, so nothing is begun
│   └── StoreUnavailable      503  Postgres does not answer and the answer is not cached
│       └── ContentUnreadable     503  what was kept cannot be decrypted
├── Interrupted         our side; work began, usage is recorded, not safe to repeat blindly
│   ├── EngineLost            502  the engine went away in the middle
│   ├── EngineFailed          502  the engine answered with an error of its own
│   ├── SandboxLost           502  the sandbox host went away while code ran
│   ├── Aborted               503  this gateway was stopped while the answer was being made
│   ├── DeadlinePassed        504  the engine took longer than a timeout allows
│   └── InternalError         500  a bug of ours
└── Superseded          someone else owns it now, stop quietly
    ├── GenerationStale           a newer generation of this replica exists
    └── LeaseLost                 the job was given to another keeper, or has ended
"""

from typing import ClassVar

# Clients that are told to wait longer than this give up instead, and should.
_LONG_WAIT_SECONDS = 90


class Error(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500  # on /v1; `ingress/error_response.py` alone maps errors to HTTP
    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str | None = None, *, param: str | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message or (self.__doc__ or self.code).strip().splitlines()[0])
        self.param = param
        self.retry_after_seconds = retry_after_seconds

    @property
    def message(self) -> str:
        return str(self.args[0])

    @property
    def is_retryable(self) -> bool:
        """Whether trying again is safe and may help; the class decides, mostly."""
        return self.retryable


class Refused(Error):
    """The request was refused; nothing ran."""

    code = "refused"
    status = 400


class InvalidRequest(Refused):
    """The request is not valid."""

    code = "invalid_request"


class MissingBody(InvalidRequest):
    """The request has no body: send a JSON object."""

    code = "missing_body"


class BadBase64(InvalidRequest):
    """An inline image or file is not valid base64 data."""

    code = "bad_base64"


class MissingCapability(InvalidRequest):
    """The model does not have a capability that the request needs."""

    code = "missing_capability"


class PromptTooLong(InvalidRequest):
    """The prompt does not fit into the model's context."""

    code = "context_length_exceeded"  # OpenAI's word: agents look for it, and shorten prompts


class StateUnavailable(InvalidRequest):
    """Nothing is kept between requests: send `store: false`, and the whole input."""

    code = "stored_state_unavailable"


class MissingToolOutput(InvalidRequest):
    """The model called a tool, and the request has no output for that call."""

    code = "missing_tool_output"


class Unauthenticated(Refused):
    """No valid API key: send `Authorization: Bearer <key>`."""

    code = "unauthenticated"
    status = 401


class Forbidden(Refused):
    """This key may not do that."""

    code = "forbidden"
    status = 403


class AccountBlocked(Forbidden):
    """This account is blocked. Ask the operator of this installation."""

    code = "account_blocked"


class ModelNotAllowed(Forbidden):
    """This account may not use that model."""

    code = "model_not_allowed"


class NotFound(Refused):
    """No such path."""

    code = "not_found"
    status = 404


class ResponseNotFound(NotFound):
    """The response to go on from, or one before it, is unknown, deleted or expired."""

    code = "previous_response_not_found"


class UnknownModel(NotFound):
    """No such model. `GET /v1/models` lists those there are."""

    code = "model_not_found"


class MalformedModel(NotFound):
    """That is not a model id."""

    code = "malformed_model"


class LoraUnsupported(Refused):
    """This model takes no LoRA adapters."""

    code = "lora_unsupported"
    status = 405


class MethodNotAllowed(Refused):
    """This path does not take that method."""

    code = "method_not_allowed"
    status = 405


class BodyTooSlow(Refused):
    """The request's body came too slowly."""

    code = "body_too_slow"
    status = 408


class BodyTooLarge(Refused):
    """The request's body is too large."""

    code = "body_too_large"
    status = 413


class HeadersTooLarge(Refused):
    """The request's headers are too large."""

    code = "headers_too_large"
    status = 431


class CostCapped(Refused):
    """This request may cost more than its `x-penstock-max-cost-usd` allows."""

    code = "max_cost_exceeded"


class Conflict(Refused):
    """The present state of things does not allow this."""

    code = "conflict"
    status = 409


class JobCancelled(Conflict):
    """The job was cancelled."""

    code = "job_cancelled"


class ConversationLocked(Conflict):
    """Another response is being written into this conversation: try again when it has ended."""

    code = "conversation_locked"
    retryable = True


class QueueFull(Refused):
    """This account has as many jobs waiting as it may."""

    code = "queue_full"
    status = 429


class OverLimit(Refused):
    """A limit is reached."""

    code = "over_limit"
    status = 429

    @property
    def is_retryable(self) -> bool:
        # A minute's window, or a lease that comes back.
        return (self.retry_after_seconds or _LONG_WAIT_SECONDS) < _LONG_WAIT_SECONDS


class RateLimited(OverLimit):
    """Too many requests or tokens this minute."""

    code = "rate_limited"


class QuotaSpent(OverLimit):
    """The allocation of requests or tokens is used up."""

    code = "quota_spent"


class BudgetSpent(OverLimit):
    """The budget is spent."""

    code = "budget_spent"


class Unavailable(Error):
    """Not available now; nothing ran, and trying again is safe."""

    code = "unavailable"
    status = 503
    retryable = True


class OutOfCapacity(Unavailable):
    """Capacity temporarily exceeded, please try again."""

    code = "out_of_capacity"
    status = 429


class NoReplica(Unavailable):
    """The model has no replica that can serve now."""

    code = "no_replica"


class ReplicaUnreachable(Unavailable):
    """The replica did not take the request."""

    code = "replica_unreachable"


class Overloaded(Unavailable):
    """This gateway holds as many bytes or connections as it may."""

    code = "overloaded"


class JobExpired(Unavailable):
    """The job was not begun before its deadline."""

    code = "job_expired"
    status = 504


class JournalFull(Unavailable):
    """This gateway cannot record usage now, so it begins nothing."""

    code = "journal_full"


class StoreUnavailable(Unavailable):
    """The database does not answer, so this key cannot be checked now."""

    code = "store_unavailable"


class ContentUnreadable(StoreUnavailable):
    """What was kept cannot be decrypted: its key is gone, or is another one."""

    code = "content_unreadable"


class Interrupted(Error):
    """The request was interrupted after work began."""

    code = "interrupted"
    status = 502


class EngineLost(Interrupted):
    """The engine went away while it was answering."""

    code = "engine_lost"


class EngineFailed(Interrupted):
    """Model execution failed."""

    code = "engine_failed"


class Aborted(Interrupted):
    """The request was stopped because this gateway is shutting down."""

    code = "aborted"
    status = 503


class DeadlinePassed(Interrupted):
    """The engine did not answer in time."""

    code = "deadline_passed"
    status = 504


class InternalError(Interrupted):
    """Internal error. The request id in this answer finds it in the log."""

    code = "internal_error"
    status = 500


class Superseded(Error):
    """Someone else owns this now."""

    code = "superseded"


class GenerationStale(Superseded):
    """A newer generation of this replica exists."""

    code = "generation_stale"


class LeaseLost(Superseded):
    """This job's lease is another's now, or the job has ended."""

    code = "lease_lost"
