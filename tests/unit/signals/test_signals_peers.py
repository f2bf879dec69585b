"""Each prompt is heard once, old messages never, and silence is told from an end."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.records.signal import EngineClaim, PeerState, SentPrompt, Signal, SignalBatch
from penstock.signals.counts import Drop
from penstock.signals.peers import Peers
from penstock.signals.settings import SignalsSettings

OWN = 7
WALL = 1_800_000_000.0
FIRST = int(WALL * 1e9)


def peers(**settings: float) -> Peers:
    return Peers(OWN, SignalsSettings(**settings))  # type: ignore[arg-type]


def batch(number: int) -> SignalBatch:
    return SignalBatch(FIRST + number, [SentPrompt(number, "r", 0, [], [])])


def message(number: int, *, sender: int = 1, is_last: bool = False) -> Signal:
    """The message of this number, with its batch and the two before it."""
    batches = [batch(each) for each in range(number, max(0, number - 3), -1)]
    return Signal(sender, FIRST + number, "host", batches=batches, is_last=is_last)


def keeper(number: int, *, sender: int = 2) -> Signal:
    return Signal(sender, FIRST + number, "k", engines=[EngineClaim("r", is_healthy=True)])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=60))
def test_every_prompt_is_heard_once_unless_three_messages_in_a_row_are_lost(
    fates: list[tuple[bool, int]],
) -> None:
    listener = peers()
    heard: list[int] = []
    lost = 0
    for number, (is_lost, repeats) in enumerate(fates, 1):
        if is_lost and lost < 2:
            lost += 1
            continue
        lost = 0
        for _ in range(repeats + 1):
            new = listener.hear(message(number), now=number * 0.2, wall=WALL)
            if not isinstance(new, Drop):
                heard += [prompt.session for prompt in new]
    assert heard == list(range(1, len(heard) + 1))
    assert len(heard) >= len(fates) - lost


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_numbers_only_grow(numbers: list[int]) -> None:
    listener = peers()
    highest = 0
    for number in numbers:
        heard = listener.hear(message(number), now=1.0, wall=WALL)
        assert (heard is Drop.REPEATED) == (number <= highest)
        highest = max(highest, number)


def test_a_message_overtaken_by_the_next_costs_nothing() -> None:
    listener = peers()
    listener.hear(message(1), now=0, wall=WALL)
    late = listener.hear(message(3), now=0, wall=WALL)
    assert not isinstance(late, Drop)
    assert [prompt.session for prompt in late] == [2, 3]
    assert listener.hear(message(2), now=0, wall=WALL) is Drop.REPEATED


def test_own_messages_are_not_heard() -> None:
    listener = peers()
    assert listener.hear(message(1, sender=OWN), now=0, wall=WALL) is Drop.OWN
    assert listener.state(is_up=True) is PeerState.ALONE


def test_silence_is_told_once_and_ends_with_the_next_message() -> None:
    listener = peers(silence_seconds=1.0)
    listener.hear(message(1), now=10.0, wall=WALL)
    assert listener.fallen_silent(11.0) == []
    assert listener.state(is_up=True) is PeerState.HEARD
    assert listener.fallen_silent(11.1) == [1]
    assert listener.fallen_silent(11.2) == []
    assert listener.state(is_up=True) is PeerState.SILENT
    assert (listener.known(), listener.heard()) == (1, 0)
    listener.hear(message(2), now=12.0, wall=WALL)
    assert listener.state(is_up=True) is PeerState.HEARD


def test_a_peer_that_said_it_ends_is_not_missed() -> None:
    listener = peers()
    listener.hear(message(1), now=0, wall=WALL)
    listener.hear(message(2, is_last=True), now=0.2, wall=WALL)
    assert listener.fallen_silent(5.0) == []
    assert listener.state(is_up=True) is PeerState.ALONE
    assert listener.hear(message(1), now=5.0, wall=WALL) is Drop.REPEATED


def test_a_silent_peer_is_missed_for_a_while_only() -> None:
    listener = peers(memory_seconds=600)
    listener.hear(message(1), now=0, wall=WALL)
    listener.fallen_silent(599)
    assert listener.state(is_up=True) is PeerState.SILENT
    listener.fallen_silent(601)
    assert listener.state(is_up=True) is PeerState.ALONE


def test_a_message_of_a_forgotten_peer_cannot_be_replayed() -> None:
    listener = peers(memory_seconds=600)
    listener.hear(message(1), now=0, wall=WALL)
    listener.fallen_silent(601)
    assert listener.hear(message(1), now=601, wall=WALL + 601) is Drop.CLOCK


def test_a_number_far_ahead_cannot_silence_a_peer_for_good() -> None:
    listener = peers()
    forged = Signal(1, 2**64 - 1, "host")
    assert listener.hear(forged, now=0, wall=WALL) is Drop.CLOCK
    assert listener.hear(message(1), now=0, wall=WALL) == [SentPrompt(1, "r", 0, [], [])]


def test_a_batch_numbered_ahead_of_its_message_is_left_out() -> None:
    listener = peers()
    lie = Signal(
        1, FIRST, "host", batches=[SignalBatch(2**64 - 1, [SentPrompt(9, "r", 0, [], [])])]
    )
    assert listener.hear(lie, now=0, wall=WALL) == []
    assert listener.hear(message(1), now=0, wall=WALL) == [SentPrompt(1, "r", 0, [], [])]


def test_nobody_is_heard_while_the_transport_is_down() -> None:
    assert peers().state(is_up=False) is PeerState.SILENT


def test_a_keeper_is_no_gateway() -> None:
    listener = peers()
    listener.hear(keeper(1), now=0, wall=WALL)
    assert listener.state(is_up=True) is PeerState.ALONE
    assert (listener.known(), listener.heard()) == (0, 1)
    assert listener.fallen_silent(2.0) == [2]
    assert listener.state(is_up=True) is PeerState.ALONE


@given(st.lists(st.integers(8, 100), max_size=200))
def test_a_flood_of_senders_takes_no_place_from_those_that_are_heard(senders: list[int]) -> None:
    listener = peers(peers_max=4)
    listener.hear(message(1, sender=1), now=0, wall=WALL)
    for sender in senders:
        listener.hear(message(1, sender=sender), now=0, wall=WALL)
    assert listener.known() <= 4
    assert listener.hear(message(2, sender=1), now=0, wall=WALL) != Drop.TOO_MANY


def test_a_silent_peer_makes_room_for_a_new_one() -> None:
    listener = peers(peers_max=2)
    listener.hear(message(1, sender=1), now=0, wall=WALL)
    listener.hear(message(1, sender=2), now=1, wall=WALL)
    assert listener.hear(message(1, sender=3), now=1, wall=WALL) is Drop.TOO_MANY
    listener.fallen_silent(1.5)
    assert listener.hear(message(1, sender=3), now=1.5, wall=WALL) != Drop.TOO_MANY
    assert listener.known() == 2
