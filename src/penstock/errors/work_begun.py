"""Errors of work that began, or that somebody else owns now."""

from penstock.errors.error import Error


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


class SandboxLost(Interrupted):
    """The sandbox host went away, so it is not known how far the code ran."""

    code = "sandbox_lost"


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


class Withheld(Error):
    """The answer was made, and its contract does not let it out."""

    code = "withheld"
    status = 403


class ToolCallForbidden(Withheld):
    """The model called a tool that the contract of this workflow forbids."""

    code = "tool_call_forbidden"


class ToolCallUnreadable(Withheld):
    """The model called a tool in a form that its contract cannot judge."""

    code = "tool_call_unreadable"


class Superseded(Error):
    """Someone else owns this now."""

    code = "superseded"


class GenerationStale(Superseded):
    """A newer generation of this replica exists."""

    code = "generation_stale"


class LeaseLost(Superseded):
    """This job's lease is another's now, or the job has ended."""

    code = "lease_lost"
