"""What a worker holds, gives back and forgets."""

import msgspec
import pytest
from tests.unit.admission.limit_samples import NOW, a_limit, a_pot, a_request

from penstock.admission.hold import NO_HOLD, Claims, Hold
from penstock.admission.limit_table import LimitRow, LimitTable
from penstock.admission.pot import Pot
from penstock.admission.pots import Pots
from penstock.records.limit import Limit, Measure

RETURN_SECONDS = 1.5


def leased(pots: Pots, limit: Limit, granted: int, used: int = 0) -> Pot:
    """A pot that was asked for at 0 s and given a grant."""
    pot = pots.find((limit, ""), NOW)
    pots.open(((pot, 0),))
    pot.is_read = True
    pot.used = used
    pot.take_grant(granted, 0.0)
    return pot


def test_a_hold_frees_what_it_reserved_and_books_what_was_used() -> None:
    tokens, money = a_pot(granted=50), a_pot(a_limit(id=2, measure=Measure.NANOUSD), granted=900)
    requests = a_pot(a_limit(id=3, measure=Measure.REQUESTS), granted=2)
    claims: Claims = ((tokens, 40), (money, 800), (requests, 1))
    for pot, amount in claims:
        pot.reserve(amount)
    hold = Hold(claims)
    assert hold.limits == (1, 2, 3)
    assert tokens.room == 10
    hold.settle(requests=1, tokens=7, nanousd=300)
    assert [pot.room for pot, _ in claims] == [43, 600, 1]
    assert [pot.used for pot, _ in claims] == [7, 300, 1]
    with pytest.raises(AssertionError):
        hold.settle(requests=0, tokens=0, nanousd=0)


def test_a_hold_shows_where_hard_limits_stand_and_which_soft_ones_are_passed() -> None:
    hard = a_pot(granted=20, elsewhere=30)
    calm, passed = a_pot(a_limit(id=2, is_hard=False)), a_pot(a_limit(id=3, is_hard=False))
    passed.is_over = True
    hold = Hold(((hard, 5), (calm, 5), (passed, 5)))
    assert [(each.limit.id, each.left) for each in hold.standings] == [(1, 50)]
    assert hold.standings[0].resets_at == hard.window.end
    assert [(each.limit.id, each.left) for each in hold.warnings] == [(3, 0)]


def test_the_shared_hold_of_those_without_limits_may_be_settled_by_all() -> None:
    for _ in range(2):
        NO_HOLD.settle(requests=1, tokens=1, nanousd=1)
    assert [NO_HOLD.limits, NO_HOLD.standings, NO_HOLD.warnings] == [(), (), ()]


def test_what_nobody_needed_for_a_while_is_given_back() -> None:
    pots = Pots()
    pot = leased(pots, a_limit(), 50, used=10)
    pot.reserve(15)
    pot.settle(15, 5)
    assert pots.due(RETURN_SECONDS - 0.1, RETURN_SECONDS) == []
    # 35 is free now, but 25 is the least that was at any time.
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS) == [(pot, 25)]
    assert pot.room == 10
    pot.recorded = 25
    assert pots.due(2 * RETURN_SECONDS, RETURN_SECONDS) == [(pot, 15)]
    assert pot.room == 0


def test_what_is_reserved_is_never_given_back() -> None:
    pots = Pots()
    pot = leased(pots, a_limit(), 50)
    pot.reserve(50)
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS) == []
    pot.settle(50, 20)
    assert pots.due(2 * RETURN_SECONDS, RETURN_SECONDS) == []
    assert pots.due(3 * RETURN_SECONDS, RETURN_SECONDS) == [(pot, 20)]


def test_what_could_not_be_written_is_written_the_next_time() -> None:
    pots = Pots()
    pot = leased(pots, a_limit(), 50)
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS) == [(pot, 0)]
    assert pots.due(2 * RETURN_SECONDS, RETURN_SECONDS) == [(pot, 0)]
    pot.recorded = 0
    assert pots.due(3 * RETURN_SECONDS, RETURN_SECONDS) == []


def test_what_was_used_beyond_the_grant_is_told() -> None:
    pots = Pots()
    pot = leased(pots, a_limit(), 50, used=70)
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS) == [(pot, 70)]


def test_a_pot_that_postgres_was_never_asked_about_writes_nothing() -> None:
    pots = Pots()
    pot = pots.find((a_limit(), ""), NOW)
    pots.open(((pot, 10),))
    pot.reserve(10)
    assert pots.due(RETURN_SECONDS, RETURN_SECONDS) == []
    pot.settle(10, 10)
    assert pots.due(2 * RETURN_SECONDS, RETURN_SECONDS) == []
    # What it used will be booked by the drain; the pot itself is still known.
    assert pots.find((a_limit(), ""), NOW) is pot


def test_a_changed_limit_gives_back_its_room_at_once() -> None:
    pots, table = Pots(), LimitTable()
    pot, soft = leased(pots, a_limit(), 50), pots.find((a_limit(id=2, is_hard=False), ""), NOW)
    gone, same = leased(pots, a_limit(id=3), 5), leased(pots, a_limit(id=4), 5)
    soft.is_over, pot.elsewhere = True, 50
    pots.open(((soft, 0),))
    smaller = msgspec.structs.replace(a_limit(), amount=60)
    louder = msgspec.structs.replace(soft.limit, amount=500)
    table.apply(LimitRow(each, is_removed=False) for each in (smaller, louder, same.limit))
    pots.limits_changed(table)
    assert pots.due(0.1, RETURN_SECONDS) == [(pot, 0)]
    assert (pot.limit, pot.elsewhere) == (smaller, 10)
    assert (soft.limit, soft.is_over) == (louder, False)
    assert pots.ended(NOW, table) == [gone]


def test_pots_of_ended_windows_go_once_nothing_runs_in_them() -> None:
    pots, table = Pots(), LimitTable()
    table.apply([LimitRow(a_limit(), is_removed=False)])
    pot = leased(pots, a_limit(), 50)
    pot.reserve(10)
    assert pots.ended(pot.window.end, table) == []
    pot.release(10)
    assert pots.ended(pot.window.end - 1, table) == []
    assert pots.ended(pot.window.end, table) == [pot]
    pots.forget([pot])
    assert len(pots) == 0
    assert pots.due(100, RETURN_SECONDS) == []


def test_beyond_the_cap_only_pots_that_lose_nothing_are_forgotten() -> None:
    pots = Pots()
    running = leased(pots, a_limit(id=1), 50)
    running.reserve(10)
    idle = leased(pots, a_limit(id=2), 50, used=50)
    newest = leased(pots, a_limit(id=3), 50, used=50)
    pots.due(RETURN_SECONDS, RETURN_SECONDS)
    pots.forget_unused(2)
    assert len(pots) == 2
    pots.forget_unused(2)
    assert len(pots) == 2
    pots.forget_unused(0)
    assert len(pots) == 1
    assert pots.find((running.limit, ""), NOW) is running
    assert pots.find((idle.limit, ""), NOW) is not idle
    assert pots.find((newest.limit, ""), NOW) is not newest


def test_a_lease_that_somebody_took_away_is_asked_for_anew() -> None:
    pots = Pots()
    kept, lost = leased(pots, a_limit(id=1), 50), leased(pots, a_limit(id=2), 50, used=20)
    assert pots.leases_held == 2
    pots.lose_all_but({kept.key})
    assert (kept.room, lost.room) == (50, -20)
    assert not lost.is_read
    assert pots.leases_held == 1


def test_pots_that_only_warn_are_surveyed_after_use_until_they_have() -> None:
    pots = Pots()
    pot = pots.find((a_limit(is_hard=False), ""), a_request().asked_at)
    assert pots.to_survey() == []
    pot.settle(0, 10)
    assert pots.to_survey() == [pot]
    pot.surveyed = 10
    assert pots.to_survey() == []
    pot.settle(0, 10)
    pot.is_over = True
    assert pots.to_survey() == []
