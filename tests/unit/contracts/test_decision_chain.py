"""Chains of decisions: numbered without gaps, bounded, and verified from their rows alone."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.contracts.decision_rows import (
    ALLOWED,
    DECIDED,
    DENIED,
    HOLDER,
    OTHER,
    chain,
    day_of,
    head_of,
    written,
)

from penstock.contracts.decision_chain import DecisionChains, DecisionLine, Keep
from penstock.contracts.decision_queries import ChainHead, DecisionRow
from penstock.contracts.decision_verifying import ChainVerifier
from penstock.records.decision import LoggedDecision

Rows = list[DecisionRow]


def verified(
    rows: Rows, starts: list[ChainHead] | None = None, outside: list[ChainHead] | None = None
) -> list[tuple[str, int, str]]:
    verifier = ChainVerifier(Keep.LONG, starts or [], outside or [])
    for row in rows:
        verifier.take(row, day_of(row))
    return [(each.holder, each.sequence, each.problem) for each in verifier.finish()]


def test_a_line_has_its_hash_over_the_one_before_and_survives_copy() -> None:
    chains = DecisionChains(HOLDER)
    odd = msgspec.structs.replace(DENIED, subjects=('ba"s\\h\t\n',))
    previous = "0" * 64
    for sequence in (1, 2):
        before, digest, escaped = written(chains, odd).rstrip(b"\n").split(b"\t")
        line = escaped.replace(b"\\\\", b"\\")
        assert before.decode() == previous
        expected = hashlib.sha256(bytes.fromhex(previous) + line)
        assert digest.decode() == expected.hexdigest()
        assert msgspec.json.decode(line, type=DecisionLine).sequence == sequence
        previous = digest.decode()


def test_allowed_calls_have_a_chain_of_their_own() -> None:
    chains = DecisionChains(HOLDER)
    places = [
        (line.keep, line.sequence)
        for each in (DENIED, ALLOWED, DENIED, ALLOWED)
        for line in [decoded(written(chains, each))]
    ]
    assert places == [(Keep.LONG, 1), (Keep.SHORT, 1), (Keep.LONG, 2), (Keep.SHORT, 2)]


def test_a_clock_that_goes_back_does_not_take_a_chain_to_an_earlier_day() -> None:
    chains = DecisionChains(HOLDER)
    times = [decoded(written(chains, DENIED, at_us=at)).at_us for at in (100, 40, 200)]
    assert times == [100, 100, 200]


def test_a_row_that_was_not_written_leaves_no_gap() -> None:
    chains = DecisionChains(HOLDER)
    chains.staged(chains.next_line(5, DECIDED, DENIED))
    assert decoded(written(chains, DENIED)).sequence == 1


@given(
    st.lists(st.text(max_size=300), max_size=60), st.dictionaries(st.text(max_size=90), st.text())
)
@settings(max_examples=100, deadline=None)
def test_whatever_models_call_their_tools_a_row_stays_bounded(
    subjects: list[str], facts: dict[str, str | int]
) -> None:
    decision = LoggedDecision(
        kind=DENIED.kind, verdict=DENIED.verdict, subjects=tuple(subjects), facts=facts
    )
    text = written(DecisionChains(HOLDER), decision)
    line = decoded(text)
    assert len(text) < 2**14
    assert len(line.subjects) <= 16
    assert all(each.isprintable() and len(each) <= 64 for each in line.subjects)
    assert "\\u0000" not in text.decode()


def decoded(text: bytes) -> DecisionLine:
    return msgspec.json.decode(text.split(b"\t")[2].replace(b"\\\\", b"\\"), type=DecisionLine)


def test_untouched_chains_have_no_fault() -> None:
    rows = [*chain(20), *chain(20, OTHER)]
    assert verified(rows, outside=[head_of(rows[19]), head_of(rows[25])]) == []


def test_a_chain_goes_on_where_retention_has_cut_it() -> None:
    whole = chain(20)
    cut = [head_of(whole[9])]
    assert verified(whole[10:], starts=cut, outside=[head_of(whole[4])]) == []
    assert verified(whole[11:], starts=cut) == [(HOLDER, 11, "missing up to row 11")]


def test_rows_that_retention_did_not_drop_are_found_by_heads_that_are_held_outside() -> None:
    """Somebody who owns the database may note that retention dropped what it did not."""
    whole = chain(20)
    forged = [head_of(whole[14])]
    assert verified(whole[15:], starts=forged) == []
    assert verified(whole[15:], starts=forged, outside=[head_of(whole[12])]) == [
        (HOLDER, 13, "missing, while rows of its day are kept")
    ]
    other = [*chain(20, OTHER)]
    assert verified(other, starts=forged, outside=[head_of(whole[12])]) == [
        (HOLDER, 13, "missing, while rows of its day are kept")
    ]


def test_where_a_chain_goes_on_must_be_the_head_that_is_held_outside() -> None:
    whole = chain(20)
    forged = [*chain(10, first=11, end=whole[0].hash)]
    starts = [msgspec.structs.replace(head_of(whole[9]), hash=whole[0].hash)]
    assert verified(forged, starts=starts) == []
    assert verified(forged, starts=starts, outside=[head_of(whole[9])]) == [
        (HOLDER, 10, "differs from the head that is held outside")
    ]


def test_a_row_under_another_day_is_found() -> None:
    verifier = ChainVerifier(Keep.LONG, [])
    for row in (rows := chain(3)):
        verifier.take(row, day_of(row) + timedelta(days=row is rows[-1]))
    [fault] = verifier.finish()
    assert (fault.sequence, "another day" in fault.problem) == (3, True)


def _changed(rows: Rows, at: int, **fields: Any) -> Rows:
    line = msgspec.structs.replace(rows[at].line, **fields)
    return [*rows[:at], msgspec.structs.replace(rows[at], line=line), *rows[at + 1 :]]


def _flip(rows: Rows, at: int) -> Rows:
    return _changed(rows, at, reason="tool_call_forbiddeN")


def _remove(rows: Rows, at: int) -> Rows:
    return [*rows[:at], *rows[at + 1 :]]


def _swap(rows: Rows, at: int) -> Rows:
    first, second = rows[at].line, rows[at + 1].line
    swapped = _changed(rows, at, **_content(second))
    return _changed(swapped, at + 1, **_content(first))


def _content(line: DecisionLine) -> dict[str, Any]:
    return {"at_us": line.at_us, "subjects": (f"tool {line.sequence}",)}


def _insert(rows: Rows, at: int) -> Rows:
    return [*rows[: at + 1], rows[at], *rows[at + 1 :]]


@pytest.mark.parametrize("at", [0, 7, 18])
@pytest.mark.parametrize("tamper", [_flip, _remove, _swap, _insert])
def test_a_tampered_row_is_found_where_it_stood(
    tamper: Callable[[Rows, int], Rows], at: int
) -> None:
    faults = verified(tamper(chain(20), at))
    assert faults
    assert faults[0][:2] == (HOLDER, at + 1)


def test_an_observed_decision_cannot_be_made_an_enforced_one() -> None:
    assert verified(_changed(chain(3), 1, is_observed=True)) == [
        (HOLDER, 2, "changed after it was written")
    ]


def test_a_deleted_tail_is_found_up_to_the_head_that_is_held_outside() -> None:
    rows = chain(20)
    assert verified(rows[:15]) == []
    held = [head_of(rows[17])]
    assert verified(rows[:15], outside=held) == [(HOLDER, 16, "missing up to row 18, held outside")]
    assert verified([], outside=held) == [(HOLDER, 1, "missing up to row 18, held outside")]


def test_a_chain_that_was_computed_anew_differs_from_the_head_that_is_held_outside() -> None:
    rows = chain(20)
    forged = [*rows[:10], *chain(10, first=11, end=rows[8].hash)]
    held = [head_of(rows[14])]
    assert verified(rows, outside=held) == []
    assert (HOLDER, 15, "differs from the head that is held outside") in verified(
        forged, outside=held
    )
