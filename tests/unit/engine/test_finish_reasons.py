"""Why a model stopped is read out of the engine's own bytes, and never out of a model's words."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.answer_stream import AnswerStream
from penstock.engine.event_stream import EventStream, Fingerprint
from penstock.engine.finish_reasons import reasons_of_answer
from penstock.engine.named_events import MessagesEvents, ResponsesEvents
from penstock.engine.output_estimate import OutputEstimate
from penstock.records.request import Api

RECORDED = Path(__file__).with_name("recorded")
FALSE = '"finish_reason":"false" "stop_reason":"false"'


def chat_stream(*, wants_usage: bool = False, choices: int = 1) -> EventStream:
    return EventStream(
        wants_usage=wants_usage,
        wants_continuous_usage=False,
        choices=choices,
        fingerprint=Fingerprint(),
        event_bytes_max=1 << 20,
        estimate=OutputEstimate(0, 0, 0),
    )


def recorded(stream: AnswerStream, name: str, choices: int = 1) -> tuple[str, ...]:
    stream.feed((RECORDED / f"{name}.sse").read_bytes())
    return stream.finish_reasons(choices)


@pytest.mark.parametrize(
    ("case", "choices", "reasons"),
    [
        ("one", 1, ("length",)),
        ("stopped", 1, ("stop",)),
        ("two", 2, ("length", "length")),
        ("tools", 1, ("tool_calls",)),
    ],
)
def test_each_choice_of_a_stream_has_its_reason(
    case: str, choices: int, reasons: tuple[str, ...]
) -> None:
    assert recorded(chat_stream(choices=choices), f"{case}.continuous", choices) == reasons


def test_a_stream_whose_caller_asks_for_usage_is_not_searched() -> None:
    assert recorded(chat_stream(wants_usage=True), "one.continuous") == ()


def test_a_stream_that_was_cut_has_no_reason() -> None:
    stream = chat_stream()
    stream.feed((RECORDED / "one.continuous.sse").read_bytes()[:600])
    assert stream.finish_reasons(1) == ()


@pytest.mark.parametrize("case", ["text", "tools"])
def test_a_stream_of_messages_has_its_reason(case: str) -> None:
    stream = MessagesEvents(1 << 20, OutputEstimate(0, 0, 0))
    assert recorded(stream, f"messages.{case}") == ("max_tokens",)


def test_a_stream_of_responses_has_none() -> None:
    assert recorded(ResponsesEvents(1 << 20, OutputEstimate(0, 0, 0)), "responses.text") == ()


def test_memory_is_bounded_where_every_chunk_has_a_reason() -> None:
    stream, event = chat_stream(), b'data: {"choices":[{"finish_reason":"stop"}]}\n\n'
    for _ in range(3000):
        stream.feed(event)
    assert stream.finish_reasons(128) == ("stop",) * 128
    assert len(stream.finish_reasons(3000)) < 1000


def test_choices_without_a_reason_are_left_out() -> None:
    reasons = ["stop", None, "length"]
    answer = {"choices": [{"message": {"content": FALSE}, "finish_reason": r} for r in reasons]}
    for separators in (None, (",", ":")):
        written = json.dumps(answer, separators=separators).encode()
        assert reasons_of_answer(Api.CHAT, [written], 3) == ("stop", "length")


def test_the_arguments_of_a_tool_are_not_taken_for_the_answers_reason() -> None:
    call: dict[str, Any] = {"type": "tool_use", "input": {"stop_reason": "false"}}
    answer = {"content": [call], "stop_reason": "tool_use", "usage": {}}
    assert reasons_of_answer(Api.MESSAGES, [json.dumps(answer).encode()], 1) == ("tool_use",)


@pytest.mark.parametrize("api", Api)
@pytest.mark.parametrize("answer", [b"", b'"finish_reason":', b'{"finish_reason":"' + b"x" * 999])
def test_what_is_no_answer_has_no_reason(api: Api, answer: bytes) -> None:
    assert reasons_of_answer(api, [answer], 2) == ()


def test_the_reason_of_one_choice_is_looked_for_at_the_end_only() -> None:
    early, late = b'{"finish_reason":"early",', b'"finish_reason":"stop"}'
    words = b'"content":"' + b"x" * 9000 + b'",'
    for pieces in (
        [early + words + late],
        [early, words, late],
        [early, words, late[:7], late[7:]],
    ):
        assert reasons_of_answer(Api.CHAT, pieces, 1) == ("stop",)
        assert reasons_of_answer(Api.CHAT, pieces, 2) == ("early", "stop")
    assert reasons_of_answer(Api.EMBEDDINGS, [early], 1) == ()
    assert reasons_of_answer(Api.CHAT, [], 1) == ()
