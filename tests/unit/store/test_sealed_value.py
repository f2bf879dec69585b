"""A sealed value opens only whole, unchanged, with its key and for its owner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.store.sealed_value import MAGIC, DoesNotOpen, Sealer, Unsealer, unseal_value

KEY, OTHER = bytes(range(32)), bytes(32)
FRAME = 64 * 1024
SIZES = (1, 15, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME, 2 * FRAME + 1)


def sealed(content: bytes, key: bytes = KEY, owner: str = "a/1") -> bytes:
    sealer = Sealer(key, owner)
    return sealer.add(content) + sealer.end()


def opened(value: bytes, key: bytes | None = KEY, owner: str = "a/1") -> bytes:
    """Open a value as a whole; piece by piece it opens to the same, or does not open either."""
    unsealer = Unsealer(key, owner)
    try:
        content = unsealer.add(value) + unsealer.end()
    except DoesNotOpen:
        with pytest.raises(DoesNotOpen):
            unseal_value(key, owner, value)
        raise
    assert unseal_value(key, owner, value) == content
    return content


@pytest.mark.parametrize("size", [0, *SIZES])
def test_what_was_sealed_opens(size: int) -> None:
    content = bytes(size)
    assert opened(sealed(content)) == content


@given(
    st.binary(max_size=300),
    st.lists(st.integers(1, 70_000), max_size=8),
    st.lists(st.integers(1, 70_000), max_size=8),
    st.integers(0, 500),
)
def test_pieces_may_be_cut_anywhere(
    content: bytes, cuts_in: list[int], cuts_out: list[int], repeat: int
) -> None:
    content *= repeat
    sealer, unsealer = Sealer(KEY, "o"), Unsealer(KEY, "o")
    value = b"".join(map(sealer.add, pieces(content, cuts_in))) + sealer.end()
    assert b"".join(map(unsealer.add, pieces(value, cuts_out))) + unsealer.end() == content


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    found = []
    for size in sizes:
        found.append(data[:size])
        data = data[size:]
    return [*found, data]


@pytest.mark.parametrize("size", SIZES)
def test_a_changed_value_does_not_open(size: int) -> None:
    value = sealed(bytes(size))
    places = {4, 19, 20, len(value) // 2, len(value) - 1}
    for place in places:
        changed = bytearray(value)
        changed[place] ^= 1
        with pytest.raises(DoesNotOpen):
            opened(bytes(changed))


@pytest.mark.parametrize("size", SIZES)
def test_a_cut_value_does_not_open(size: int) -> None:
    value = sealed(bytes(size))
    for length in {4, 10, 20, 21, 20 + FRAME + 16, len(value) - 1}:
        if length < len(value):
            with pytest.raises(DoesNotOpen):
                opened(value[:length])


def test_frames_in_another_order_do_not_open() -> None:
    value = sealed(bytes(3 * FRAME))
    first, second = 20, 20 + FRAME + 16
    swapped = value[:first] + value[second : second + FRAME + 16] + value[first:second]
    with pytest.raises(DoesNotOpen):
        opened(swapped + value[second + FRAME + 16 :])


def test_another_key_or_owner_does_not_open_it() -> None:
    value = sealed(b"content")
    for key, owner in ((OTHER, "a/1"), (KEY, "a/2"), (None, "a/1")):
        with pytest.raises(DoesNotOpen):
            opened(value, key, owner)


@pytest.mark.parametrize(
    "value", [b"", b"{", b'{"a": 1}', b"\0P", b"\0PX1 and more", b"x" * 99_999]
)
def test_a_value_from_before_sealing_passes_through(value: bytes) -> None:
    assert opened(value) == value
    assert opened(value, None) == value
    unsealer = Unsealer(KEY, "a/1")
    assert b"".join(map(unsealer.add, pieces(value, [1, 1, 1]))) + unsealer.end() == value


def test_no_two_values_are_alike() -> None:
    values = [sealed(b"the same") for _ in range(100)]
    assert len(set(values)) == 100
    assert all(value.startswith(MAGIC) and b"same" not in value for value in values)
