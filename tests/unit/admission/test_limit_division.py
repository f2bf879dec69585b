"""Who gets how much: slices, refusals, and what a worker believes of its lease."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.admission.limit_samples import a_balance, a_demand, a_limit, a_reading

from penstock.admission.division import divide, lacking, slice_of

AMOUNTS = st.integers(min_value=0, max_value=10**18)


@given(AMOUNTS, AMOUNTS)
def test_a_slice_is_what_is_needed_or_two_percent_and_never_more_than_is_free(
    free: int, want: int
) -> None:
    grant = slice_of(free, want)
    assert 0 <= grant <= free
    if grant:
        assert grant == want or want < grant <= free * 2 // 100
    else:
        assert want == 0 or want > free


def test_the_first_demand_takes_a_slice_that_the_others_use() -> None:
    balance = a_balance(a_limit(amount=10_000))
    demands = [a_demand((balance, 10)) for _ in range(3)]
    asked = lacking(demands)
    division = divide(demands, asked, {balance.key: a_reading(amount=10_000)})
    assert asked == [balance]
    assert division.accepted == demands
    assert division.grants == [(balance, 200)]
    assert (balance.reserved, balance.elsewhere) == (30, 9_800)


def test_what_does_not_fit_is_refused_and_smaller_ones_behind_it_are_served() -> None:
    balance = a_balance()
    demands = [a_demand((balance, amount)) for amount in (60, 50, 40)]
    division = divide(demands, [balance], {balance.key: a_reading()})
    assert division.accepted == [demands[0], demands[2]]
    ((refused, shortage),) = division.refused
    assert refused is demands[1]
    assert (shortage.needed, shortage.left, shortage.amount) == (50, 40, 100)
    assert division.grants == [(balance, 100)]


def test_one_balance_without_enough_leaves_the_others_untouched() -> None:
    wide, narrow = a_balance(a_limit(id=1)), a_balance(a_limit(id=2))
    readings = {wide.key: a_reading(), narrow.key: a_reading(charged=95, spent=95)}
    division = divide([a_demand((wide, 10), (narrow, 10))], [wide, narrow], readings)
    assert not division.accepted
    assert not division.grants
    assert (wide.reserved, narrow.reserved) == (0, 0)


@pytest.mark.parametrize(("spent", "is_held"), [(90, True), (91, False)])
def test_a_shortage_says_whether_the_rest_may_come_back(spent: int, is_held: bool) -> None:
    balance = a_balance()
    reading = a_reading(charged=100, spent=spent)
    division = divide([a_demand((balance, 10))], [balance], {balance.key: reading})
    assert division.refused[0][1].is_held is is_held


def test_what_jobs_hold_does_not_come_back_soon() -> None:
    balance = a_balance()
    reading = a_reading(charged=100, spent=50, jobs_held=41)
    division = divide([a_demand((balance, 10))], [balance], {balance.key: reading})
    assert not division.refused[0][1].is_held


def test_our_own_use_that_is_not_booked_yet_will_not_come_back() -> None:
    balance = a_balance(is_read=True, used=95, granted=100)
    reading = a_reading(charged=100, own_granted=100)
    division = divide([a_demand((balance, 10))], [balance], {balance.key: reading})
    assert not division.refused[0][1].is_held


def test_use_before_the_limit_was_set_counts() -> None:
    balance = a_balance()
    division = divide([a_demand((balance, 10))], [balance], {balance.key: a_reading(base=95)})
    assert division.refused[0][1].left == 5


def test_a_limit_that_is_gone_or_soft_by_now_refuses_nobody() -> None:
    balance = a_balance()
    division = divide(
        [a_demand((balance, 10**6))], [balance], {balance.key: a_reading(is_binding=False)}
    )
    assert division.accepted
    assert not division.grants


def test_a_soft_limit_and_a_need_of_nothing_are_never_short() -> None:
    soft, spent = a_balance(a_limit(is_hard=False)), a_balance(a_limit(id=2), granted=5, used=50)
    demands = [a_demand((soft, 10**6), (spent, 0))]
    assert lacking(demands) == []
    assert divide(demands, [], {}).accepted == demands


def test_a_balance_that_was_used_up_while_another_was_asked_is_asked_next() -> None:
    asked, other = a_balance(a_limit(id=1)), a_balance(a_limit(id=2), granted=10)
    demands = [a_demand((asked, 10), (other, 10))]
    assert lacking(demands) == [asked]
    other.reserve(1)
    division = divide(demands, [asked], {asked.key: a_reading()})
    assert division.again == demands
    assert (asked.reserved, other.reserved) == (0, 1)


def test_a_deficit_of_an_outage_is_asked_for_with_the_next_demand() -> None:
    balance = a_balance(is_read=True, granted=10, used=30, recorded=10)
    demand = a_demand((balance, 5))
    division = divide([demand], [balance], {balance.key: a_reading(charged=10, own_granted=10)})
    assert division.grants == [(balance, 35)]
    balance.take_grant(35, 0.0)
    assert balance.room == 0


def test_a_worker_that_forgot_a_balance_takes_its_old_lease_for_used() -> None:
    balance = a_balance()
    reading = a_reading(charged=30, spent=20, own_granted=30, own_spent=20)
    division = divide([a_demand((balance, 5))], [balance], {balance.key: reading})
    assert balance.used == 30
    assert division.grants == [(balance, 35)]


def test_a_grant_whose_answer_was_lost_is_found_again() -> None:
    balance = a_balance(is_read=True)
    reading = a_reading(charged=20, own_granted=20)
    division = divide([a_demand((balance, 5))], [balance], {balance.key: reading})
    assert division.accepted
    assert not division.grants
    assert balance.room == 15
