"""Cut outputs fit, keep their head and their tail, and stay JSON where they were JSON."""

import json
import random
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.contracts.cutting.json_output import LEAST_BYTES, LEFT_OUT, cut_json
from penstock.contracts.cutting.output_cap import OutputCap
from penstock.contracts.cutting.shares import shares
from penstock.contracts.cutting.text_output import cut_text
from penstock.contracts.document import ToolOutputTerms

RECORDED = Path(__file__).with_name("recorded_outputs.jsonl")
JSON_BYTES_MAX: Final = 4 * 2**20
GENERATED: Final = 150
OUTPUTS_MADE: Final = 5000
TAIL_SHARES = st.sampled_from((0.1, 0.25, 0.4, 0.9))
LINES = st.lists(st.text(st.characters(codec="utf-8"), max_size=60), min_size=1, max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=20), inner, max_size=12)
    ),
    max_leaves=20,
)  # fmt: skip


class Recorded(msgspec.Struct):
    """An output of a real tool, or one that looks the same."""

    name: str
    kind: str
    text: str


OUTPUTS = [msgspec.json.decode(line, type=Recorded) for line in RECORDED.read_bytes().splitlines()]


def cap(bytes_max: int = 1024, tail_share: float = 0.4, **terms: Any) -> OutputCap:
    return OutputCap(
        "code-review", ToolOutputTerms(bytes_max=bytes_max, tail_share=tail_share, **terms)
    )


def cut(text: str, bytes_max: int = 1024, tail_share: float = 0.4) -> str:
    """Cut one text, and hold what is promised of each."""
    made, whole = cap(bytes_max, tail_share), text.encode()
    found = made.cut([whole], JSON_BYTES_MAX)[0]
    assert found is not None
    assert len(found) <= bytes_max
    # Cutting twice is cutting once, and cutting elsewhere is cutting here.
    assert made.cut([found], JSON_BYTES_MAX) == [found]
    assert cap(bytes_max, tail_share).cut([whole], JSON_BYTES_MAX) == [found]
    if len(whole) <= bytes_max:
        assert found == whole
    return found.decode()


def check_text(text: str, found: str, bytes_max: int, tail_share: float) -> None:
    """Check that a cut text has its head and its tail, and counts what is between."""
    head, mark, tail = split(found)
    assert text.startswith(head.removesuffix("\n"))
    assert text.endswith(tail)
    assert len(tail.encode()) >= int(tail_share * (bytes_max - 120))
    # The line end before the mark is the text's, or was added.
    expected = []
    for kept in {head, head.removesuffix("\n")}:
        gone = text.encode()[len(kept.encode()) : len(text.encode()) - len(tail.encode())]
        expected.append((len(gone), gone.count(b"\n") + (not gone.endswith(b"\n"))))
    assert figures(mark) in expected


def split(found: str) -> tuple[str, str, str]:
    start = found.index("[", max(found.rindex(" left out here: contract") - 60, 0))
    while not found[start + 1].isdigit():
        start = found.index("[", start + 1)
    end = found.index("]", start) + 1
    return found[:start], found[start:end], found[end + 1 :]


def figures(mark: str) -> tuple[int, int]:
    words = mark.removeprefix("[").replace(",", "").split()
    return int(words[0]), int(words[3])


def test_five_thousand_outputs_fit_and_stay_what_they_are() -> None:
    chosen = random.Random(8)
    seen = 0
    for number in range(OUTPUTS_MADE):
        tail_share = chosen.choice((0.1, 0.4, 0.9))
        if number % 2:
            text = "".join(line(chosen) for _ in range(chosen.randrange(1, 60)))
            found = cut(text, 1024, tail_share)
            if found != text and found[0] != "[":
                check_text(text, found, 1024, tail_share)
                seen += 1
        else:
            value = {"first": 1.5, "rest": tree(chosen, 3), "last": tree(chosen, 2)}
            read = json.loads(cut(json.dumps(value), 1024, tail_share))
            assert list(read) == ["first", "rest", "last"]
            seen += read != value
    assert seen > OUTPUTS_MADE * 0.5


def line(chosen: random.Random) -> str:
    letters = chosen.choice(("abc ", "é水🚀 ", 'x"\\ '))
    return letters * chosen.randrange(0, 40) + chosen.choice(("\n", "\n", "\r\n", ""))


def tree(chosen: random.Random, levels: int) -> Any:
    if not levels:
        return chosen.choice((None, True, 1, -2.5e30, line(chosen)))
    values = [tree(chosen, levels - 1) for _ in range(chosen.randrange(2, 9))]
    if chosen.random() < 0.5:
        return values
    return {f"key {at} é"[: chosen.randrange(4, 8)]: each for at, each in enumerate(values)}


@settings(max_examples=GENERATED)
@given(LINES, st.integers(1, 120), TAIL_SHARES)
def test_a_text_keeps_its_head_and_its_tail(
    lines: list[str], times: int, tail_share: float
) -> None:
    text = "x" + "\n".join(lines * times)
    found = cut(text, 1024, tail_share)
    if found != text:
        check_text(text, found, 1024, tail_share)


@settings(max_examples=GENERATED)
@given(VALUES, st.integers(1, 8), st.sampled_from((None, 2)), TAIL_SHARES)
def test_json_stays_json_with_its_keys_in_order(
    value: Any, times: int, indent: int | None, tail_share: float
) -> None:
    whole = {"first": 1.50, "values": [value] * times, "last": value}
    found = cut(json.dumps(whole, indent=indent), 1024, tail_share)
    read = json.loads(found)
    assert list(read) == [key for key in whole if key in read]
    assert LEFT_OUT in found or "bytes left out" in found or read == whole


@settings(max_examples=GENERATED)
@given(VALUES.filter(lambda value: isinstance(value, list | dict)), st.integers(LEAST_BYTES, 600))
def test_json_fits_into_any_room(value: Any, room: int) -> None:
    found = cut_json(json.dumps(value).encode(), room, 0.4)
    assert found is not None
    assert len(found) <= room
    json.loads(found)


@settings(max_examples=GENERATED)
@given(st.lists(LINES.map("\n".join), min_size=1, max_size=12), st.integers(1, 8))
def test_several_texts_fit_together(texts: list[str], times: int) -> None:
    parts = [text.encode() for text in texts * times]
    found = cap().cut(parts, JSON_BYTES_MAX)
    kept = [part for part in found if part is not None]
    assert sum(map(len, kept)) <= 1024
    assert len(found) == len(parts)
    if sum(map(len, parts)) <= 1024:
        assert found == parts
    assert cap().cut(kept, JSON_BYTES_MAX) == kept


@given(st.lists(st.integers(1, 500), max_size=40), st.integers(0, 2000), TAIL_SHARES)
def test_shares_fit_and_leave_out_one_row(lengths: list[int], room: int, tail_share: float) -> None:
    found = shares(lengths, room, tail_share, 64)
    assert sum(found) <= room
    assert all(share <= length for share, length in zip(found, lengths, strict=True))
    assert all(
        share >= min(64, length) for share, length in zip(found, lengths, strict=True) if share
    )
    left_out = [at for at, share in enumerate(found) if not share]
    assert left_out == list(range(left_out[0], left_out[-1] + 1)) if left_out else True


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.name)
@pytest.mark.parametrize("bytes_max", [1024, 2048])
def test_recorded_outputs_keep_what_matters(output: Recorded, bytes_max: int) -> None:
    found = cut(output.text, bytes_max)
    if output.kind == "json":
        assert list(json.loads(found))[:1] == list(json.loads(output.text))[:1] or found[0] == "["
    else:
        check_text(output.text, found, bytes_max, 0.4)
        assert len(found.encode()) >= bytes_max * 0.75


def test_there_are_thirty_recorded_outputs() -> None:
    assert len(OUTPUTS) == 30


def test_a_text_is_cut_at_line_ends_with_a_line_of_facts() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    found = cut(text).splitlines()
    marks = [at for at, line in enumerate(found) if line.startswith("[")]
    assert len(marks) == 1
    assert found[: marks[0]] == text.splitlines()[: marks[0]]
    behind = found[marks[0] + 1 :]
    assert behind == text.splitlines()[-len(behind) :]
    left_out = 1000 - len(found) + 1
    gone = "".join(f"line {number}\n" for number in range(marks[0], marks[0] + left_out))
    assert found[marks[0]] == (
        f"[{len(gone):,} bytes in {left_out} lines left out here: contract code-review]"
    )


def test_a_setting_that_cuts_is_no_contract() -> None:
    found = OutputCap("", ToolOutputTerms(bytes_max=1024)).cut([b"x" * 5000], JSON_BYTES_MAX)[0]
    assert found is not None
    assert b" bytes in 1 line left out here]\n" in found


def test_numbers_keep_their_spelling_and_elements_their_ends() -> None:
    text = "[" + ", ".join(f'{{"n": {number}, "v": 1.50e3}}' for number in range(1000)) + "]"
    found = cut(text)
    assert found.startswith('[{"n":0,"v":1.50e3},{"n":1,"v":1.50e3},')
    assert found.endswith(',{"n":998,"v":1.50e3},{"n":999,"v":1.50e3}]')
    kept = [each for each in json.loads(found) if "n" in each]
    marks = [each for each in json.loads(found) if "n" not in each]
    assert marks == [{LEFT_OUT: 1000 - len(kept)}]


def test_spaces_alone_are_left_out_where_that_is_enough() -> None:
    value = [{"number": number} for number in range(40)]
    found = cut(json.dumps(value, indent=8))
    assert json.loads(found) == value


def test_a_key_with_the_marks_name_is_kept_beside_it() -> None:
    value: dict[str, int] = {LEFT_OUT: 7, **{f"key {number}": number for number in range(900)}}
    found = json.loads(cut(json.dumps(value)))
    assert found[LEFT_OUT] == 7
    assert found[f"_{LEFT_OUT}"] == len(value) - (len(found) - 1)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 3000 + "]" * 3000,
        '{"a":' * 500 + "1" + "}" * 500,
        "[" + "1" * 5000 + "]",
        '{"%s": 1}' % ("k" * 5000),
        '["\\ud800' + "x" * 5000 + '"]',
        "[" + '"",' * 2000 + '""]',
        '{"a": "' + "\\u00e9" * 2000 + '"}',
    ],
)
def test_unusual_json_is_cut_too(text: str) -> None:
    cut(text)


def test_json_that_is_too_long_to_be_read_is_cut_as_text() -> None:
    text = json.dumps([{"n": number} for number in range(5000)]).encode()
    found = cap().cut([text], len(text) - 1)[0]
    assert found is not None
    assert b" left out here: contract code-review]" in found
    assert cap().cut([text], len(text)) != [found]


def test_json_of_very_many_values_is_cut_as_text() -> None:
    found = cut("[" + "1," * 100_001 + "1]")
    assert " left out here: contract code-review]" in found
    json.loads(cut("[" + "1," * 99_999 + "1]"))


def test_a_room_for_no_mark_has_the_head() -> None:
    assert cut_text("é".encode() * 100, 41, 0.4, "x" * 64) == "é".encode() * 20


def test_names_are_exempt_by_patterns_and_unknown_ones_never() -> None:
    made = cap(exempt=frozenset({"read_exact*", "fetch"}))
    assert made.spares("read_exact")
    assert made.spares("read_exact_file")
    assert made.spares("fetch")
    # As the rules for calls do: case and outer blanks do not count.
    assert made.spares("Fetch\n")
    assert not any(map(made.spares, ("", "read", "fetch_page", "xread_exact")))
    assert not cap().spares("fetch")
