"""Tokens of a prompt by its bytes: learned from the answers, by model."""

import math

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.routing.routing_samples import a_request, a_router, replicas, send

from penstock.records.model import ModelId
from penstock.records.usage import Usage
from penstock.routing import Router
from penstock.routing.prompt_size import PromptSizes

A, B = ModelId("a"), ModelId("b")


def test_first_guess_is_the_setting() -> None:
    assert PromptSizes(4.0).tokens_per_byte(A) == 0.25


@given(st.floats(0.05, 1.0), st.integers(1_000, 1_000_000))
def test_real_ratio_is_learned_and_each_model_has_its_own(ratio: float, size: int) -> None:
    sizes = PromptSizes(4.0)
    for _ in range(600):
        sizes.teach(A, round(size * ratio), size)
    assert math.isclose(sizes.tokens_per_byte(A), ratio, rel_tol=0.05)
    assert sizes.tokens_per_byte(B) == 0.25


def test_answers_that_say_nothing_teach_nothing() -> None:
    sizes = PromptSizes(4.0)
    for tokens, size in ((0, 10), (-5, 10), (10, 0), (10, -1)):
        sizes.teach(A, tokens, size)
    assert sizes.tokens_per_byte(A) == 0.25


def talk(router: Router, turns: int, ratio: float, system_ratio: float) -> list[float]:
    """Conversations of six turns on one system prompt; the errors of the predicted lengths."""
    errors = []
    for number in range(turns):
        parts = ["tools", "system"]
        for turn in range(6):
            parts.append(f"{number} says {turn}")
            real = round(4000 * (2 * system_ratio + (len(parts) - 2) * ratio))
            route = send(router, a_request(*parts, session=number + 1), number + turn / 10)
            errors.append(abs(route.prompt_tokens - real) / real)
            router.first_token(route, number + turn / 10 + 0.01)
            router.finished(route, Usage(real, 10, 0), number + turn / 10 + 0.02)
            parts.append(f"answer {turn}")
    return errors


def test_lengths_are_predicted_within_five_percent_after_some_answers() -> None:
    errors = talk(a_router(*replicas(2)), 30, ratio=0.45, system_ratio=0.45)
    assert errors[0] > 0.4, "the first guess is far off"
    assert max(errors[60:]) < 0.05


def test_lengths_are_predicted_though_the_system_prompt_is_of_another_kind() -> None:
    # Such as a long table of tools, which has far more bytes to a token than what follows it.
    errors = talk(a_router(*replicas(2)), 40, ratio=0.5, system_ratio=0.1)
    followers = [error for at, error in enumerate(errors) if at >= 120 and at % 6]
    assert max(followers) < 0.05
