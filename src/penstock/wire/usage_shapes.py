"""The shapes in which engines write `usage`: what is read of it, and between which bounds.

Without `gc`: they hold numbers and each other, never in a circle, and live for a moment.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

# No answer has so many tokens. A few lies of 2**53 would be more money than a bigint holds, and
# no row of that hour could be added up any more.
_Count = Annotated[int, Meta(ge=0, le=2**31)]


class Details(msgspec.Struct, omit_defaults=True, gc=False):
    """What of a prompt came out of the prefix cache."""

    cached_tokens: _Count | None = None


class WireUsage(msgspec.Struct, omit_defaults=True, gc=False):
    """The counts that matter; whatever else is there is left out.

    `is_estimated` is ours: no engine writes it. It goes into the journal's slots.
    """

    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    prompt_tokens_details: Details | None = None
    is_estimated: bool = msgspec.field(default=False, name="penstock_estimated")


class CountedResponsesUsage(msgspec.Struct, gc=False):
    """Responses' names for the same."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    input_tokens_details: Details | None = None


class CountedMessagesUsage(msgspec.Struct, gc=False):
    """Messages' names; here the prompt comes in three parts, told apart by what the cache did."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None


class CountedAnswer(msgspec.Struct, gc=False):
    """Of chat, completions and embeddings."""

    usage: WireUsage | None = None


class CountedResponse(msgspec.Struct, gc=False):
    """Of Responses."""

    usage: CountedResponsesUsage | None = None


class CountedMessage(msgspec.Struct, gc=False):
    """Of Messages."""

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
