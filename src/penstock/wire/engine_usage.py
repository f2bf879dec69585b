"""`usage` as engines write it, read strictly enough that no nonsense is ever added up."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.records.request import Api
from penstock.records.usage import Usage

# No answer has so many tokens. A few lies of 2**53 would be more money than a bigint holds, and
# no row of that hour could be added up any more.
_Count = Annotated[int, Meta(ge=0, le=2**31)]


class _Details(msgspec.Struct, omit_defaults=True):
    cached_tokens: _Count | None = None


class WireUsage(msgspec.Struct, omit_defaults=True):
    """The counts that matter; whatever else is there is left out."""

    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    prompt_tokens_details: _Details | None = None

    def counts(self) -> Usage:
        details = self.prompt_tokens_details
        cached = details.cached_tokens if details is not None else None
        if cached is not None and cached > self.prompt_tokens:
            # It is a part of the prompt, and nowhere more than all of it.
            cached = self.prompt_tokens
        return Usage(self.prompt_tokens, self.completion_tokens, cached)


class _ResponsesUsage(msgspec.Struct):
    """Responses' names for the same."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    input_tokens_details: _Details | None = None

    def counts(self) -> Usage:
        return WireUsage(self.input_tokens, self.output_tokens, self.input_tokens_details).counts()


class _MessagesUsage(msgspec.Struct):
    """Messages' names; here the prompt comes in three parts, told apart by what the cache did."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None

    def counts(self) -> Usage:
        cached = self.cache_read_input_tokens
        prompt = self.input_tokens + (self.cache_creation_input_tokens or 0) + (cached or 0)
        return Usage(prompt, self.output_tokens, cached)


class _Answer(msgspec.Struct):
    usage: WireUsage | None = None


class _Response(msgspec.Struct):
    usage: _ResponsesUsage | None = None


class _Message(msgspec.Struct):
    usage: _MessagesUsage | None = None


class _ResponseEvent(msgspec.Struct):
    response: _Response


_decoder = msgspec.json.Decoder(WireUsage)
_AnswerDecoder = (
    msgspec.json.Decoder[_Answer] | msgspec.json.Decoder[_Response] | msgspec.json.Decoder[_Message]
)
_answer_decoders: dict[Api, _AnswerDecoder] = {
    Api.CHAT: msgspec.json.Decoder(_Answer),
    Api.COMPLETIONS: msgspec.json.Decoder(_Answer),
    Api.EMBEDDINGS: msgspec.json.Decoder(_Answer),
    Api.MESSAGES: msgspec.json.Decoder(_Message),
    Api.RESPONSES: msgspec.json.Decoder(_Response),
}
_response_event_decoder = msgspec.json.Decoder(_ResponseEvent)


def usage_of_answer(api: Api, answer: bytes) -> Usage | None:
    """What a whole answer says of its usage; DecodeError when it is no answer."""
    wire = _answer_decoders[api].decode(answer).usage
    return None if wire is None else wire.counts()


def usage_of_response_event(data: bytes) -> Usage | None:
    """What the last event of a Responses stream says of its usage; None when it says nothing."""
    try:
        wire = _response_event_decoder.decode(data).response.usage
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if wire is None else wire.counts()


def usage_of_message_event(data: bytes) -> Usage | None:
    """The same of a Messages stream, where it stands beside what changed last."""
    try:
        return usage_of_answer(Api.MESSAGES, data)
    except (msgspec.DecodeError, RecursionError):
        return None


def read_usage(raw: bytes) -> Usage | None:
    """The counts in a raw `usage` object; None when it is not one."""
    try:
        wire = _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return wire.counts()


def write_usage(usage: Usage) -> bytes:
    """The same counts as the shortest `usage` object that `read_usage` reads back."""
    details = None if usage.cached_tokens is None else _Details(usage.cached_tokens)
    return msgspec.json.encode(WireUsage(usage.prompt_tokens, usage.completion_tokens, details))
