"""Notes decisions in the trace of the request that they are about, beside the log of decisions."""

from collections.abc import Callable, Sequence

from penstock.records.decision import LoggedDecision
from penstock.records.decision_log import DecidedRequest, DecisionLog
from penstock.records.trace import RequestTrace


class TracedDecisions(DecisionLog):
    """Writes into the log, and then into one trace: a decision that is not logged has no effect."""

    def __init__(
        self, log: DecisionLog, trace: RequestTrace, monotonic: Callable[[], float]
    ) -> None:
        self._log = log
        self._trace = trace
        self._monotonic = monotonic

    def write(self, decided: DecidedRequest, decisions: Sequence[LoggedDecision]) -> None:
        self._log.write(decided, decisions)
        now = self._monotonic()
        for decision in decisions:
            self._trace.add_decision(now, decision)


def traced_log(
    log: DecisionLog, trace: RequestTrace | None, monotonic: Callable[[], float]
) -> DecisionLog:
    """Return a log of decisions about one request: `log` itself, if the request is not traced."""
    return log if trace is None else TracedDecisions(log, trace, monotonic)
