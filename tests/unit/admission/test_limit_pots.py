"""What a worker holds, gives back and forgets."""

import pytest
from tests.unit.admission.limit_samples import NOW, a_limit, a_pot, a_reading, a_request

from penstock.admission.counted_limit import CountedLimit
from penstock.admission.hold import NO_HOLD, HeldAmount, Hold
from penstock.admission.limit_table import LimitRow, LimitTable
from penstock.admission.window_balance import WindowBalance
from penstock.admission.window_balances import WindowBalances
from penstock.records.limit import Limit, Measure, Period

RETURN_SECONDS = 1.5
MOST = 1000


def leased(pots: WindowBalances, limit: Limit, granted: int, used: int = 0) -> WindowBalance:
    """A pot that was asked for at 0 s and given a grant."""
    pot = pots.find(CountedLimit(limit, ""), NOW)
    claims = (HeldAmount(pot, 0),)
    pots.open(claims)
    pot.is_read = True
    pot.used = used
    pot.take_grant(granted, 0.0)
    pots.close(claims)
    return pot


def test_a_hold_frees_what_it_reserved_and_books_what_was_used() -> None:
    tokens, money = a_pot(granted=50), a_pot(a_limit(id=2, measure=Measure.NANOUSD), granted=900)
    requests = a_pot(a_limit(id=3, measure=Measure.REQUESTS), granted=2)
    claims = (HeldAmount(tokens, 40), HeldAmount(money, 800), HeldAmount(requests, 1))
    for claim in claims:
        claim.pot.reserve(claim.amount)
    hold = Hold(claims)
    assert hold.limits == (1, 2, 3)
    assert tokens.room == 10
    hold.settle(requests=1, tokens=7, nanousd=300)
    assert [claim.pot.room for claim in claims] == [43, 600, 1]
    assert [claim.pot.used for claim in claims] == [7, 300, 1]
    with pytest.raises(AssertionError):
        hold.settle(requests=0, tokens=0, nanousd=0)


def test_a_hold_shows_where_hard_limits_stand_and_which_soft_ones_are_passed() -> None:
    hard = a_pot(granted=20, elsewhere=30)
    calm, passed = a_pot(a_limit(id=2, is_hard=False)), a_pot(a_limit(id=3, is_hard=False))
    passed.is_over = True
    unasked = a_pot(a_limit(id=4))
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


def test_a_busy_pot_keeps_what_it_will_soon_use_while_plenty_is_free() -> None:
    pots = WindowBalances()
    pot = leased(pots, a_limit(), 1000, used=100)
    pot.elsewhere = 50_000
    pot.reserve(20)
    pot.settle(20, 20)
    # 880 was the least room; eight times 20 of it stay.
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == [(pot, 280)]
    assert pot.room == 160
    pot.recorded = 280
    pot.reserve(20)
    pot.settle(20, 20)
    assert pots.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    assert pot.room == 140
    # Nothing was used: all of it goes back.
    assert pots.due(3 * RETURN_SECONDS, RETURN_SECONDS, MOST) == [(pot, 140)]
    assert pot.room == 0


def test_a_busy_pot_keeps_nothing_when_others_may_need_it() -> None:
    pots = WindowBalances()
    pot = leased(pots, a_limit(), 1000, used=100)
    pot.elsewhere = 50 * 8 * 20 - 1
    pot.reserve(20)
    pot.settle(20, 20)
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == [(pot, 120)]


def test_what_nobody_needed_for_a_while_is_given_back() -> None:
    pots = WindowBalances()
    pot = leased(pots, a_limit(), 50, used=10)
    pot.reserve(15)
    pot.settle(15, 5)
    assert pots.due(RETURN_SECONDS - 0.1, RETURN_SECONDS, MOST) == []
    # 35 is free now, but 25 is the least that was at any time.
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == [(pot, 25)]
    assert pot.room == 10
    pot.recorded = 25
    assert pots.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == [(pot, 15)]
    assert pot.room == 0


def test_what_is_reserved_is_never_given_back() -> None:
    pots = WindowBalances()
    pot = leased(pots, a_limit(), 50)
    pot.reserve(50)
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    pot.settle(50, 20)
    assert pots.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    assert pots.due(3 * RETURN_SECONDS, RETURN_SECONDS, MOST) == [(pot, 20)]


def test_what_could_not_be_written_is_written_the_next_time() -> None:
    pots = WindowBalances()
    pot = leased(pots, a_limit(), 50)
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == [(pot, 0)]
    assert pots.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == [(pot, 0)]
    pot.recorded = 0
    assert pots.due(3 * RETURN_SECONDS, RETURN_SECONDS, MOST) == []


def test_what_was_used_beyond_the_grant_is_told() -> None:
    pots = WindowBalances()
    pot = leased(pots, a_limit(), 50, used=70)
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == [(pot, 70)]


def test_a_pot_that_postgres_was_never_asked_about_writes_nothing() -> None:
    pots = WindowBalances()
    pot = pots.find(CountedLimit(a_limit(), ""), NOW)
    claims = (HeldAmount(pot, 10),)
    pots.open(claims)
    pot.reserve(10)
    pots.close(claims)
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    pot.settle(10, 10)
    assert pots.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    # What it used will be booked by the drain; the pot itself is still known.
    assert pots.find(CountedLimit(a_limit(), ""), NOW) is pot


def test_a_changed_limit_gives_back_its_room_at_once() -> None:
    pots, table = WindowBalances(), LimitTable()
    pot, soft = (
        leased(pots, a_limit(), 50),
        pots.find(CountedLimit(a_limit(id=2, is_hard=False), ""), NOW),
    )
    gone, same = leased(pots, a_limit(id=3), 5), leased(pots, a_limit(id=4), 5)
    soft.is_over, pot.elsewhere = True, 50
    pots.open((HeldAmount(soft, 0),))
    smaller = a_limit(amount=60)
    louder = a_limit(id=2, is_hard=False, amount=500)
    table.apply(LimitRow(each, is_removed=False) for each in (smaller, louder, same.limit))
    pots.limits_changed(table)
    assert pots.due(0.1, RETURN_SECONDS, MOST) == [(pot, 0)]
    assert (pot.limit, pot.elsewhere) == (smaller, 10)
    assert (soft.limit, soft.is_over) == (louder, False)
    pots.forget_ended(NOW, table)
    assert (len(pots), pots.find(CountedLimit(gone.limit, ""), NOW) is gone) == (3, False)


def test_pots_of_ended_windows_go_once_nothing_runs_in_them() -> None:
    pots, table = WindowBalances(), LimitTable()
    table.apply([LimitRow(a_limit(), is_removed=False)])
    pot = leased(pots, a_limit(), 50)
    claims = (HeldAmount(pot, 10),)
    pot.reserve(10)
    pots.forget_ended(pot.window.end, table)
    pot.release(10)
    pots.open(claims)
    pots.forget_ended(pot.window.end, table)
    pots.close(claims)
    pots.forget_ended(pot.window.end - 1, table)
    assert pots.find(CountedLimit(a_limit(), ""), NOW) is pot
    pots.forget_ended(pot.window.end, table)
    assert len(pots) == 0
    assert pots.due(100, RETURN_SECONDS, MOST) == []


def test_a_kept_pot_counts_for_its_window_to_the_moment() -> None:
    pots, counted = WindowBalances(), CountedLimit(a_limit(period=Period.MINUTE), "")
    pot = pots.find(counted, NOW)
    start, end = pot.window
    assert pots.find(counted, end - 0.001) is pots.find(counted, start) is pot
    assert pots.find(counted, end).window.start == end
    # One that was asked before the end comes late.
    assert pots.find(counted, end - 0.001) is pot
    assert pots.find(counted, start - 0.001).window.end == start


def test_a_kept_pot_that_was_forgotten_is_not_used_again() -> None:
    pots, counted = WindowBalances(), CountedLimit(a_limit(), "")
    first = pots.find(counted, NOW)
    pots.forget_unused(0)
    second = pots.find(counted, NOW)
    assert second is not first
    assert pots.find(CountedLimit(a_limit(), ""), NOW) is pots.find(counted, NOW) is second


def test_beyond_the_cap_only_pots_that_lose_nothing_are_forgotten() -> None:
    pots = WindowBalances()
    running = leased(pots, a_limit(id=1), 50)
    running.reserve(10)
    idle = leased(pots, a_limit(id=2), 50, used=50)
    newest = leased(pots, a_limit(id=3), 50, used=50)
    pots.due(RETURN_SECONDS, RETURN_SECONDS, MOST)
    pots.forget_unused(2)
    assert len(pots) == 2
    pots.forget_unused(2)
    assert len(pots) == 2
    pots.forget_unused(0)
    assert len(pots) == 1
    assert pots.find(CountedLimit(running.limit, ""), NOW) is running
    assert pots.find(CountedLimit(idle.limit, ""), NOW) is not idle
    assert pots.find(CountedLimit(newest.limit, ""), NOW) is not newest


def test_a_lease_that_somebody_took_away_is_asked_for_anew() -> None:
    pots = WindowBalances()
    first, second = leased(pots, a_limit(id=1), 50), leased(pots, a_limit(id=2), 50, used=20)
    assert pots.leases_held == 2
    pots.lose_all()
    assert (first.room, second.room) == (0, -20)
    assert not first.is_read
    assert not second.is_read
    assert pots.leases_held == 0


def test_pots_that_only_warn_are_surveyed_after_use_until_they_have() -> None:
    pots = WindowBalances()
    pot = pots.find(CountedLimit(a_limit(is_hard=False), ""), a_request().terms.asked_at)
    assert pots.to_survey() == []
    pot.settle(0, 10)
    assert pots.to_survey() == [pot]
    pot.surveyed = 10
    assert pots.to_survey() == []
    pot.settle(0, 10)
    pot.is_over = True
    assert pots.to_survey() == []


def test_more_that_is_due_than_is_asked_for_comes_the_next_time() -> None:
    pots = WindowBalances()
    three = [leased(pots, a_limit(id=id), 50) for id in (1, 2, 3)]
    found = [pots.due(RETURN_SECONDS, RETURN_SECONDS, 2) for _ in range(3)]
    assert found == [[(three[0], 0), (three[1], 0)], [(three[2], 0)], []]


def test_nothing_stays_of_pots_that_were_made_for_a_request_that_is_refused() -> None:
    pots = WindowBalances()
    used, empty = (pots.find(CountedLimit(a_limit(id=id), "s"), NOW) for id in (1, 2))
    claims = (HeldAmount(used, 10), HeldAmount(empty, 10))
    pots.open(claims)
    pots.open(claims)
    pots.close(claims)
    # Another one waits for the same.
    for pot in (used, empty):
        assert pots.find(CountedLimit(pot.limit, "s"), NOW) is pot
    used.settle(0, 5)
    pots.close(claims)
    assert len(pots) == 1
    assert pots.find(CountedLimit(used.limit, "s"), NOW) is used
    assert pots.find(CountedLimit(empty.limit, "s"), NOW) is not empty


def test_a_pot_that_somebody_waits_for_is_the_one_that_is_granted() -> None:
    pots = WindowBalances()
    pot = pots.find(CountedLimit(a_limit(), ""), NOW)
    claims = (HeldAmount(pot, 10),)
    pots.open(claims)
    # The loop looks after its pots while a request waits for its turn.
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == []
    pots.forget_unused(0)
    pot.take_grant(20, RETURN_SECONDS)
    pot.is_read = True
    pot.reserve(10)
    pots.close(claims)
    assert pots.find(CountedLimit(a_limit(), ""), NOW) is pot
    assert pots.due(2 * RETURN_SECONDS, RETURN_SECONDS, MOST) == [(pot, 10)]


def test_pots_that_postgres_was_never_asked_about_are_bounded_too() -> None:
    pots = WindowBalances()
    for number in range(50):
        pot = pots.find(CountedLimit(a_limit(), f"s{number}"), NOW)
        claims = (HeldAmount(pot, 10),)
        pots.open(claims)
        pot.reserve(10)
        pots.close(claims)
        pot.settle(10, 10)
    pots.forget_unused(5)
    assert len(pots) == 5
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == []


def test_what_is_booked_of_a_pot_that_was_forgotten_is_no_room() -> None:
    pot = a_pot()
    pot.settle(0, 10)
    # 50 were booked before it was forgotten, without a lease by now; the last 10 are not yet.
    pot.take_in(a_reading(own_spent=50))
    assert (pot.used, pot.room) == (50, 0)
    pot.take_in(a_reading(own_spent=60))
    assert (pot.used, pot.room) == (60, 0)


def test_what_is_booked_of_a_request_that_runs_is_not_counted_twice() -> None:
    pot = a_pot(is_read=True, granted=40, recorded=40)
    pot.reserve(40)
    pot.take_in(a_reading(own_granted=40, own_spent=35))
    pot.settle(40, 35)
    assert (pot.used, pot.room) == (35, 5)


def test_a_lease_that_was_swept_is_not_written_again_for_nothing() -> None:
    pots = WindowBalances()
    pot = leased(pots, a_limit(), 50, used=50)
    pot.take_in(a_reading(own_granted=0, own_spent=50))
    assert (pot.room, pot.is_square) == (0, True)
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS, MOST) == []
