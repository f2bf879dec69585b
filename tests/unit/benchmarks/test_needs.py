"""A benchmark says what it misses before it begins, and how to install that."""

import pytest

import overhead
from needs import COMPILED, LOAD, missing, require


def test_what_is_installed_is_not_missed() -> None:
    assert missing(["gcc", "nginx"], find=lambda _: "/usr/bin/it") == {}


def test_what_is_missing_comes_with_the_command_that_installs_it() -> None:
    found = missing(["nginx", "gcc"], find=lambda name: None if name == "nginx" else "/usr/bin/gcc")
    assert found == {"nginx": "apt-get install nginx-light"}


def test_a_program_that_nobody_can_name_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        require(["no-such-program"])


def test_candidates_need_their_own_programs_only() -> None:
    assert overhead.programs_for([overhead.BARE, overhead.THEIRS]) == set(LOAD)
    ours = overhead.programs_for([overhead.BARE, overhead.OURS])
    assert ours == {*LOAD, *COMPILED}
    assert "nginx" in overhead.programs_for(list(overhead.USUAL))
