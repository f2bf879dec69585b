"""The memory of prompts: what begins with one finds it; what it holds is bounded."""

from array import array

import pytest

from penstock.wire.prompt.known_prompt import KnownPrompt
from penstock.wire.prompt.memory import (
    LARGE_BYTES,
    NEAR_MAX,
    PIECE_BYTES,
    PROMPTS_MAX,
    TRIES_MAX,
    WEIGHT_MAX,
    BodyDigests,
    PromptMemory,
)

TEXT = bytes(range(256)) * (LARGE_BYTES // 128)


def known(boundary: int, links: int = 1) -> KnownPrompt:
    return KnownPrompt(
        array_at=0,
        boundary=boundary,
        commas=None,
        root=1,
        image_bytes=0,
        links=array("Q", bytes(8 * links)),
        sizes=array("I"),
        earlier=0,
        ends_with_answer=False,
        has_system=False,
        opening=0,
        images=array("Q"),
        system=None,
    )


def digests(memory: PromptMemory, body: bytes, account: str = "a") -> BodyDigests:
    """Those of a body whose start has come before."""
    memory.digests(account, body)
    again = memory.digests(account, body)
    assert again is not None
    return again


def keep(memory: PromptMemory, body: bytes, prompt: KnownPrompt, account: str = "a") -> None:
    memory.keep(digests(memory, body, account), prompt)


def find(memory: PromptMemory, body: bytes, account: str = "a") -> int | None:
    """Where the known prompt ends."""
    found = memory.find(digests(memory, body, account))
    return None if found is None else found.boundary


def go_on(memory: PromptMemory, body: bytes, boundary: int) -> None:
    """A turn that ends there."""
    of_body = digests(memory, body)
    memory.find(of_body)
    memory.keep(of_body, known(boundary))


def numbered(number: int) -> bytes:
    return b"%08d" % number + TEXT


@pytest.mark.parametrize(
    "boundary", [1, 40_000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, len(TEXT)]
)
def test_what_begins_with_a_prompt_finds_it(boundary: int) -> None:
    memory = PromptMemory()
    keep(memory, TEXT, known(boundary))
    assert find(memory, TEXT) == boundary
    assert find(memory, TEXT[:boundary] + bytes(2 * LARGE_BYTES)) == boundary


@pytest.mark.parametrize("at", [0, PIECE_BYTES - 1, PIECE_BYTES, 77_000, 79_999])
def test_one_byte_that_differs_makes_it_another(at: int) -> None:
    memory = PromptMemory()
    keep(memory, TEXT, known(80_000))
    other = bytearray(TEXT)
    other[at] ^= 1
    assert find(memory, bytes(other)) is None
    other[at] ^= 1
    other[80_000] ^= 1
    assert find(memory, bytes(other)) == 80_000


def test_a_body_that_ends_earlier_does_not_find_it() -> None:
    memory = PromptMemory()
    keep(memory, TEXT, known(80_000))
    assert find(memory, TEXT[:79_999]) is None
    assert find(memory, TEXT[:80_000]) == 80_000


def test_the_longest_is_found() -> None:
    memory = PromptMemory()
    for boundary in (90_000, 40_000, 60_000):
        keep(memory, TEXT, known(boundary))
    assert find(memory, TEXT) == 90_000
    assert find(memory, TEXT[:89_000]) == 60_000


def test_the_longest_is_found_although_a_shorter_one_was_used_later() -> None:
    memory = PromptMemory()
    for boundary in (90_000, 80_000):
        keep(memory, TEXT, known(boundary))
    assert find(memory, TEXT[:89_000]) == 80_000
    assert find(memory, TEXT) == 90_000


def test_accounts_and_memories_share_nothing() -> None:
    memory = PromptMemory()
    keep(memory, TEXT, known(80_000), "a")
    assert find(memory, TEXT, "b") is None
    mine, theirs = digests(memory, TEXT, "a"), digests(memory, TEXT, "b")
    elsewhere = digests(PromptMemory(), TEXT, "a")
    assert set(mine.wholes).isdisjoint(theirs.wholes)
    assert set(mine.wholes).isdisjoint(elsewhere.wholes)


def test_short_bodies_are_left_alone() -> None:
    memory = PromptMemory()
    for _ in range(3):
        assert memory.digests("a", TEXT[: LARGE_BYTES - 1]) is None


def test_a_body_is_only_looked_at_when_its_start_has_come_before() -> None:
    memory = PromptMemory()
    longer = TEXT[:LARGE_BYTES] + bytes(LARGE_BYTES)
    assert memory.digests("a", TEXT) is None
    assert memory.digests("b", TEXT) is None
    assert memory.digests("a", numbered(1)) is None
    assert memory.digests("a", longer) is not None


def test_starts_are_bounded_and_the_one_not_seen_for_longest_goes_first() -> None:
    memory = PromptMemory(starts_max=10)
    memory.digests("a", TEXT)
    for number in range(100):
        assert memory.digests("a", TEXT) is not None
        assert memory.digests("a", numbered(number)) is None
    assert memory.digests("a", numbered(95)) is not None
    assert memory.digests("a", numbered(85)) is None


def test_the_turn_before_stays_and_the_one_before_that_goes() -> None:
    memory = PromptMemory()
    for boundary in range(40_000, 100_000, 10_000):
        go_on(memory, TEXT, boundary)
    assert len(memory) == 2
    assert find(memory, TEXT) == 90_000
    assert find(memory, TEXT[: 90_000 - 1] + bytes(LARGE_BYTES)) == 80_000
    assert find(memory, TEXT[: 80_000 - 1] + bytes(LARGE_BYTES)) is None


def test_every_branch_stays() -> None:
    memory = PromptMemory()
    keep(memory, TEXT, known(70_000))
    branches = [TEXT[:70_000] + b"%d" % number + TEXT for number in range(8)]
    for _ in range(3):
        for body in branches:
            go_on(memory, body, 90_000)
    assert [find(memory, body) for body in branches] == [90_000] * 8
    assert find(memory, TEXT) == 70_000


def test_the_same_prompt_is_held_once() -> None:
    memory = PromptMemory()
    for links in (5, 3):
        keep(memory, TEXT, known(80_000, links))
    assert (len(memory), memory.weight) == (1, 3)


def test_prompts_are_bounded_and_the_one_not_used_for_longest_goes_first() -> None:
    memory = PromptMemory(prompts_max=10)
    for number in range(100):
        keep(memory, numbered(number), known(80_000))
        assert find(memory, numbered(0)) == 80_000
        assert len(memory) <= 10
    assert [n for n in range(100) if find(memory, numbered(n))] == [0, *range(91, 100)]


def test_links_are_bounded_in_all() -> None:
    memory = PromptMemory()
    for number in range(9):
        keep(memory, numbered(number), known(80_000, WEIGHT_MAX // 4))
        assert memory.weight <= WEIGHT_MAX
    assert len(memory) == 4
    assert [n for n in range(9) if find(memory, numbered(n))] == [5, 6, 7, 8]


def test_prompts_that_differ_in_their_last_bytes_only_are_bounded() -> None:
    memory = PromptMemory()
    bodies = [TEXT[:80_000] + b"%03d" % number + TEXT for number in range(3 * NEAR_MAX)]
    for body in bodies:
        keep(memory, body, known(80_100))
    assert len(memory) == NEAR_MAX < PROMPTS_MAX
    assert [find(memory, body) for body in bodies[-NEAR_MAX:]] == [80_100] * NEAR_MAX


@pytest.mark.parametrize("tries_max", [TRIES_MAX, 0])
def test_a_look_tries_a_few_only(tries_max: int) -> None:
    """What one account has stored must not make each of its looks longer."""
    memory = PromptMemory(tries_max=tries_max)
    longer = TEXT + b"b" * 100
    for boundary in range(1, 9):
        other = TEXT + b"c" * boundary + b"d" * 100
        keep(memory, other, known(len(TEXT) + boundary + 50))
    keep(memory, longer, known(len(TEXT) + 1))
    for boundary in range(1, 9):
        keep(memory, TEXT + b"e" * boundary, known(len(TEXT) + boundary))
    assert find(memory, longer) == (len(TEXT) + 1 if tries_max else None)


def test_those_that_end_alike_are_told_apart() -> None:
    memory = PromptMemory()
    bodies = [TEXT[:70_000] + b"%03d" % number + TEXT for number in range(TRIES_MAX)]
    for body in bodies:
        keep(memory, body, known(80_000))
    assert [find(memory, body) for body in bodies] == [80_000] * TRIES_MAX
    assert find(memory, TEXT[:70_000] + b"abc" + TEXT) is None


def test_a_look_looks_at_a_few_only() -> None:
    memory = PromptMemory(looks_max=0)
    keep(memory, TEXT, known(80_000))
    assert find(memory, TEXT) is None
