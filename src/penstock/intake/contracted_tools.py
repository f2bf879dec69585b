"""Applies a contract's `[tools]` to the tools that a request offers, and to the one it demands.

The same tools go out at every turn, so that the engine's prefix cache hits.
"""

from typing import Final

from penstock.contracts.asked import Effect
from penstock.contracts.deciding import ContractDecision
from penstock.contracts.document import OfferedTools
from penstock.contracts.refusals import by_contract
from penstock.contracts.tool_verdicts import offer_forbidden
from penstock.errors import ToolForbidden
from penstock.intake.contracted import note
from penstock.intake.opened_request import OpenedRequest
from penstock.records.decision import DecisionKind, DecisionVerdict
from penstock.records.tool_terms import ToolTerms, shown_name
from penstock.wire.apis.offered_tools import (
    CHOICES,
    TOOL_LISTS,
    demanded,
    demands_any,
    judge_list,
    take_tools_out,
)
from penstock.wire.json_body import Fields, is_given

_OFFERED: Final = DecisionKind.TOOLS_OFFERED
# How many names of forbidden tools a decision has.
_SUBJECTS_MAX: Final = 50


def terms_of(opened: OpenedRequest) -> ToolTerms | None:
    """Return the terms by which a request's tools are judged; None if no contract has any."""
    decision = opened.contract
    terms = None if decision is None else decision.contract.tool_terms
    return terms.named(opened.tool_names) if terms is not None and opened.tool_names else terms


def judge_offers(opened: OpenedRequest) -> None:
    """Take forbidden tools out of a request, or refuse it. What is judged again stays the same."""
    terms, decision, fields = terms_of(opened), opened.contract, opened.fields
    table = None if decision is None else decision.contract.contract.tools
    if decision is None or terms is None or table is None or table.offered is OfferedTools.LEAVE:
        return
    if any(name in fields for name in CHOICES):
        _judge_choice(fields, terms, decision)
    for name in TOOL_LISTS:
        if is_given(fields, name):
            _judge_list(fields, name, terms, decision)


def note_withheld(decision: ContractDecision, names: list[str]) -> None:
    """Note tools that a request does not get, by their names."""
    subjects = tuple(shown_name(each) for each in names[:_SUBJECTS_MAX])
    note(decision, Effect("tools", f"-{len(names)}", _OFFERED, subjects=subjects))


def _judge_choice(fields: Fields, terms: ToolTerms, decision: ContractDecision) -> None:
    forbidden = [name for name in demanded(fields) if not terms.allows(name)]
    if forbidden:
        _refuse(terms, decision, forbidden, CHOICES[0])


def _judge_list(fields: Fields, name: str, terms: ToolTerms, decision: ContractDecision) -> None:
    left, forbidden = judge_list(fields[name], terms)
    if not forbidden:
        return
    table = decision.contract.contract.tools
    is_refused = table is not None and table.offered is OfferedTools.REFUSE
    if is_refused or (not left and demands_any(fields)):
        _refuse(terms, decision, forbidden, name)
        return
    note_withheld(decision, forbidden)
    if decision.is_enforced:
        take_tools_out(fields, name, left)


def _refuse(terms: ToolTerms, decision: ContractDecision, names: list[str], param: str) -> None:
    subjects = tuple(shown_name(each) for each in names[:_SUBJECTS_MAX])
    code, deny = ToolForbidden.code, DecisionVerdict.DENY
    note(decision, Effect("tools", "refused", _OFFERED, deny, subjects, code))
    if decision.is_enforced:
        refused = offer_forbidden(terms, names, param)
        label, workflow = decision.contract.label, decision.workflow
        raise by_contract(refused, label, workflow, _OFFERED, *subjects)
