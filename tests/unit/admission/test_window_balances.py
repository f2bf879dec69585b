"""What a worker holds, gives back and forgets."""

import pytest
from tests.unit.admission.limit_samples import NOW, a_balance, a_limit, a_reading, a_request

from penstock.admission.counted_limit import CountedLimit
from penstock.admission.hold import NO_HOLD, HeldAmount, Hold
from penstock.admission.limit_table import LimitRow, LimitTable
from penstock.admission.window_balance import WindowBalance
from penstock.admission.window_balances import WindowBalances
from penstock.records.limit import Limit, Measure, Period

RETURN_SECONDS = 1.5
MOST = 1000


def leased(balances: WindowBalances, limit: Limit, granted: int, used: int = 0) -> WindowBalance:
    """A balance that was asked for at 0 s and given a grant."""
    balance = balances.find(CountedLimit(limit, ""), NOW)
    amounts = (HeldAmount(balance, 0),)
    balances.open(amounts)
    balance.is_read = True
    balance.used = used
    balance.take_grant(granted, 0.0)
    balances.close(amounts)
    return balance


def test_a_hold_frees_what_it_reserved_and_books_what_was_used() -> None:
    tokens, money = (
        a_balance(granted=50),
        a_balance(a_limit(id=2, measure=Measure.NANOUSD), granted=900),
    )
    requests = a_balance(a_limit(id=3, measure=Measure.REQUESTS), granted=2)
    amounts = (HeldAmount(tokens, 40), HeldAmount(money, 800), HeldAmount(requests, 1))
    for held in amounts:
        held.balance.reserve(held.amount)
    hold = Hold(amounts)
    assert hold.limits == (1, 2, 3)
    assert tokens.room == 10
    hold.settle(requests=1, tokens=7, nanousd=300)
    assert [held.balance.room for held in amounts] == [43, 600, 1]
    assert [held.balance.used for held in amounts] == [7, 300, 1]
    with pytest.raises(AssertionError):
        hold.settle(requests=0, tokens=0, nanousd=0)


def test_a_hold_shows_where_hard_limits_stand_and_which_soft_ones_are_passed() -> None:
    hard = a_balance(granted=20, elsewhere=30)
    calm, passed = a_balance(a_limit(id=2, is_hard=False)), a_balance(a_limit(id=3, is_hard=False))
    passed.is_over = True
    unasked = a_balance(a_limit(id=4))
    hold = Hold(
        (HeldAmount(hard, 5), HeldAmount(calm, 5), HeldAmount(passed, 5), HeldAmount(unasked, 0))
    )
    hard.is_read = True
    assert [(each.limit.id, each.left) for each in hold.standings] == [(1, 50)]
    assert hold.standings[0].resets_at == hard.window.end
    assert [(each.limit.id, each.left) for each in hold.warnings] == [(3, 0)]


def test_the_shared_hold_of_those_without_limits_may_be_settled_by_all() -> None:
    for _ in range(2):
        NO_HOLD.settle(requests=1, tokens=1, nanousd=1)
    assert [NO_HOLD.limits, NO_HOLD.standings, NO_HOLD.warnings] == [(), (), ()]


def test_a_busy_balance_keeps_what_it_will_soon_use_while_plenty_is_free() -> None:
    balances = WindowBalances()
    balance = leased(balances, a_limit(), 1000, used=100)
    balance.elsewhere = 50_000
    balance.reserve(20)
    balance.settle(20, 20)
    # 880 was the least room; eight times 20 of it stay.
    assert balances.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == [(balance, 280)]
    assert balance.room == 160
    balance.recorded = 280
    balance.reserve(20)
    balance.settle(20, 20)
    assert balances.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    assert balance.room == 140
    # Nothing was used: all of it goes back.
    assert balances.due(3 * RETURN_SECONDS, RETURN_SECONDS, MOST) == [(balance, 140)]
    assert balance.room == 0


def test_a_busy_balance_keeps_nothing_when_others_may_need_it() -> None:
    balances = WindowBalances()
    balance = leased(balances, a_limit(), 1000, used=100)
    balance.elsewhere = 50 * 8 * 20 - 1
    balance.reserve(20)
    balance.settle(20, 20)
    assert balances.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == [(balance, 120)]


def test_what_nobody_needed_for_a_while_is_given_back() -> None:
    balances = WindowBalances()
    balance = leased(balances, a_limit(), 50, used=10)
    balance.reserve(15)
    balance.settle(15, 5)
    assert balances.due(RETURN_SECONDS - 0.1, RETURN_SECONDS, MOST) == []
    # 35 is free now, but 25 is the least that was at any time.
    assert balances.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == [(balance, 25)]
    assert balance.room == 10
    balance.recorded = 25
    assert balances.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == [(balance, 15)]
    assert balance.room == 0


def test_what_is_reserved_is_never_given_back() -> None:
    balances = WindowBalances()
    balance = leased(balances, a_limit(), 50)
    balance.reserve(50)
    assert balances.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    balance.settle(50, 20)
    assert balances.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    assert balances.due(3 * RETURN_SECONDS, RETURN_SECONDS, MOST) == [(balance, 20)]


def test_what_could_not_be_written_is_written_the_next_time() -> None:
    balances = WindowBalances()
    balance = leased(balances, a_limit(), 50)
    assert balances.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == [(balance, 0)]
    assert balances.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == [(balance, 0)]
    balance.recorded = 0
    assert balances.due(3 * RETURN_SECONDS, RETURN_SECONDS, MOST) == []


def test_what_was_used_beyond_the_grant_is_told() -> None:
    balances = WindowBalances()
    balance = leased(balances, a_limit(), 50, used=70)
    assert balances.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == [(balance, 70)]


def test_a_balance_that_postgres_was_never_asked_about_writes_nothing() -> None:
    balances = WindowBalances()
    balance = balances.find(CountedLimit(a_limit(), ""), NOW)
    amounts = (HeldAmount(balance, 10),)
    balances.open(amounts)
    balance.reserve(10)
    balances.close(amounts)
    assert balances.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    balance.settle(10, 10)
    assert balances.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    # What it used will be booked by the drain; the balance itself is still known.
    assert balances.find(CountedLimit(a_limit(), ""), NOW) is balance


def test_a_changed_limit_gives_back_its_room_at_once() -> None:
    balances, table = WindowBalances(), LimitTable()
    balance, soft = (
        leased(balances, a_limit(), 50),
        balances.find(CountedLimit(a_limit(id=2, is_hard=False), ""), NOW),
    )
    gone, same = leased(balances, a_limit(id=3), 5), leased(balances, a_limit(id=4), 5)
    soft.is_over, balance.elsewhere = True, 50
    balances.open((HeldAmount(soft, 0),))
    smaller = a_limit(amount=60)
    louder = a_limit(id=2, is_hard=False, amount=500)
    table.apply(LimitRow(each, is_removed=False) for each in (smaller, louder, same.limit))
    balances.limits_changed(table)
    assert balances.due(0.1, RETURN_SECONDS, MOST) == [(balance, 0)]
    assert (balance.limit, balance.elsewhere) == (smaller, 10)
    assert (soft.limit, soft.is_over) == (louder, False)
    balances.forget_ended(NOW, table)
    assert (len(balances), balances.find(CountedLimit(gone.limit, ""), NOW) is gone) == (3, False)


def test_balances_of_ended_windows_go_once_nothing_runs_in_them() -> None:
    balances, table = WindowBalances(), LimitTable()
    table.apply([LimitRow(a_limit(), is_removed=False)])
    balance = leased(balances, a_limit(), 50)
    amounts = (HeldAmount(balance, 10),)
    balance.reserve(10)
    balances.forget_ended(balance.window.end, table)
    balance.release(10)
    balances.open(amounts)
    balances.forget_ended(balance.window.end, table)
    balances.close(amounts)
    balances.forget_ended(balance.window.end - 1, table)
    assert balances.find(CountedLimit(a_limit(), ""), NOW) is balance
    balances.forget_ended(balance.window.end, table)
    assert len(balances) == 0
    assert balances.due(100, RETURN_SECONDS, MOST) == []


def test_a_kept_balance_counts_for_its_window_to_the_moment() -> None:
    balances, counted = WindowBalances(), CountedLimit(a_limit(period=Period.MINUTE), "")
    balance = balances.find(counted, NOW)
    start, end = balance.window
    assert balances.find(counted, end - 0.001) is balances.find(counted, start) is balance
    assert balances.find(counted, end).window.start == end
    # One that was asked before the end comes late.
    assert balances.find(counted, end - 0.001) is balance
    assert balances.find(counted, start - 0.001).window.end == start


def test_a_kept_balance_that_was_forgotten_is_not_used_again() -> None:
    balances, counted = WindowBalances(), CountedLimit(a_limit(), "")
    first = balances.find(counted, NOW)
    balances.forget_unused(0)
    second = balances.find(counted, NOW)
    assert second is not first
    assert balances.find(CountedLimit(a_limit(), ""), NOW) is balances.find(counted, NOW) is second


def test_beyond_the_cap_only_balances_that_lose_nothing_are_forgotten() -> None:
    balances = WindowBalances()
    running = leased(balances, a_limit(id=1), 50)
    running.reserve(10)
    idle = leased(balances, a_limit(id=2), 50, used=50)
    newest = leased(balances, a_limit(id=3), 50, used=50)
    balances.due(RETURN_SECONDS, RETURN_SECONDS, MOST)
    balances.forget_unused(2)
    assert len(balances) == 2
    balances.forget_unused(2)
    assert len(balances) == 2
    balances.forget_unused(0)
    assert len(balances) == 1
    assert balances.find(CountedLimit(running.limit, ""), NOW) is running
    assert balances.find(CountedLimit(idle.limit, ""), NOW) is not idle
    assert balances.find(CountedLimit(newest.limit, ""), NOW) is not newest


def test_a_lease_that_somebody_took_away_is_asked_for_anew() -> None:
    balances = WindowBalances()
    first, second = (
        leased(balances, a_limit(id=1), 50),
        leased(balances, a_limit(id=2), 50, used=20),
    )
    assert balances.leases_held == 2
    balances.lose_all()
    assert (first.room, second.room) == (0, -20)
    assert not first.is_read
    assert not second.is_read
    assert balances.leases_held == 0


def test_balances_that_only_warn_are_surveyed_after_use_until_they_have() -> None:
    balances = WindowBalances()
    balance = balances.find(CountedLimit(a_limit(is_hard=False), ""), a_request().terms.asked_at)
    assert balances.to_survey() == []
    balance.settle(0, 10)
    assert balances.to_survey() == [balance]
    balance.surveyed = 10
    assert balances.to_survey() == []
    balance.settle(0, 10)
    balance.is_over = True
    assert balances.to_survey() == []


def test_more_that_is_due_than_is_asked_for_comes_the_next_time() -> None:
    balances = WindowBalances()
    three = [leased(balances, a_limit(id=id), 50) for id in (1, 2, 3)]
    found = [balances.due(RETURN_SECONDS, RETURN_SECONDS, 2) for _ in range(3)]
    assert found == [[(three[0], 0), (three[1], 0)], [(three[2], 0)], []]


def test_nothing_stays_of_balances_that_were_made_for_a_request_that_is_refused() -> None:
    balances = WindowBalances()
    used, empty = (balances.find(CountedLimit(a_limit(id=id), "s"), NOW) for id in (1, 2))
    amounts = (HeldAmount(used, 10), HeldAmount(empty, 10))
    balances.open(amounts)
    balances.open(amounts)
    balances.close(amounts)
    # Another one waits for the same.
    for balance in (used, empty):
        assert balances.find(CountedLimit(balance.limit, "s"), NOW) is balance
    used.settle(0, 5)
    balances.close(amounts)
    assert len(balances) == 1
    assert balances.find(CountedLimit(used.limit, "s"), NOW) is used
    assert balances.find(CountedLimit(empty.limit, "s"), NOW) is not empty


def test_a_balance_that_somebody_waits_for_is_the_one_that_is_granted() -> None:
    balances = WindowBalances()
    balance = balances.find(CountedLimit(a_limit(), ""), NOW)
    amounts = (HeldAmount(balance, 10),)
    balances.open(amounts)
    # The loop looks after its balances while a request waits for its turn.
    assert balances.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    balances.forget_unused(0)
    balance.take_grant(20, RETURN_SECONDS)
    balance.is_read = True
    balance.reserve(10)
    balances.close(amounts)
    assert balances.find(CountedLimit(a_limit(), ""), NOW) is balance
    assert balances.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == [(balance, 10)]


def test_balances_that_postgres_was_never_asked_about_are_bounded_too() -> None:
    balances = WindowBalances()
    for number in range(50):
        balance = balances.find(CountedLimit(a_limit(), f"s{number}"), NOW)
        amounts = (HeldAmount(balance, 10),)
        balances.open(amounts)
        balance.reserve(10)
        balances.close(amounts)
        balance.settle(10, 10)
    balances.forget_unused(5)
    assert len(balances) == 5
    assert balances.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == []


def test_what_is_booked_of_a_balance_that_was_forgotten_is_no_room() -> None:
    balance = a_balance()
    balance.settle(0, 10)
    # 50 were booked before it was forgotten, without a lease by now; the last 10 are not yet.
    balance.take_in(a_reading(own_spent=50))
    assert (balance.used, balance.room) == (50, 0)
    balance.take_in(a_reading(own_spent=60))
    assert (balance.used, balance.room) == (60, 0)


def test_what_is_booked_of_a_request_that_runs_is_not_counted_twice() -> None:
    balance = a_balance(is_read=True, granted=40, recorded=40)
    balance.reserve(40)
    balance.take_in(a_reading(own_granted=40, own_spent=35))
    balance.settle(40, 35)
    assert (balance.used, balance.room) == (35, 5)


def test_a_lease_that_was_swept_is_not_written_again_for_nothing() -> None:
    balances = WindowBalances()
    balance = leased(balances, a_limit(), 50, used=50)
    balance.take_in(a_reading(own_granted=0, own_spent=50))
    assert (balance.room, balance.is_square) == (0, True)
    assert balances.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == []
