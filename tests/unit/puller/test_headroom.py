"""The controller's promises: never too much, cut at once, grown back, and old jobs always move."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.puller.headroom import Headroom, HeadroomObservation, slots_of
from penstock.puller.settings import PullerSettings

_SETTINGS = PullerSettings()
_LOOK = 0.05


@st.composite
def observations(draw: st.DrawFn) -> HeadroomObservation:
    slots = draw(st.integers(1, 64))
    flex = draw(st.integers(0, slots))
    unbegun = draw(st.integers(0, flex))
    return HeadroomObservation(
        slots=slots,
        live=draw(st.integers(0, 100)),
        live_unread_tokens=draw(st.sampled_from([0, 0, 0, 900])),
        live_head_seconds=draw(st.floats(0, 10)),
        live_head_expected_seconds=draw(st.floats(0, 3)),
        flex=flex,
        flex_unbegun=unbegun,
        flex_unread_tokens=unbegun * 100,
        flex_reserved=draw(st.integers(0, min(flex, slots_of(_SETTINGS.reserved_share, slots)))),
        mean_tokens=draw(st.floats(1, 5000)),
        prefill_rate=draw(st.floats(10, 50_000)),
        waiting=draw(st.integers(0, 5)),
        kv_use=draw(st.floats(0, 1)),
        is_paused=draw(st.booleans()),
        in_flight_max=draw(st.none() | st.integers(0, 70)),
    )


def _grown(
    settings: PullerSettings = _SETTINGS, slots: int = 64, seconds: float = 20.0
) -> Headroom:
    """A controller that has seen an idle replica for long."""
    headroom = Headroom(settings)
    headroom.look(HeadroomObservation(slots=slots), 0.0)
    headroom.look(HeadroomObservation(slots=slots), seconds)
    return headroom


def _fill(headroom: Headroom, slots: int, seconds: float, live: int = 0) -> list[int]:
    """Jobs in flight at each look, when all that is allowed is started and nothing ends."""
    flex, seen = 0, []
    for look in range(int(seconds / _LOOK)):
        flex += headroom.look(
            HeadroomObservation(slots=slots, live=live, flex=flex), look * _LOOK
        ).start
        seen.append(flex)
    return seen


@given(st.lists(observations(), min_size=1, max_size=30))
def test_it_never_asks_for_less_than_nothing_or_for_more_than_there_is(
    looks: list[HeadroomObservation],
) -> None:
    headroom = Headroom(_SETTINGS)
    for at, seen in enumerate(looks):
        room = headroom.look(seen, at * _LOOK)
        assert room.start >= 0
        assert room.start_aged >= 0
        assert 0 <= room.give_back <= seen.flex_unbegun
        assert seen.flex + room.start + room.start_aged <= seen.slots
        if room.start:
            free = slots_of(_SETTINGS.slots_free_share, seen.slots)
            assert seen.flex + seen.live + room.start <= seen.slots - free
            assert not seen.live_unread_tokens
        if seen.in_flight_max is not None:
            assert seen.flex + room.start + room.start_aged <= max(seen.flex, seen.in_flight_max)
        if seen.is_paused:
            assert (room.start, room.start_aged) == (0, 0)


@given(observations(), st.integers(1, 20))
def test_more_load_never_means_more_jobs(seen: HeadroomObservation, more: int) -> None:
    base = _grown().look(seen, 21.0)
    loaded = msgspec.structs.replace
    for heavier in (
        loaded(seen, live=seen.live + more),
        loaded(seen, live_unread_tokens=seen.live_unread_tokens + more),
        loaded(seen, waiting=seen.waiting + more),
        loaded(seen, kv_use=min(1.0, seen.kv_use + more / 20)),
        loaded(seen, live_head_seconds=seen.live_head_seconds + more),
    ):
        assert _grown().look(heavier, 21.0).start <= base.start


def test_an_idle_engine_is_full_within_a_few_seconds_but_for_the_free_slots() -> None:
    seen = _fill(Headroom(_SETTINGS), 256, 4.0)
    assert seen[-1] == 256 - 16
    assert seen[int(0.5 / _LOOK)] < 128, "it grows, it does not jump"


def test_beside_a_steady_live_load_it_fills_what_is_left() -> None:
    assert _fill(Headroom(_SETTINGS), 16, 6.0, live=4)[-1] == 16 - 4 - 1


def test_while_a_live_prompt_is_read_nothing_starts_and_nothing_is_forgotten() -> None:
    headroom = _grown(slots=16)
    reading = HeadroomObservation(slots=16, live=1, live_unread_tokens=1500, flex=4)
    assert headroom.look(reading, 21.0).start == 0
    assert headroom.allowed == 16
    done = HeadroomObservation(slots=16, live=1, flex=4, mean_tokens=100)
    assert headroom.look(done, 21.1).start == 10


@pytest.mark.parametrize(
    "crowded",
    [
        HeadroomObservation(slots=16, flex=12, waiting=1),
        HeadroomObservation(slots=16, flex=12, kv_use=0.95),
        HeadroomObservation(
            slots=16, flex=12, live=1, live_unread_tokens=100,
            live_head_seconds=3.0, live_head_expected_seconds=1.0,
        ),
    ],
)  # fmt: skip
def test_it_cuts_at_once_and_grows_back(crowded: HeadroomObservation) -> None:
    headroom = _grown(slots=16)
    assert headroom.look(crowded, 21.0).start == 0
    assert headroom.allowed == 6
    headroom.look(crowded, 21.1)
    assert headroom.allowed == 6, "the cut has had no time to show"
    headroom.look(crowded, 21.6)
    assert headroom.allowed == 3
    assert headroom.look(HeadroomObservation(slots=16, flex=2), 21.7).start >= 1
    headroom.look(HeadroomObservation(slots=16, flex=3), 24.0)
    assert headroom.allowed == 16


def test_a_crowd_of_its_own_jobs_that_were_just_sent_is_no_crowd() -> None:
    headroom = _grown(slots=16)
    headroom.look(HeadroomObservation(slots=16, flex=3, flex_unbegun=3, waiting=3), 21.0)
    assert headroom.allowed == 16


def test_jobs_that_have_not_begun_are_handed_back_when_slots_run_short() -> None:
    headroom = _grown(slots=16)
    burst = HeadroomObservation(slots=16, live=4, live_unread_tokens=400, flex=15, flex_unbegun=2)
    assert headroom.look(burst, 21.0).give_back == 2
    later = HeadroomObservation(slots=16, live=4, live_unread_tokens=400, flex=12, flex_unbegun=9)
    assert headroom.look(later, 21.0).give_back == 1, "only as many as keep one slot free"


def test_old_jobs_have_their_share_of_a_replica_that_is_full_of_live_requests() -> None:
    headroom = _grown(slots=64)
    full = HeadroomObservation(slots=64, live=64, live_unread_tokens=9000, waiting=5)
    assert headroom.look(full, 21.0).start_aged == 2
    taken = msgspec.structs.replace(full, flex=2, flex_reserved=2)
    assert headroom.look(taken, 21.1).start_aged == 0
    assert headroom.look(taken, 21.2).give_back == 0


def test_an_operators_limit_and_pause_hold_for_old_jobs_too() -> None:
    headroom = _grown(slots=64)
    assert headroom.look(HeadroomObservation(slots=64, in_flight_max=3), 21.0).start == 3
    none = headroom.look(HeadroomObservation(slots=64, live=64, in_flight_max=0), 21.0)
    assert (none.start, none.start_aged) == (0, 0)
    paused = HeadroomObservation(slots=64, flex=5, flex_unbegun=2, is_paused=True)
    assert headroom.look(paused, 21.0).give_back == 2


def test_prompts_are_sent_one_after_the_other_where_live_requests_come() -> None:
    headroom = _grown(slots=64)
    slow = HeadroomObservation(slots=64, live=1, mean_tokens=1000, prefill_rate=1000)
    assert headroom.look(slow, 21.0).start == 1
    unread = msgspec.structs.replace(slow, flex=1, flex_unbegun=1, flex_unread_tokens=1000)
    assert headroom.look(unread, 21.1).start == 0
    quiet = HeadroomObservation(slots=64, mean_tokens=1000, prefill_rate=1000)
    assert headroom.look(quiet, 40.0).start == 2
