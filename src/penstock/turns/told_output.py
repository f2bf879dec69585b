"""Cuts what the model is told of a tool that ran here. Pure.

The limit is the smaller one of the gateway's setting and of the contract's cap.
"""

from typing import Final

from penstock.contracts.cutting.output_cap import OutputCap
from penstock.contracts.deciding import ContractDecision
from penstock.contracts.document import ToolOutputTerms
from penstock.intake.capped_outputs import has_cut, note_cut

# Longer JSON is cut as a text: this runs on the event loop.
_JSON_BYTES_MAX: Final = 512 * 1024


def told_output(tool: str, text: str, bytes_max: int, contract: ContractDecision | None) -> str:
    """Return what the model is told of an output."""
    whole = text.encode(errors="replace")
    cap = OutputCap("", ToolOutputTerms(bytes_max=bytes_max))
    own = None if contract is None or not contract.is_enforced else contract.contract.tool_output
    if own is not None and own.bytes_max < bytes_max and not own.spares(tool):
        cap = own
    told = cap.cut([whole], _JSON_BYTES_MAX)[0] or b""
    if cap is own and contract is not None and told != whole and not has_cut(contract):
        note_cut(contract, 1, len(whole) - len(told), (tool,))
    return told.decode()
