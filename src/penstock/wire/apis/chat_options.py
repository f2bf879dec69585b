"""Parts of a request that are objects of their own."""

import msgspec


class StreamOptions(msgspec.Struct):
    """OpenAI's `include_usage`, and vLLM's count in every chunk."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class NamedConversation(msgspec.Struct):
    """OpenAI's `conversation` object, of which only the id is read."""

    id: str = ""


class Options(msgspec.Struct, frozen=True):
    """Workers AI's options, as they come in a body."""

    reject_if_busy: bool | None = msgspec.field(default=None, name="rejectIfBusy")
    queue_request: bool | None = msgspec.field(default=None, name="queueRequest")


class Metadata(msgspec.Struct):
    """OpenAI's `metadata`, of which only `workflow` is read."""

    workflow: str = ""
