"""ConcurrencySlots are bounded in all and per account, and given back whatever happens."""

from contextlib import ExitStack

import pytest

from penstock.admission import ConcurrencySlots
from penstock.errors import OverLimit, Overloaded
from penstock.records.account import AccountId

ACME, OTHER, THIRD = AccountId("acme"), AccountId("other"), AccountId("third")


def test_one_account_cannot_take_them_all() -> None:
    places = ConcurrencySlots("uploads", 4, 2)
    with ExitStack() as held:
        held.enter_context(places.take(ACME))
        held.enter_context(places.take(ACME))
        with pytest.raises(OverLimit, match="2 uploads"), places.take(ACME):
            pass
        held.enter_context(places.take(OTHER))
        assert len(places) == 3


def test_all_of_them_are_bounded() -> None:
    places = ConcurrencySlots("uploads", 2, 2)
    with places.take(ACME), places.take(OTHER):
        with pytest.raises(Overloaded), places.take(THIRD):
            pass
        assert len(places) == 2


def test_a_place_is_given_back_when_its_block_fails() -> None:
    places = ConcurrencySlots("uploads", 1, 1)
    for _ in range(3):
        with pytest.raises(RuntimeError), places.take(ACME):
            raise RuntimeError
    assert len(places) == 0
    with places.take(OTHER):
        assert len(places) == 1
