"""The framing of answers by itself: the states of an answer, and what is handed on in each."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.answer_framing import AnswerFraming, FramingState, Receiver
from penstock.errors import EngineFailed

OK = b"HTTP/1.1 200 OK\r\n"
SIZED = OK + b"content-length: 4\r\n\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
TOKEN = b"10\r\n0123456789abcdef\r\n"


class Told(Receiver):
    """Keeps what it is told; stops the framing at a body, if the test wants that."""

    def __init__(self, framing: AnswerFraming, *, stops_at: bytes = b"") -> None:
        self._framing = framing
        self._stops_at = stops_at
        self.status = 0
        self.body = b""

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status

    def on_body(self, data: bytes) -> None:
        self.body += data
        if self._stops_at and self._stops_at in self.body:
            self._framing.stop()


def begun(*, stops_at: bytes = b"") -> tuple[AnswerFraming, Told]:
    framing = AnswerFraming(1024)
    told = Told(framing, stops_at=stops_at)
    framing.begin(told)
    return framing, told


@pytest.mark.parametrize(
    ("reads", "state"),
    [
        ([b"HTTP/1.1 2"], FramingState.HEAD),
        ([b"HTTP/1.1 100 Continue\r\n\r\n"], FramingState.HEAD),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", SIZED], FramingState.SIZED),
        ([SIZED, b"abc"], FramingState.SIZED),
        ([SIZED, b"abcd"], FramingState.COMPLETE),
        ([SIZED + b"abcd"], FramingState.COMPLETE),
        ([OK + b"\r\nabc"], FramingState.UNTIL_CLOSE),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], FramingState.COMPLETE),
        ([CHUNKED], FramingState.CHUNK_START),
        ([CHUNKED, TOKEN], FramingState.CHUNK_START),
        ([CHUNKED, TOKEN + b"5"], FramingState.CHUNK),
        ([CHUNKED, TOKEN[:-1]], FramingState.CHUNK),
        ([CHUNKED, TOKEN[:-2], TOKEN[-2:]], FramingState.CHUNK_START),
        ([CHUNKED, b"0\r\n"], FramingState.CHUNK),
        ([CHUNKED, b"0\r\nx-sum: 1\r\n"], FramingState.CHUNK),
        ([CHUNKED, b"0\r\nx-sum: 1\r\n", b"\r\n"], FramingState.COMPLETE),
        ([CHUNKED + TOKEN + b"0\r\n\r\n"], FramingState.COMPLETE),
    ],
)
def test_each_part_of_an_answer_has_its_state(reads: list[bytes], state: FramingState) -> None:
    framing, _ = begun()
    for read in reads:
        framing.feed(read)
    assert framing._state is state
    assert framing.is_complete is (state is FramingState.COMPLETE)
    assert framing.ends_by_close is (state is FramingState.UNTIL_CLOSE)
    assert framing.has_begun


@pytest.mark.parametrize("behind", [b"junk", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"])
def test_what_comes_behind_an_answer_spoils_the_connection_not_the_answer(behind: bytes) -> None:
    framing, told = begun()
    framing.feed(SIZED + b"abcd" + behind)
    assert framing.is_complete
    assert not framing.is_reusable
    assert (told.status, told.body) == (200, b"abcd")


@pytest.mark.parametrize("wrong", [b"junk\r\n\r\n", CHUNKED + b"zz\r\n"])
def test_what_is_not_http_is_the_engines_failure(wrong: bytes) -> None:
    framing, _ = begun()
    with pytest.raises(EngineFailed):
        framing.feed(wrong)


answers = st.sampled_from([
    SIZED + b"abcd", CHUNKED + TOKEN * 3 + b"0\r\n\r\n", OK + b"\r\nuntil the end",
    CHUNKED + TOKEN + b"5;a=b\r\nhello\r\n" + TOKEN + b"0\r\nx-sum: 1\r\n\r\n",
])  # fmt: skip


@given(answers, st.lists(st.integers(0, 300), max_size=20))
def test_an_answer_is_read_alike_however_it_is_cut(answer: bytes, cuts: list[int]) -> None:
    whole, told_whole = begun()
    whole.feed(answer)
    framing, told = begun()
    places = sorted({0, len(answer), *(cut % len(answer) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        framing.feed(answer[start:end])
    assert (framing._state, told.status, told.body) == (whole._state, 200, told_whole.body)


@pytest.mark.parametrize("rest", [TOKEN * 3 + b"0\r\n\r\n", b"5;a=b\r\nhello\r\n" * 2, b"zz\r\n"])
@pytest.mark.parametrize("is_one_read", [False, True])
def test_nothing_is_handed_on_after_a_stop(rest: bytes, is_one_read: bool) -> None:
    framing, told = begun(stops_at=b"stop")
    first = CHUNKED + b"4\r\nstop\r\n"
    for read in [first + rest] if is_one_read else [CHUNKED, first[len(CHUNKED) :] + rest, rest]:
        framing.feed(read)
    assert told.body == b"stop"
    assert not framing.is_complete


def test_a_complete_answer_does_not_hold_its_receiver() -> None:
    framing, _ = begun()
    framing.feed(SIZED + b"abcd")
    assert framing._receiver is None
