"""The shapes in which engines write `usage`: the fields that are read, and their bounds.

Without `gc`: they hold numbers and each other, never in a cycle, and are short-lived.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

# More than any answer has. A few false counts of 2**53 would cost more than a bigint holds, and the
# rows of that hour could not be summed any more.
_Count = Annotated[int, Meta(ge=0, le=2**31)]


class Details(msgspec.Struct, omit_defaults=True, gc=False):
    """The part of a prompt that came from the prefix cache."""

    cached_tokens: _Count | None = None


class WireUsage(msgspec.Struct, omit_defaults=True, gc=False):
    """The counts that are used; other fields are ignored.

    `is_estimated` is ours: no engine writes it. It is stored in the journal's slots.
    """

    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    prompt_tokens_details: Details | None = None
    is_estimated: bool = msgspec.field(default=False, name="penstock_estimated")


class CountedResponsesUsage(msgspec.Struct, gc=False):
    """The same counts under the names of Responses."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    input_tokens_details: Details | None = None


class CountedMessagesUsage(msgspec.Struct, gc=False):
    """The counts of Messages, where the prompt has three parts, by what the cache did."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None


class CountedAnswer(msgspec.Struct, gc=False):
    """The usage in an answer of chat, completions or embeddings."""

    usage: WireUsage | None = None


class CountedChunk(msgspec.Struct):
    """The usage in one chunk of a stream of chat or completions, and whether it has choices."""

    choices: list[msgspec.Raw] | None = None
    usage: WireUsage | None = None
    error: object = None


class CountedResponse(msgspec.Struct, gc=False):
    """The usage in an answer of Responses."""

    usage: CountedResponsesUsage | None = None


class CountedMessage(msgspec.Struct, gc=False):
    """The usage in an answer of Messages."""

    usage: CountedMessagesUsage | None = None


class ResponseEvent(msgspec.Struct, gc=False):
    """The last event of a Responses stream."""

    response: CountedResponse


class MessageStart(msgspec.Struct, gc=False):
    """The first event of a Messages stream."""

    message: CountedMessage


class MessageDelta(msgspec.Struct, gc=False):
    """What one event adds to an answer of Messages: text, reasoning or a tool's arguments."""

    text: str = ""
    thinking: str = ""
    partial_json: str = ""


class DeltaEvent(msgspec.Struct, gc=False):
    """An event that adds to an answer; in Responses `delta` is the text itself."""

    delta: str | MessageDelta = ""
