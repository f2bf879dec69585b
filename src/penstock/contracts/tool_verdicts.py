"""Says why a tool or a call is refused, and what an agent may do instead. Pure."""

from collections.abc import Sequence
from typing import Final

from penstock.errors import ToolCallForbidden, ToolCallUnreadable, ToolForbidden
from penstock.records.tool_terms import ToolTerms, shown_name

_SHOWN_MAX: Final = 20


def call_forbidden(terms: ToolTerms, name: str) -> ToolCallForbidden:
    return ToolCallForbidden(f"{terms.why_forbidden(name)} {_instead(terms)}")


def call_unreadable(terms: ToolTerms, why: str) -> ToolCallUnreadable:
    """Return the error for a call that cannot be judged; `why` goes on from "a call"."""
    return ToolCallUnreadable(
        f"The answer has a call {why}, which the contract {terms.label} cannot judge."
        f" {_instead(terms)}"
    )


def note_on(terms: ToolTerms, name: str) -> str:
    """Return the sentence that takes the place of a call."""
    return f"[This call was not made. {terms.why_forbidden(name)} {_instead(terms)}]"


def offer_forbidden(terms: ToolTerms, names: Sequence[str], param: str) -> ToolForbidden:
    """Return the error for a request that offers forbidden tools, or demands one."""
    first, *more = names
    others = f" So are {len(more)} more: {_listed(more)}." if more else ""
    return ToolForbidden(f"{terms.why_forbidden(first)}{others} {_instead(terms)}", param=param)


def _instead(terms: ToolTerms) -> str:
    rules = terms.rules
    if rules.is_default_allowed:
        return "Use another tool, or answer without one."
    if not rules.allow:
        return "No tool is allowed: answer without one."
    return f"The tools that are allowed: {_listed(rules.allow)}."


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(shown_name(name) for name in names[:_SHOWN_MAX])
    return f"{shown} and others" if len(names) > _SHOWN_MAX else shown
