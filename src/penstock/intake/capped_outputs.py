"""Cuts outputs of tools in a request's messages to the cap of its contract, whatever its API.

What the caller sent stays whole where it is stored. The model sees the same cut bytes at every
turn: a cut depends only on the output itself and the contract's `tool_output`.
"""

from functools import partial
from typing import Final

from msgspec import Raw

from penstock.contracts.asked import Effect
from penstock.contracts.cut_outputs import CutOutput, CutOutputs
from penstock.contracts.cutting.output_cap import OutputCap
from penstock.contracts.deciding import ContractDecision
from penstock.intake.opened_request import OpenedRequest
from penstock.records.decision import DecisionKind
from penstock.wire.apis.tool_results import ResultEditor, edit_results, texts_of, with_texts

# Names of tools that a decision is logged with.
_SUBJECTS_MAX: Final = 16
_NAME_CHARACTERS_MAX: Final = 64
_KIND: Final = "tool_output"


def cap_outputs(opened: OpenedRequest, decision: ContractDecision, outputs: CutOutputs) -> None:
    """Cut the outputs of tools that are over the cap, and note how much of them is left out."""
    cap = decision.contract.tool_output
    if cap is None:
        return
    editor = _Cutting(cap, outputs, opened.grant.account)
    # A text is never longer than it is written.
    fields = edit_results(opened.api, opened.fields, editor, cap.bytes_max)
    if fields is None:
        return
    note_cut(decision, editor.count, editor.left_out, tuple(editor.tools))
    if decision.is_enforced:
        opened.fields = fields
        # It was learned from the caller's bytes.
        opened.parsed = None


def note_cut(decision: ContractDecision, count: int, left_out: int, tools: tuple[str, ...]) -> None:
    """Note how many outputs were cut, and by how many bytes in all.

    A turn asks the model several times, each time with all outputs so far: the last note counts.
    """
    effect = Effect(_KIND, f"{count}/{left_out}", DecisionKind.TOOL_OUTPUT, subjects=tools)
    decision.effects[:] = [each for each in decision.effects if each.kind != _KIND]
    decision.effects.append(effect)


def has_cut(decision: ContractDecision) -> bool:
    """Return whether it is noted that outputs were cut."""
    return any(each.kind == _KIND for each in decision.effects)


class _Cutting(ResultEditor):
    def __init__(self, cap: OutputCap, outputs: CutOutputs, account: str) -> None:
        self._cap = cap
        self._outputs = outputs
        self._account = account
        self.count = 0
        self.left_out = 0
        self.tools: dict[str, None] = {}

    def edit(self, tool: str, content: Raw) -> bytes | None:
        if self._cap.spares(tool):
            return None
        make = partial(_cut, self._cap, content, self._outputs.json_bytes_max)
        cut = self._outputs.find(self._account, self._cap, bytes(content), make)
        if cut.content is not None:
            self.count += 1
            self.left_out += cut.left_out
            if tool and len(self.tools) < _SUBJECTS_MAX:
                self.tools[tool[:_NAME_CHARACTERS_MAX]] = None
        return cut.content


def _cut(cap: OutputCap, content: Raw, json_bytes_max: int) -> CutOutput:
    texts = [text.encode() for text in texts_of(content)]
    cut = cap.cut(texts, json_bytes_max)
    if cut == texts:
        return CutOutput(None, 0)
    left_out = sum(map(len, texts)) - sum(len(text) for text in cut if text is not None)
    decoded = [None if text is None else text.decode() for text in cut]
    return CutOutput(with_texts(content, decoded), left_out)
