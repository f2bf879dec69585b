"""Rewrites a request by its contract, once, before its prompt is read, estimated and chained.

So routing, budgets and the engine see the same bytes.
"""

from penstock.contracts.cut_outputs import CutOutputs
from penstock.contracts.deciding import ContractDecision
from penstock.intake.capped_outputs import cap_outputs
from penstock.intake.contracted_tools import judge_offers
from penstock.intake.opened_request import OpenedRequest


def rewrite_by_contract(
    opened: OpenedRequest, decision: ContractDecision, outputs: CutOutputs
) -> None:
    """Cut long outputs of tools, and take out forbidden tools, or refuse them."""
    if decision.contract.tool_output is not None:
        cap_outputs(opened, decision, outputs)
    if decision.contract.tool_terms is not None:
        judge_offers(opened)
