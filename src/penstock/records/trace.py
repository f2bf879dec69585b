"""The trace of one request: its ids, and the facts of each of its attempts. Never any content."""

from typing import TYPE_CHECKING, Final

from penstock.records.decision import LoggedDecision
from penstock.records.replica import Replica

if TYPE_CHECKING:
    from penstock.records.usage import Usage

# An answer may call hundreds of tools, each of which is a decision.
_DECISIONS_MAX: Final = 32


class TracedAttempt:
    """One attempt: the facts from its start, and those that its end fills in.

    It refers to no request: the prompt must not live until the attempt's span is sent.
    """

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        *,
        span_id: str,
        request_id: str,
        api: str,
        model: str,
        replica: Replica,
        started: float,
        is_stream: bool = False,
        choices: int = 1,
        output_tokens_max: int = 0,
        session: str = "",
        workflow: str = "",
        cached_expected: int | None = None,
        session_moved: str = "",
        cache_break: str = "",
    ) -> None:
        self.span_id: Final = span_id
        # Each request of a turn with tools has an id of its own.
        self.request_id: Final = request_id
        self.api: Final = api
        self.model: Final = model
        self.replica: Final = replica
        # Monotonic, as `RequestTrace.started` is.
        self.started: Final = started
        self.is_stream: Final = is_stream
        self.choices: Final = choices
        # Of all choices together.
        self.output_tokens_max: Final = output_tokens_max
        self.session: Final = session
        self.workflow: Final = workflow
        # What routing expected, as in `RequestEnd`.
        self.cached_expected: Final = cached_expected
        self.session_moved: Final = session_moved
        self.cache_break: Final = cache_break
        self.ended = started
        self.first_data_at: float | None = None
        self.usage: Usage | None = None
        # Why the model stopped, in the engine's words, for each choice that is known to have ended.
        self.finish_reasons: tuple[str, ...] = ()
        self.outcome = ""
        self.error_code = ""


class RequestTrace:
    """The ids of one request's trace, and its attempts in the order of their starts."""

    def __init__(
        self,
        trace_id: str,
        span_id: str,
        parent_id: str,
        *,
        started: float,
        is_sampled: bool,
    ) -> None:
        # In hexadecimal digits, 32 and 16 of them.
        self.trace_id: Final = trace_id
        self.span_id: Final = span_id
        # The span of the caller; "" if the caller named none.
        self.parent_id: Final = parent_id
        # By the monotonic clock, as all times here.
        self.started: Final = started
        # Whether the share of requests that are traced has it. Engines are told so.
        self.is_sampled: Final = is_sampled
        self.attempts: Final[list[TracedAttempt]] = []
        # What contracts decided, and when by the monotonic clock; and how many more there were.
        self.decisions: Final[list[tuple[float, LoggedDecision]]] = []
        self.decisions_left = 0

    def add_decision(self, at: float, decision: LoggedDecision) -> None:
        if len(self.decisions) < _DECISIONS_MAX:
            self.decisions.append((at, decision))
        else:
            self.decisions_left += 1

    def traceparent(self, span_id: str) -> str:
        """Return the header line by which an engine hangs its own span under this one."""
        flags = "01" if self.is_sampled else "00"
        return f"traceparent: 00-{self.trace_id}-{span_id}-{flags}\r\n"
