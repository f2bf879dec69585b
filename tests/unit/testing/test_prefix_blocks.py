"""The imitation of a prefix cache."""

from penstock.testing.scripted_engine.prefix_blocks import PrefixBlocks, count_tokens

BLOCK = 64


def test_a_second_turn_hits_what_the_first_left() -> None:
    blocks = PrefixBlocks(capacity=100)
    first = b"a" * (BLOCK * 3 + 10)
    assert blocks.admit(first, "salt") == 0
    assert blocks.admit(first + b"more", "salt") == 48
    assert (blocks.queried_tokens, blocks.hit_tokens) == (51 + 52, 48)


def test_an_answer_extends_the_prefix() -> None:
    blocks = PrefixBlocks(capacity=100)
    prompt = b"a" * BLOCK
    blocks.admit(prompt, "")
    blocks.extend(prompt + b"b" * BLOCK, "")
    assert blocks.admit(prompt + b"b" * BLOCK + b"c", "") == 32


def test_another_salt_never_hits() -> None:
    blocks = PrefixBlocks(capacity=100)
    blocks.admit(b"a" * 1000, "one")
    assert blocks.admit(b"a" * 1000, "two") == 0


def test_the_last_token_is_always_computed() -> None:
    blocks = PrefixBlocks(capacity=100)
    blocks.admit(b"a" * BLOCK, "")
    assert blocks.admit(b"a" * BLOCK, "") == 0


def test_the_least_recent_blocks_are_forgotten() -> None:
    blocks = PrefixBlocks(capacity=2)
    blocks.admit(b"a" * BLOCK * 2, "")
    blocks.admit(b"b" * BLOCK * 2, "")
    assert blocks.admit(b"a" * BLOCK * 2 + b"a", "") == 0


def test_a_token_is_four_bytes() -> None:
    assert [count_tokens(b"a" * size) for size in (0, 1, 4, 5)] == [0, 1, 1, 2]
