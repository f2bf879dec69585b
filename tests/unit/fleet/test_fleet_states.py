"""The states in the code are the ones that docs/replicas.md draws."""

import re
from pathlib import Path

import pytest

from penstock.errors import Superseded
from penstock.fleet.states import ALLOWED, check_move
from penstock.records.replica import ReplicaState

_PAGE = Path(__file__).parents[3] / "docs" / "replicas.md"
_ARROW = re.compile(r"^\s*(\w+) --> (\w+)(?::.*)?$", re.MULTILINE)


def test_the_drawn_arrows_are_the_allowed_moves() -> None:
    drawn = set(_ARROW.findall(_PAGE.read_text()))
    allowed = {(old.value, new.value) for old, news in ALLOWED.items() for new in news}
    assert drawn == allowed


def test_every_state_is_in_the_table_of_the_page() -> None:
    rows = re.findall(r"^\| (\w+) \|", _PAGE.read_text(), re.MULTILINE)
    assert [row for row in rows if row != "State"] == [state.value for state in ReplicaState]


@pytest.mark.parametrize("state", list(ReplicaState))
def test_nothing_comes_back_from_gone(state: ReplicaState) -> None:
    with pytest.raises(Superseded):
        check_move(ReplicaState.GONE, state)


def test_a_ready_replica_does_not_start_again() -> None:
    with pytest.raises(Superseded, match="ready to starting"):
        check_move(ReplicaState.READY, ReplicaState.STARTING)
    check_move(ReplicaState.READY, ReplicaState.DRAINING)
