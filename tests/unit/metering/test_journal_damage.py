"""A journal that was cut or damaged: what was whole is read, what was not is never made up."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.metering.journal_files import (
    closed_line,
    facts_of,
    lay_out,
    one_attempt,
    opened_line,
    read_all,
)

from penstock.metering.journal_format import (
    CLOSED,
    CUT,
    END,
    HEADER_BYTES,
    OPENED,
    OPENED_UNLABELLED,
    OPENED_UNROUTED,
    Damaged,
    frame,
    read_frame,
)
from penstock.metering.ledger_line import UNLABELLED, UNROUTED
from penstock.metering.usage_slots import SLOT_BYTES
from penstock.records.usage import Usage

LARGE = Usage(1000, 1000)


def cut(data: bytes, at: int) -> bytes:
    return data[:at]


def zero(data: bytes, at: int) -> bytes:
    return data[:at].ljust(len(data), b"\0")


def read_to_end(data: bytes) -> None:
    kind, at = OPENED, 0
    while kind != END:
        kind, _, _, at = read_frame(data, at)
        if kind == CUT:
            raise Damaged


@pytest.mark.parametrize("damage", [cut, zero])
@pytest.mark.parametrize("size", [0, 4096])
def test_record_cut_at_any_byte_costs_no_record_before_it(
    tmp_path: Path, damage: Callable[[bytes, int], bytes], size: int
) -> None:
    first, second = one_attempt(0), one_attempt(1)
    whole = b"".join([*first, *second])
    expected = first[0][HEADER_BYTES:] + first[1][HEADER_BYTES:]
    for at in range(len(whole) - len(second[1]), len(whole)):
        folder = lay_out(tmp_path / str(at), damage(whole, at), size=size)
        rows, left = read_all(folder)
        assert rows == [expected]
        (open_row,) = left
        assert open_row.startswith(second[0][HEADER_BYTES:])
        assert facts_of(open_row)["outcome"] == "interrupted"


@pytest.mark.parametrize("damage", [cut, zero])
def test_opening_record_cut_at_any_byte_was_never_written(
    tmp_path: Path, damage: Callable[[bytes, int], bytes]
) -> None:
    first, second = one_attempt(0), one_attempt(1)
    whole = b"".join([*first, second[0]])
    for at in range(len(whole) - len(second[0]), len(whole)):
        rows, left = read_all(lay_out(tmp_path / str(at), damage(whole, at)))
        assert (len(rows), left) == (1, [])


def test_flipped_bit_anywhere_is_found_and_nothing_is_made_up(tmp_path: Path) -> None:
    # Sixteen bytes: one flipped bit makes a length of 0 of it, which is the end of a file.
    texts = [b"begun\t", closed_line(LARGE, 7), b"o" * 16, b"c" * 15 + b"\n"]
    kinds = (OPENED, CLOSED, OPENED, CLOSED)
    data = b"".join(
        frame(kind, at // 2, text) for at, (kind, text) in enumerate(zip(kinds, texts, strict=True))
    )
    whole = {texts[0] + texts[1], texts[2] + texts[3]}
    folder = lay_out(tmp_path, data)
    segment = folder / "00000001.journal"
    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data.ljust(4096, b"\0"))
            flipped[place] ^= 1 << bit
            segment.write_bytes(flipped)
            with pytest.raises(Damaged):
                read_to_end(bytes(flipped))
            rows, left = read_all(folder)
            assert set(rows) < whole
            assert all(row.startswith((texts[0], texts[2])) for row in left)
            assert all(b"interrupted" in row for row in left)


def test_damage_behind_the_last_record_costs_nothing(tmp_path: Path) -> None:
    data = bytearray(b"".join(one_attempt()).ljust(4096, b"\0"))
    data[1000] = 1
    assert len(read_all(lay_out(tmp_path, bytes(data)))[0]) == 1
    data[len(b"".join(one_attempt()))] = 1
    assert len(read_all(lay_out(tmp_path, bytes(data)))[0]) == 1


def test_nobody_is_billed_for_the_usage_of_another_behind_damage(tmp_path: Path) -> None:
    """The slot was given out again in what cannot be read: the closing record is another's."""
    begun = opened_line()
    lost = bytearray(frame(CLOSED, 0, closed_line()) + frame(OPENED, 0, opened_line()))
    lost[20] ^= 1
    folder = lay_out(
        tmp_path,
        frame(OPENED, 0, begun) + bytes(lost),
        frame(CLOSED, 0, closed_line(LARGE, 10**9)) + b"".join(one_attempt(3)),
    )
    rows, left = read_all(folder)
    assert left == []
    assert len(rows) == 2
    facts = facts_of(rows[0])
    assert rows[0].startswith(begun)
    assert (facts["outcome"], facts["charge_nanousd"]) == ("interrupted", "0")
    assert facts["output_tokens"] is None
    copy = tmp_path / f"{folder.name}-00000001.journal.damaged"
    assert copy.read_bytes() == (folder / "00000001.journal").read_bytes()


def test_damage_in_one_file_does_not_cost_the_next(tmp_path: Path) -> None:
    broken = bytearray(b"".join(one_attempt()) * 20)
    broken[len(broken) // 2] ^= 16
    folder = lay_out(tmp_path, bytes(broken), b"".join(one_attempt()) * 3, size=8192)
    rows, _ = read_all(folder)
    assert 3 + 9 <= len(rows) < 3 + 20
    assert list(tmp_path.glob("*.damaged"))


def test_large_damage_at_the_end_is_kept_for_people_too(tmp_path: Path) -> None:
    broken = bytearray(b"".join(one_attempt()) * 100)
    broken[5] ^= 1
    assert read_all(lay_out(tmp_path, bytes(broken), size=2**15)) == ([], [])
    assert list(tmp_path.glob("*.damaged"))


@pytest.mark.parametrize("kind", [0, 6, 255])
def test_record_of_a_kind_that_is_not_known_is_not_guessed_at(tmp_path: Path, kind: int) -> None:
    whole = one_attempt(0)
    data = b"".join([*whole, frame(kind, 1, b"what is this"), *one_attempt(2)])
    assert len(read_all(lay_out(tmp_path, data))[0]) == 1


def test_journal_of_the_version_before_is_read_with_nothing_expected(tmp_path: Path) -> None:
    opened = opened_line().removesuffix(UNROUTED)
    data = frame(OPENED_UNROUTED, 0, opened) + frame(CLOSED, 0, closed_line(LARGE, 5))
    rows, left = read_all(lay_out(tmp_path, data + frame(OPENED_UNROUTED, 1, opened)))
    for row in map(facts_of, rows + left):
        facts = (row["cached_expected"], row["session_moved"], row["cache_break"])
        assert facts == (None, "", "")
    assert [facts_of(row)["outcome"] for row in rows + left] == ["ok", "interrupted"]


def test_journal_without_the_labels_of_turns_is_read_with_none(tmp_path: Path) -> None:
    opened = opened_line().removesuffix(UNLABELLED)
    data = frame(OPENED_UNLABELLED, 0, opened) + frame(CLOSED, 0, closed_line(LARGE, 5))
    rows, left = read_all(lay_out(tmp_path, data + frame(OPENED_UNLABELLED, 1, opened)))
    for row in map(facts_of, rows + left):
        labels = ("parent_id", "purpose", "contract", "task", "model_asked")
        assert [row[label] for label in labels] == [""] * 5
    assert [facts_of(row)["outcome"] for row in rows + left] == ["ok", "interrupted"]


def test_file_that_was_being_made_when_its_worker_was_killed_is_empty(tmp_path: Path) -> None:
    assert read_all(lay_out(tmp_path / "first", b"", size=0)) == ([], [])
    folder = lay_out(tmp_path / "next", b"".join(one_attempt()))
    (folder / "00000002.journal").touch()
    assert len(read_all(folder)[0]) == 1
    assert read_all(lay_out(tmp_path / "none")) == ([], [])


@pytest.mark.parametrize("noted", [b"", b"x" * 250, b'{"prompt_tokens":"many"}', b"\xff\0"])
def test_slot_that_holds_no_usage_leaves_the_usage_unknown(tmp_path: Path, noted: bytes) -> None:
    folder = lay_out(tmp_path, one_attempt(2)[0])
    slots = bytearray(8 * SLOT_BYTES)
    base = 2 * SLOT_BYTES
    slots[base] = 1
    slots[base + 2 : base + 4] = len(noted).to_bytes(2, "little")
    slots[base + 4 : base + 4 + len(noted)] = noted
    (folder / "slots").write_bytes(slots)
    (row,) = read_all(folder)[1]
    facts = facts_of(row)
    assert facts["prompt_tokens"] is None
    assert facts["charge_nanousd"] == "0"


def test_file_is_read_alike_wherever_the_pieces_of_it_end(tmp_path: Path) -> None:
    begun = [b"%d:" % number + b"o" * (number * 37 % 700) for number in range(1500)]
    # One is longer than any piece.
    begun[700] += b"o" * 200_000
    data = b"".join(
        frame(OPENED, number % 8, text) + frame(CLOSED, number % 8, b"c\n")
        for number, text in enumerate(begun)
    )
    folder = lay_out(tmp_path, data, size=2**20)
    assert read_all(folder, rows_max=400) == ([text + b"c\n" for text in begun], [])
    end = data.index(b"o" * 200_000) + 200_000
    cut_short = lay_out(tmp_path / "cut", data[: end - 1], size=0)
    rows, left = read_all(cut_short)
    assert (len(rows), left) == (700, [])
