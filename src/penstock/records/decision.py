"""One decision of a contract, or act of an operator, as the log of decisions keeps it.

A decision has facts only: names, sizes, digests. Never an argument of a call, never text of a
prompt or an answer.
"""

from enum import StrEnum

import msgspec


class DecisionKind(StrEnum):
    """What was decided."""

    WORKFLOW = "workflow"
    MODEL = "model"
    PROMPT = "prompt"
    OUTPUT = "output"
    TOOLS_OFFERED = "tools_offered"
    TOOL_CALL = "tool_call"
    TOOL_OUTPUT = "tool_output"
    FALLBACK = "fallback"
    BUDGET = "budget"
    SESSION_CAP = "session_cap"
    OPERATOR = "operator"


class DecisionVerdict(StrEnum):
    """What the decision does: let it be, change it, or refuse it."""

    ALLOW = "allow"
    CHANGE = "change"
    DENY = "deny"


class LoggedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """One decision. An observed one did not happen: it says what enforcing would have done."""

    kind: DecisionKind
    verdict: DecisionVerdict
    # What it is about, such as names of tools.
    subjects: tuple[str, ...] = ()
    reason: str = ""
    facts: dict[str, str | int] = {}
    is_observed: bool = False
