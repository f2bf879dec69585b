"""Messages are numbered upwards, say what may get lost three times, and never outgrow a limit."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.signals.speaker_scene import Scene, prompt

from penstock.records.signal import EngineClaim, LoadClaim, Signal
from penstock.signals.identity import keeper_identity, worker_identity
from penstock.testing import ManualClock


def load(number: int) -> LoadClaim:
    return LoadClaim(f"replica-{number:036d}", 10**6, 10**5, 1.5, 0.5, 9, 4, 10**6)


def test_each_prompt_is_in_three_messages_the_newest_first() -> None:
    scene = Scene()
    said = [scene.say([prompt(number)]) for number in range(4)]
    last = [batch.sent[0].session for batch in said[-1].batches]
    assert last == [3, 2, 1]
    assert [batch.number for batch in said[-1].batches] == [s.number for s in said[:0:-1]]
    assert scene.counts.trimmed == 0


def test_a_quiet_turn_repeats_and_adds_nothing() -> None:
    scene = Scene()
    scene.say([prompt(1)])
    assert len(scene.say([]).batches) == 1
    assert len(scene.say([]).batches) == 1
    assert scene.say([]).batches == []


def test_nothing_is_repeated_once_three_messages_have_surely_arrived() -> None:
    scene = Scene()
    told = []
    for number in range(6):
        told.append(_sessions(scene.say([prompt(number)])))
        scene.speaker.note_arrival(is_sure=True)
    assert told == [[0], [1, 0], [2, 1, 0], [3], [4], [5]]


def test_after_a_message_that_some_may_lack_it_is_said_twice_more() -> None:
    scene = Scene()
    for number in range(4):
        scene.say([prompt(number)])
        scene.speaker.note_arrival(is_sure=True)
    assert _sessions(scene.say([prompt(4)])) == [4]
    scene.speaker.note_arrival(is_sure=False)
    told = []
    for number in range(5, 9):
        told.append(_sessions(scene.say([prompt(number)])))
        scene.speaker.note_arrival(is_sure=True)
    # Also those before it: whoever was away may have missed them, too.
    assert told == [[5, 4, 3], [6, 5, 4], [7, 6, 5], [8]]


def test_while_nothing_is_sure_everything_is_said_three_times() -> None:
    scene = Scene()
    told = []
    for number in range(6):
        told.append(_sessions(scene.say([prompt(number)])))
        scene.speaker.note_arrival(is_sure=False)
    assert told[2:] == [[2, 1, 0], [3, 2, 1], [4, 3, 2], [5, 4, 3]]


def _sessions(signal: Signal) -> list[int]:
    return [each.session for batch in signal.batches for each in batch.sent]


def test_numbers_grow_within_a_nanosecond_and_across_a_restart() -> None:
    clock = ManualClock()
    before = [Scene(clock).say([]).number for _ in range(1)]
    scene = Scene(clock)
    before += [scene.say([]).number for _ in range(3)]
    assert before[1:] == sorted(set(before[1:]))
    clock.advance(0.2)
    assert Scene(clock).say([]).number > max(before)


def test_the_last_message_says_so_and_repeats_what_was_sent() -> None:
    scene = Scene()
    scene.say([prompt(1)])
    last = scene.open(scene.speaker.say_last())
    assert last.is_last
    assert last.batches[0].sent == [prompt(1)]
    assert last.loads == []


@given(
    st.lists(st.integers(0, 400), max_size=40),
    st.integers(0, 200),
    st.integers(1, 3),
)
def test_no_message_is_too_long_and_what_is_left_out_is_counted(
    links: list[int], loads: int, turns: int
) -> None:
    scene = Scene()
    for _ in range(turns):
        signal = scene.say(
            [prompt(i, n) for i, n in enumerate(links)], [load(i) for i in range(loads)]
        )
        kept = sum(len(batch.sent) for batch in signal.batches)
        if not scene.counts.trimmed:
            assert kept >= len(links)
            assert len(signal.loads) == loads


def test_repeats_go_first_then_older_prompts_then_claims() -> None:
    scene = Scene()
    scene.say([prompt(1, 200)])
    second = scene.say([prompt(2, 200)], [load(1)])
    assert [batch.sent[0].session for batch in second.batches] == [2]
    third = scene.say([prompt(3, 200), prompt(4, 200)], [load(1)])
    assert [each.session for batch in third.batches for each in batch.sent] == [4]
    assert third.loads == [load(1)]
    assert scene.counts.trimmed == 2


def test_of_one_very_long_prompt_the_beginning_is_said() -> None:
    scene = Scene()
    (said,) = scene.say([prompt(1, 1000)]).batches[0].sent
    assert 100 < len(said.links) < 1000
    assert said.links == prompt(1, 1000).links[: len(said.links)]
    assert len(said.tokens) == len(said.links)


def test_a_keeper_with_too_many_engines_says_some() -> None:
    scene = Scene()
    engines = [EngineClaim(f"replica-{i:036d}", is_healthy=True) for i in range(200)]
    signal = scene.open(scene.speaker.say_engines(engines))
    assert 10 < len(signal.engines) < 200
    assert scene.counts.trimmed == 1


def test_a_keeper_is_the_same_sender_after_a_restart_and_no_two_are_alike() -> None:
    assert keeper_identity("a") == keeper_identity("a")
    assert keeper_identity("a").sender != keeper_identity("b").sender


def test_workers_without_a_table_are_hosts_of_their_own() -> None:
    one, other = worker_identity(None), worker_identity(None)
    assert one.host != other.host
    assert one.sender != other.sender
