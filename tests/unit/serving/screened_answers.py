"""Answers of engines, the relays of their APIs, and the filter behind them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.unit.engine.engine_line import make_request

from penstock.contracts.reading import read_contract
from penstock.contracts.tool_rules import tool_terms_of
from penstock.engine.answer_stream import AnswerStream
from penstock.engine.event_stream import EventStream, Fingerprint
from penstock.engine.named_events import MessagesEvents, ResponsesEvents
from penstock.engine.output_estimate import OutputEstimate
from penstock.errors import JournalFull
from penstock.records.decision import LoggedDecision
from penstock.records.decision_log import DecidedRequest, DecisionLog
from penstock.records.request import Api
from penstock.records.tool_terms import ToolTerms
from penstock.serving.tool_call_filter import ToolCallFilter
from penstock.serving.tool_call_limits import ToolCallLimits

RECORDED = Path("tests/unit/engine/recorded")
DENY_BASH = 'default = "allow"\ndeny = ["bash"]'
READ_ONLY = 'default = "deny"\nallow = ["read_*", "grep"]'
LIMITS = ToolCallLimits()


class Written(DecisionLog):
    """A log that keeps what it is told, or is full."""

    def __init__(self, *, is_full: bool = False) -> None:
        self.is_full = is_full
        self.rows: list[LoggedDecision] = []

    def write(self, decided: DecidedRequest, decisions: Sequence[LoggedDecision]) -> None:
        assert decided.id
        if self.is_full:
            raise JournalFull
        self.rows += decisions

    def said(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(str(row.verdict), row.subjects) for row in self.rows]


def terms(tools: str, top: str = "") -> ToolTerms:
    text = f'schema = 1\nname = "w"\n{top}\n[tools]\n{tools}'
    found = tool_terms_of(read_contract(text), "w@3")
    assert found is not None
    return found


def screen(
    of: ToolTerms, api: Api = Api.CHAT, log: DecisionLog | None = None, limits: Any = LIMITS
) -> ToolCallFilter:
    return ToolCallFilter(make_request(api=api), of, log or Written(), limits)


def relay(api: Api = Api.CHAT, choices: int = 1) -> AnswerStream:
    """What stands before the filter, with an engine that speaks as vLLM does."""
    estimate = OutputEstimate(10, 0, 100)
    if api is Api.RESPONSES:
        return ResponsesEvents(2**20, estimate)
    if api is Api.MESSAGES:
        return MessagesEvents(2**20, estimate)
    return EventStream(
        wants_usage=False,
        wants_continuous_usage=False,
        choices=choices,
        fingerprint=Fingerprint(),
        event_bytes_max=2**20,
        estimate=estimate,
    )


def relayed(pieces: Iterable[bytes], screened: ToolCallFilter, api: Api = Api.CHAT) -> bytes:
    """What the client gets of a stream that comes in these pieces."""
    stream, got = relay(api), b""
    for piece in pieces:
        events = stream.feed(piece)
        if events:
            got += screened.events(events)
        if screened.withheld is not None:
            break
    return got


def chunk(delta: dict[str, Any], finish: str | None = None, choice: int = 0) -> bytes:
    """An event of a chat, as vLLM writes it."""
    head = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    shown = msgspec.json.encode(
        [{"index": choice, "delta": delta, "logprobs": None, "finish_reason": finish}]
    )
    return head + shown + b"}\n\n"


def part(index: int, name: str | None = None, arguments: str | None = None) -> dict[str, Any]:
    """One entry of `tool_calls`."""
    function = {"name": name, "arguments": arguments}
    given = {key: value for key, value in function.items() if value is not None}
    start = {"id": f"call_{index}", "type": "function"} if name else {}
    return {"index": index, **start, "function": given}


def calls(*parts: dict[str, Any], choice: int = 0) -> bytes:
    return chunk({"tool_calls": list(parts)}, choice=choice)


def text(content: str, choice: int = 0) -> bytes:
    return chunk({"content": content}, choice=choice)


ROLE = chunk({"role": "assistant", "content": ""})
FINISH = chunk({}, "tool_calls")
DONE = b"data: [DONE]\n\n"
