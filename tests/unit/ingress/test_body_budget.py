"""How many bytes of bodies one worker holds, and whom it refuses when that is too much."""

import random

import pytest

from penstock.errors import OverLimit, Overloaded
from penstock.ingress.http.body_budget import BodyBudget, HeldBody
from penstock.ingress.settings import IngressSettings

WHOLE = 1_000_000


def budget_of(body_bytes_max: int = 10_000) -> BodyBudget:
    return BodyBudget(
        IngressSettings(
            body_bytes_max=body_bytes_max,
            bodies_bytes_max=WHOLE,
            bodies_share_unknown_max=0.1,
            bodies_share_per_account_max=0.25,
        )
    )


def test_unknown_keys_have_a_small_share_and_accounts_the_rest() -> None:
    budget = budget_of()
    unknown = [HeldBody() for _ in range(3)]
    assert budget.hold(unknown[0], 50_000) is None
    assert budget.hold(unknown[1], 50_000) is None
    assert isinstance(budget.hold(unknown[2], 1), Overloaded)
    assert budget.hold(HeldBody("a"), 250_000) is None


def test_no_account_may_have_all_of_it() -> None:
    budget = budget_of()
    first = HeldBody("a")
    assert budget.hold(first, 250_000) is None
    assert isinstance(budget.hold(HeldBody("a"), 1), OverLimit)
    assert budget.hold(HeldBody("b"), 250_000) is None


def test_one_largest_body_fits_whatever_the_share_is() -> None:
    budget = budget_of(body_bytes_max=800_000)
    assert budget.hold(HeldBody("a"), 800_000) is None
    assert isinstance(budget.hold(HeldBody("a"), 1), OverLimit)


def test_all_together_have_no_more_than_the_whole() -> None:
    budget = budget_of()
    for account in "abcd":
        assert budget.hold(HeldBody(account), 250_000) is None
    assert isinstance(budget.hold(HeldBody("e"), 1), Overloaded)


def test_refused_bytes_count_until_they_are_released() -> None:
    budget = budget_of()
    refused = HeldBody()
    assert budget.hold(refused, 200_000) is not None
    assert budget.hold(HeldBody(), 1) is not None
    budget.release(refused)
    assert budget.hold(HeldBody(), 1) is None


@pytest.mark.parametrize("seed", range(5))
def test_what_is_held_is_the_sum_of_what_was_not_released(seed: int) -> None:
    dice = random.Random(seed)
    budget = budget_of()
    bodies = [HeldBody(dice.choice(["", "a", "b"])) for _ in range(20)]
    for _ in range(500):
        body = dice.choice(bodies)
        if dice.random() < 0.3:
            budget.release(body)
        else:
            budget.hold(body, dice.randrange(1000))
        assert budget.held_bytes == sum(body.body_bytes for body in bodies)
    for body in bodies:
        budget.release(body)
        budget.release(body)
    assert budget.held_bytes == 0
