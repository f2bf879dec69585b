"""GMAC as OpenSSL makes it: against the definition, and where there is none."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.gmac import Gmac, address_of, make_gmac

# AES-128 with a key of zeros: of a block of zeros, and of the first counter behind a nonce of zeros
# (the first two test cases in NIST's proposal of GCM).
HASH_KEY = 0x66E94BD4EF8A2C3B884CFA59CA342B2E
FIRST_COUNTER = 0x58E2FCCEFA7E3061367F1D57A4E7455A
ZEROS = Gmac(bytes(16))


def multiplied(left: int, right: int) -> int:
    """In GCM's field, whose first bit stands for 1."""
    product = 0
    for bit in range(127, -1, -1):
        if left >> bit & 1:
            product ^= right
        right = right >> 1 ^ (0xE1 << 120 if right & 1 else 0)
    return product


def defined(data: bytes) -> bytes:
    blocks = [data[at : at + 16].ljust(16, b"\0") for at in range(0, len(data), 16)]
    blocks.append((8 * len(data)).to_bytes(8, "big") + bytes(8))
    found = 0
    for block in blocks:
        found = multiplied(found ^ int.from_bytes(block, "big"), HASH_KEY)
    return (found ^ FIRST_COUNTER).to_bytes(16, "big")


def tag(gmac: Gmac, data: bytes) -> bytes:
    return gmac.tag(address_of(data), len(data))


@given(st.binary(max_size=300))
def test_it_is_gmac(data: bytes) -> None:
    assert tag(ZEROS, data) == defined(data)


def test_a_part_is_read_where_it_lies() -> None:
    data = bytes(range(200))
    assert ZEROS.tag(address_of(data) + 50, 100) == defined(data[50:150])


def test_each_has_a_key_of_its_own() -> None:
    one, other = make_gmac(), make_gmac()
    assert one is not None
    assert other is not None
    assert tag(one, b"text") == tag(one, b"text") != tag(other, b"text")


def test_a_python_without_openssl_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_hashlib", None)
    assert make_gmac() is None


def test_a_step_that_fails_gives_no_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    gmac = Gmac(bytes(16))
    monkeypatch.setattr(gmac, "_end", lambda *_: 0)
    with pytest.raises(OSError, match="no tag"):
        tag(gmac, b"text")
