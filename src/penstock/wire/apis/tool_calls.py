"""Reads which tools a whole answer calls, and its text, in each API."""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from penstock.records.request import Api
from penstock.wire.apis.tool_call_deltas import (
    MessageContent,
    ResponseOutput,
    name_of_block,
    name_of_item,
    texts_of_item,
)


class AnswerCalls(NamedTuple):
    """The names of the tools that an answer calls, "" for none, and its texts."""

    names: list[str]
    texts: list[str]


class _Named(msgspec.Struct):
    name: str | None = None


class _Call(msgspec.Struct):
    function: _Named | None = None
    custom: _Named | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Named | None = None


class _Choice(msgspec.Struct):
    message: _Message | None = None
    text: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] = []


_completions = msgspec.json.Decoder(_Completion)
_responses = msgspec.json.Decoder(ResponseOutput)
_messages = msgspec.json.Decoder(MessageContent)


def read_answer(api: Api, answer: bytes) -> AnswerCalls | None:
    """Return the calls and texts of a whole answer; None if it cannot be read."""
    try:
        return _READERS.get(api, _read_completion)(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _read_completion(answer: bytes) -> AnswerCalls:
    names, texts = [], []
    for choice in _completions.decode(answer).choices:
        message = choice.message or _Message()
        called = [_called(call) for call in message.tool_calls or ()]
        if message.function_call is not None:
            called.append(message.function_call)
        names += [each.name or "" for each in called]
        texts += [text for text in (message.content, message.refusal, choice.text) if text]
    return AnswerCalls(names, texts)


def _called(call: _Call) -> _Named:
    # With both, clients may take either: it has no name then.
    is_twofold = call.function is not None and call.custom is not None
    return (None if is_twofold else call.function or call.custom) or _Named()


def _read_response(answer: bytes) -> AnswerCalls:
    items = _responses.decode(answer).output
    names = [name for item in items if (name := name_of_item(item)) is not None]
    return AnswerCalls(names, [text for item in items for text in texts_of_item(item)])


def _read_message(answer: bytes) -> AnswerCalls:
    blocks = _messages.decode(answer).content
    names = [name for block in blocks if (name := name_of_block(block)) is not None]
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    return AnswerCalls(names, texts)


_READERS: Final[dict[Api, Callable[[bytes], AnswerCalls]]] = {
    Api.RESPONSES: _read_response,
    Api.MESSAGES: _read_message,
}
