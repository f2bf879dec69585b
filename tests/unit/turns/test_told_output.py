"""What the model is told of a tool that ran here fits both limits, and stays JSON."""

import json
from typing import Final

import pytest
from tests.unit.contracts.contract_samples import BIG, TOP, asked, compiled

from penstock.contracts.deciding import ContractDecision
from penstock.turns.told_output import told_output

LINES: Final = "".join(f"line {number} of the output\n" for number in range(3000))


def decision(terms: str, mode: str = "enforce") -> ContractDecision:
    contract = compiled(f'{TOP}mode = "{mode}"\ntool_output = {{ {terms} }}')
    return ContractDecision(contract, BIG, "", asked(), "")


@pytest.mark.parametrize(
    ("bytes_max", "terms", "most", "mark"),
    [
        (64_000, None, 64_000, "left out here]"),
        (64_000, "bytes_max = 4000", 4000, "left out here: contract code-review]"),
        (4000, "bytes_max = 16_000", 4000, "left out here]"),
        (16_000, 'bytes_max = 4000, exempt = ["docs__*"]', 16_000, "left out here]"),
    ],
)
def test_the_smaller_limit_counts(bytes_max: int, terms: str | None, most: int, mark: str) -> None:
    contract = None if terms is None else decision(terms)
    told = told_output("docs__find", LINES, bytes_max, contract)
    assert most * 0.9 < len(told.encode()) <= most
    assert mark in told
    assert told.startswith("line 0 of")
    assert told.endswith("line 2999 of the output\n")
    assert told_output("docs__find", told, bytes_max, contract) == told


def test_a_contract_that_observes_does_not_cut() -> None:
    observed = decision("bytes_max = 4000", "observe")
    assert told_output("ls", LINES[:10_000], 64_000, observed) == LINES[:10_000]
    assert observed.effects == []


def test_a_contract_says_once_that_it_cut() -> None:
    enforced = decision("bytes_max = 4000")
    told = told_output("ls", LINES, 64_000, enforced)
    told_output("ls", LINES * 2, 64_000, enforced)
    (effect,) = enforced.effects
    assert str(effect) == f"tool_output=1/{len(LINES) - len(told.encode())}"
    assert effect.subjects == ("ls",)


def test_json_stays_json() -> None:
    rows = json.dumps([{"id": number} for number in range(9000)])
    told = json.loads(told_output("ls", rows, 4000, None))
    assert (told[0], told[-1]) == ({"id": 0}, {"id": 8999})


def test_a_short_output_and_none_stay() -> None:
    assert told_output("ls", "", 1024, decision("bytes_max = 1024")) == ""
    assert told_output("ls", "é" * 512, 1024, None) == "é" * 512
    assert told_output("ls", "half \ud800", 1024, None) == "half ?"
