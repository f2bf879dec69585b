"""A worker cuts each output once; what it remembers is bounded, and accounts share nothing."""

from penstock.contracts.cut_outputs import CutOutput, CutOutputs
from penstock.contracts.cutting.output_cap import OutputCap
from penstock.contracts.document import ToolOutputTerms
from penstock.contracts.settings import ContractsSettings

CAP = OutputCap("w", ToolOutputTerms(bytes_max=1024))


def find(outputs: CutOutputs, content: bytes, account: str = "acme", cap: OutputCap = CAP) -> bytes:
    found = outputs.find(account, cap, content, lambda: CutOutput(content[:600], 1))
    assert found.content is not None
    return found.content


def test_an_output_is_cut_once() -> None:
    outputs = CutOutputs()
    assert [find(outputs, b"a" * 2000) for _ in range(3)] == [b"a" * 600] * 3
    assert outputs.made == 1


def test_other_accounts_and_other_terms_are_cut_anew() -> None:
    outputs = CutOutputs()
    terms = ToolOutputTerms(bytes_max=1024)
    caps = [
        OutputCap("other", terms),
        OutputCap("w", ToolOutputTerms(bytes_max=1025)),
        OutputCap("w", ToolOutputTerms(bytes_max=1024, tail_share=0.5)),
    ]
    find(outputs, b"a" * 2000)
    find(outputs, b"a" * 2000, account="beta")
    for cap in caps:
        find(outputs, b"a" * 2000, cap=cap)
    assert outputs.made == 5
    # Another contract object with the same terms, as after a new set, finds what there is.
    find(outputs, b"a" * 2000, cap=OutputCap("w", terms))
    assert outputs.made == 5


def test_the_least_recently_used_goes_first() -> None:
    outputs = CutOutputs(ContractsSettings(cut_bytes_max=2500))
    for content in (b"a" * 2000, b"b" * 2000, b"c" * 2000):
        find(outputs, content)
        find(outputs, b"a" * 2000)
    assert outputs.bytes <= 2500
    assert outputs.made == 3
    find(outputs, b"a" * 2000)
    assert outputs.made == 3
    find(outputs, b"b" * 2000)
    assert outputs.made == 4


def test_without_memory_every_output_is_cut_anew() -> None:
    outputs = CutOutputs(ContractsSettings(cut_bytes_max=0))
    assert [find(outputs, b"a" * 2000) for _ in range(2)] == [b"a" * 600] * 2
    assert (outputs.made, outputs.bytes) == (2, 0)
