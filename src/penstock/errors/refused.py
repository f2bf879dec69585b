"""Errors of the caller's side: nothing ran, and nothing is billed."""

from penstock.errors.error import Error

# Clients that are told to wait longer than this give up instead, and should.
_LONG_WAIT_SECONDS = 90


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


class PromptOverContract(InvalidRequest):
    """The prompt is longer than the contract of this workflow allows."""

    code = "prompt_over_contract"


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


class WorkflowNotAllowed(Forbidden):
    """This workflow is not for this account or key."""

    code = "workflow_not_allowed"


class ToolForbidden(Forbidden):
    """The contract of this workflow forbids a tool that the request offers or demands."""

    code = "tool_forbidden"


class NotFound(Refused):
    """No such path."""

    code = "not_found"
    status = 404


class ContainerExpired(NotFound):
    """The container has ended: it was idle, too old, or its host was started anew."""

    code = "container_expired"


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


class ContainerBusy(Conflict):
    """Other code runs in this container: try again when it has ended."""

    code = "container_busy"
    retryable = True


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
    # The contract that owns the limit, "" if an operator set it; and whether it is on sessions.
    contract = ""
    is_of_session = False

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
