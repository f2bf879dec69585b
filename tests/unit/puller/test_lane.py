"""One replica's jobs: which may be handed back, what is warm there, and when it is asked again."""

import pytest
from tests.unit.puller.pulled_samples import a_job

from penstock.puller.headroom import HeadroomObservation, Room
from penstock.puller.lane import Lane
from penstock.puller.settings import PullerSettings
from penstock.queue import FlexControl
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.records.signal import EngineClaim, LoadClaim
from penstock.routing import RoutingSettings
from penstock.routing.knowledge import Knowledge
from penstock.routing.known_replica import KnownReplica

_REPLICA = Replica(ReplicaId("r"), ModelId("m"), "http://r", ReplicaState.READY, "m", slots_live=16)
_SECONDS_PER_TOKEN = 0.01


class Recording:
    """Takes the controller's place and keeps what it was shown."""

    allowed = 1.0

    def __init__(self) -> None:
        self.seen: list[HeadroomObservation] = []

    def look(self, seen: HeadroomObservation, now: float) -> Room:
        del now
        self.seen.append(seen)
        return Room()


@pytest.fixture
def lane() -> Lane:
    return Lane(_REPLICA, PullerSettings(openings_max=3, poll_seconds=0.1, poll_seconds_max=0.4))


@pytest.fixture
def known() -> KnownReplica:
    return Knowledge(RoutingSettings(prefill_rate=100.0)).replica(_REPLICA)


def observe(
    lane: Lane,
    known: KnownReplica,
    now: float,
    claim: EngineClaim | None = None,
    control: FlexControl | None = None,
) -> HeadroomObservation:
    recording = Recording()
    lane.headroom = recording  # type: ignore[assignment]
    lane.look(known, claim or EngineClaim("r", is_healthy=True), control, now)
    return recording.seen[0]


def test_a_job_is_unbegun_until_its_prompt_and_those_before_it_can_have_been_read(
    lane: Lane, known: KnownReplica
) -> None:
    first, second = a_job(tokens=100), a_job(tokens=50)
    lane.add(first, _SECONDS_PER_TOKEN, now=10.0)
    lane.add(second, _SECONDS_PER_TOKEN, now=10.0)
    assert lane.unbegun(10.5) == [second, first], "the newest first"
    assert lane.unbegun(11.2) == [second]
    assert lane.unbegun(11.6) == []
    seen = observe(lane, known, 11.2)
    assert (seen.flex, seen.flex_unbegun, seen.flex_unread_tokens) == (2, 1, 50)


def test_a_job_of_the_reserved_share_is_never_handed_back(lane: Lane) -> None:
    lane.add(a_job(is_reserved=True), _SECONDS_PER_TOKEN, now=0.0)
    assert lane.unbegun(0.0) == []


def test_the_openings_that_were_read_last_are_warm(lane: Lane) -> None:
    for opening in (1, 2, 3, 1, 4, 0):
        lane.add(a_job(opening=opening), _SECONDS_PER_TOKEN, now=0.0)
    assert lane.warm == (3, 1, 4)


def test_what_gateways_say_and_what_only_the_engine_says_is_wanted_now(
    lane: Lane, known: KnownReplica
) -> None:
    known.claims.hear(7, LoadClaim("r", 500, 200, 1.0, 1.0, 3, 1, 900), 10_000, 20.0)
    lane.add(a_job(), _SECONDS_PER_TOKEN, now=0.0)
    claim = EngineClaim("r", is_healthy=True, running=5, waiting=1, kv_use=0.4)
    seen = observe(lane, known, 20.5, claim, FlexControl(in_flight_max=4))
    assert seen.live == 5, "three are told, two more are seen by the engine alone"
    assert seen.live_unread_tokens == 500
    assert seen.live_head_seconds == pytest.approx(1.5)
    assert seen.live_head_expected_seconds == pytest.approx(2.0)
    assert (seen.waiting, seen.kv_use, seen.in_flight_max) == (1, 0.4, 4)


def test_jobs_that_ended_since_the_engine_spoke_are_not_taken_for_live_ones(
    lane: Lane, known: KnownReplica
) -> None:
    jobs = [a_job() for _ in range(4)]
    for job in jobs:
        lane.add(job, _SECONDS_PER_TOKEN, now=0.0)
    claim = EngineClaim("r", is_healthy=True, running=4)
    assert observe(lane, known, 5.0, claim).live == 0
    for job in jobs:
        lane.remove(job)
    assert observe(lane, known, 5.4, claim).live == 0
    assert observe(lane, known, 7.0, claim).live == 0
    assert observe(lane, known, 9.0, claim).live == 4, "they run on, so they are not ours"


def test_an_empty_queue_is_asked_less_and_less_often(lane: Lane) -> None:
    now, pauses = 0.0, []
    for _ in range(4):
        lane.note_claim(is_enough=False, now=now)
        after = now
        while not lane.may_claim(after):
            after += 0.01
        pauses.append(after - now)
        now = after
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.4], abs=0.02)
    lane.note_claim(is_enough=True, now=now)
    lane.note_claim(is_enough=False, now=now)
    assert lane.may_claim(now + 0.11)


def test_a_replica_that_fails_rests_longer_each_time_and_is_forgiven_when_it_serves(
    lane: Lane,
) -> None:
    lane.note_failure(0.0)
    assert not lane.may_claim(0.9)
    assert lane.may_claim(1.0)
    lane.note_failure(1.0)
    assert not lane.may_claim(2.9)
    lane.note_served()
    lane.note_failure(10.0)
    assert lane.may_claim(11.0)
