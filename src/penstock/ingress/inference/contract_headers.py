"""Renders what a contract decided of a request, as headers of its answer."""

from typing import Final

from penstock.contracts.deciding import ContractDecision

NAMES: Final = (
    "x-penstock-contract",
    "x-penstock-task",
    "x-penstock-model",
    "x-penstock-model-why",
    "x-penstock-applied",
)
# What has headers of its own.
_TOLD_APART: Final = ("model", "fallback")


def contract_headers(decision: ContractDecision | None) -> bytes:
    """Return the lines; nothing if no contract binds the request."""
    if decision is None:
        return b""
    observed = "" if decision.is_enforced else "; observe"
    lines = f"x-penstock-contract: {decision.contract.label}{observed}\r\n"
    if decision.task:
        lines += f"x-penstock-task: {decision.task}\r\n"
    if decision.why:
        lines += (
            f"x-penstock-model: {decision.model.id}\r\nx-penstock-model-why: {decision.why}\r\n"
        )
    applied = [str(each) for each in decision.effects if each.kind not in _TOLD_APART]
    if applied and decision.is_enforced:
        lines += f"x-penstock-applied: {', '.join(applied)}\r\n"
    return lines.encode("latin-1")
