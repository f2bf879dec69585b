"""Reads `usage` as engines write it, strictly enough that no invalid count is added up."""

import re
from typing import Final

import msgspec

from penstock.records.request import Api
from penstock.records.usage import Usage
from penstock.wire.usage_shapes import (
    CountedAnswer,
    CountedChunk,
    CountedMessage,
    CountedMessagesUsage,
    CountedResponse,
    CountedResponsesUsage,
    DeltaEvent,
    Details,
    MessageStart,
    ResponseEvent,
    WireUsage,
)

_TOKEN_COUNT: Final = re.compile(rb'\{\s*"(?:input_tokens|count)"\s*:\s*([1-9]\d{0,9})\b')
_usage_decoder: Final = msgspec.json.Decoder(WireUsage)
_answer_decoder: Final = msgspec.json.Decoder(CountedAnswer)
_chunk_decoder: Final = msgspec.json.Decoder(CountedChunk)
_message_usage_decoder: Final = msgspec.json.Decoder(CountedMessagesUsage)
_message_decoder: Final = msgspec.json.Decoder(CountedMessage)
_response_decoder: Final = msgspec.json.Decoder(CountedResponse)
_response_event_decoder: Final = msgspec.json.Decoder(ResponseEvent)
_message_start_decoder: Final = msgspec.json.Decoder(MessageStart)
_delta_decoder: Final = msgspec.json.Decoder(DeltaEvent)


def usage_of_answer(api: Api, answer: bytes) -> Usage | None:
    """Return the usage in a whole answer; raise DecodeError when it is not an answer."""
    if api is Api.MESSAGES:
        message = _message_decoder.decode(answer).usage
        return None if message is None else _counts_of_message(message)
    if api is Api.RESPONSES:
        response = _response_decoder.decode(answer).usage
        return None if response is None else _counts_of_response(response)
    wire = _answer_decoder.decode(answer).usage
    return None if wire is None else counts_of(wire)


def read_chunk(data: bytes) -> CountedChunk | None:
    """Return what counts in one chunk of chat or completions; None when it is not one."""
    try:
        return _chunk_decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def read_token_count(answer: bytes) -> int | None:
    """Return the count in an answer of `count_tokens` or `tokenize`; None when it has none.

    It comes first. The tokens that follow it in `tokenize` may have been cut off.
    """
    found = _TOKEN_COUNT.match(answer)
    return None if found is None else int(found[1])


def usage_of_response_event(data: bytes) -> Usage | None:
    """Return the usage in the last event of a Responses stream; None when it has none."""
    try:
        wire = _response_event_decoder.decode(data).response.usage
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if wire is None else _counts_of_response(wire)


def usage_of_message_event(data: bytes) -> Usage | None:
    """Return the usage in a `message_delta` event of a Messages stream; None when it has none."""
    try:
        return usage_of_answer(Api.MESSAGES, data)
    except (msgspec.DecodeError, RecursionError):
        return None


def usage_of_message_start(data: bytes) -> Usage | None:
    """Return the prompt's tokens in a Messages stream's first event; None when it has none."""
    try:
        wire = _message_start_decoder.decode(data).message.usage
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if wire is None else _counts_of_message(wire)


def characters_of_delta(data: bytes) -> int:
    """Return how many characters an event of Responses or Messages adds; 0 if unreadable."""
    try:
        delta = _delta_decoder.decode(data).delta
    except (msgspec.DecodeError, RecursionError):
        return 0
    if isinstance(delta, str):
        return len(delta)
    return len(delta.text) + len(delta.thinking) + len(delta.partial_json)


def read_usage(raw: bytes) -> Usage | None:
    """Return the counts in a raw `usage` object; None when it is not one."""
    try:
        wire = _usage_decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return counts_of(wire)


def write_usage(usage: Usage) -> bytes:
    """Return the counts as the shortest `usage` object that `read_usage` reads back."""
    details = None if usage.cached_tokens is None else Details(usage.cached_tokens)
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    return msgspec.json.encode(WireUsage(prompt, completion, details, usage.is_estimated))


def counts_of(wire: WireUsage) -> Usage:
    """Convert to the `Usage` record that all other rooms use."""
    details, is_estimated = wire.prompt_tokens_details, wire.is_estimated
    return _counts(wire.prompt_tokens, wire.completion_tokens, details, is_estimated=is_estimated)


def _counts(
    prompt: int, completion: int, details: Details | None, *, is_estimated: bool = False
) -> Usage:
    cached = None if details is None else details.cached_tokens
    if cached is not None and cached > prompt:
        # Cached tokens are a part of the prompt, and never more than all of it.
        cached = prompt
    return Usage(prompt, completion, cached, is_estimated=is_estimated)


def _counts_of_response(wire: CountedResponsesUsage) -> Usage:
    return _counts(wire.input_tokens, wire.output_tokens, wire.input_tokens_details)


def _counts_of_message(wire: CountedMessagesUsage) -> Usage:
    cached = wire.cache_read_input_tokens
    prompt = wire.input_tokens + (wire.cache_creation_input_tokens or 0) + (cached or 0)
    return Usage(prompt, wire.output_tokens, cached)
