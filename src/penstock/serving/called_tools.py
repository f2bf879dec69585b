"""The verdicts on the calls of one answer, each in the log of decisions before its effect."""

from typing import Final

from penstock.contracts.tool_verdicts import call_forbidden, call_unreadable
from penstock.errors import Error, JournalFull
from penstock.records.decision import DecisionKind, DecisionVerdict, LoggedDecision
from penstock.records.decision_log import DecidedRequest, DecisionLog
from penstock.records.request import InferenceRequest
from penstock.records.tool_terms import ToolTerms, shown_name

# Each tool is a row of the log: an answer that calls more is made to fill it.
_TOOLS_MAX: Final = 500
_ALLOW: Final = DecisionVerdict.ALLOW
_CHANGE: Final = DecisionVerdict.CHANGE
_DENY: Final = DecisionVerdict.DENY
_FORBIDDEN: Final = "tool_call_forbidden"
_UNREADABLE: Final = "tool_call_unreadable"


class CalledTools:
    """Judges names. `failure` is why nothing more may go out; None while it may."""

    def __init__(
        self,
        request: InferenceRequest,
        terms: ToolTerms,
        log: DecisionLog,
        *,
        is_noted: bool,
        logs_allowed: bool,
    ) -> None:
        self.terms = terms
        self.failure: Error | None = None
        self._request = request
        self._log = log
        self._is_noted = is_noted
        self._logs_allowed = logs_allowed
        # What is in the log already: one row for each tool and verdict of an answer.
        self._logged: set[tuple[str, str]] = set()

    def has_failed(self) -> bool:
        return self.failure is not None

    def allows(self, name: str, held_bytes: int = 0) -> bool:
        """Return whether a call goes out as it is. An observed one always does."""
        terms = self.terms
        if not name:
            self.refuse_unreadable("without a name")
            return terms.is_observed
        if len(self._logged) >= _TOOLS_MAX:
            self.refuse_unreadable(f"behind those of {_TOOLS_MAX} different tools")
            return terms.is_observed
        if terms.allows(name):
            if self._logs_allowed:
                self._write(_ALLOW, name, "", held_bytes)
            return self.failure is None
        if terms.is_observed:
            self._write(_DENY, name, _FORBIDDEN, held_bytes)
            return True
        self._write(_CHANGE if self._is_noted else _DENY, name, _FORBIDDEN, held_bytes)
        if not self._is_noted and self.failure is None:
            self.failure = call_forbidden(terms, name)
        return False

    def refuse_unreadable(self, why: str) -> None:
        """Withhold an answer with a call that cannot be judged; `why` goes on from "a call"."""
        if self.failure is not None:
            return
        self._write(_DENY, "", _UNREADABLE, 0)
        if not self.terms.is_observed and self.failure is None:
            self.failure = call_unreadable(self.terms, why)

    def _write(self, verdict: DecisionVerdict, name: str, reason: str, held_bytes: int) -> None:
        tool = shown_name(name)
        if (tool, reason) in self._logged:
            return
        decision = LoggedDecision(
            kind=DecisionKind.TOOL_CALL,
            verdict=verdict,
            subjects=(tool,) if tool else (),
            reason=reason,
            facts={"held_bytes": held_bytes, "name_characters": len(name)},
            is_observed=self.terms.is_observed,
        )
        try:
            self._log.write(DecidedRequest.of(self._request), [decision])
        except JournalFull as full:
            # What only observes changes nothing; else no effect leaves without its row.
            if not self.terms.is_observed:
                self.failure = full.with_traceback(None)
            return
        self._logged.add((tool, reason))
