"""Tokens that no engine reported: one for each event, and at most what the request may have."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.output_estimate import OutputEstimate
from penstock.records.usage import Usage


def test_nothing_is_estimated_before_the_first_event() -> None:
    estimate = OutputEstimate(10, 4, 100)
    assert estimate.usage() is None
    estimate.add(0)
    assert estimate.usage() == Usage(10, 1, 4, is_estimated=True)


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=50), st.integers(0, 1000))
def test_estimate_lies_between_the_events_and_what_the_request_may_have(
    characters: list[int], output_max: int
) -> None:
    estimate = OutputEstimate(10, 4, output_max)
    last = 0
    for number, count in enumerate(characters, start=1):
        estimate.add(count)
        usage = estimate.usage()
        assert usage is not None
        assert max(last, number) <= usage.completion_tokens <= max(number, output_max)
        last = usage.completion_tokens


def test_ordinary_words_count_as_one_token_each() -> None:
    estimate = OutputEstimate(10, 4, 1000)
    for word in ("The", " pen", "stock", " feeds", " turbines", " with", " pressure") * 20:
        estimate.add(len(word))
    usage = estimate.usage()
    assert usage is not None
    assert usage.completion_tokens == 140


def test_engines_count_of_the_prompt_replaces_the_estimate() -> None:
    estimate = OutputEstimate(900, 300, 100)
    estimate.add(1)
    estimate.take_prompt(Usage(600, 0))
    assert estimate.usage() == Usage(600, 1, 200, is_estimated=True)
    estimate.take_prompt(Usage(600, 0, 64))
    assert estimate.usage() == Usage(600, 1, 64, is_estimated=True)
    estimate.take_prompt(Usage(0, 0))
    assert estimate.usage() == Usage(600, 1, 64, is_estimated=True)


def test_prompt_without_an_estimate_has_nothing_cached() -> None:
    estimate = OutputEstimate(0, 0, 0)
    estimate.add(100)
    estimate.take_prompt(Usage(600, 0))
    assert estimate.usage() == Usage(600, 1, 0, is_estimated=True)


def test_whole_answer_is_estimated_by_its_length() -> None:
    assert OutputEstimate(10, 4, 100).whole(80) == Usage(10, 10, 4, is_estimated=True)
    # Embeddings have no output, however long they are.
    assert OutputEstimate(10, 4, 0).whole(80_000) == Usage(10, 0, 4, is_estimated=True)
