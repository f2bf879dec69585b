"""Parts of a chat request that are objects of their own."""

import msgspec


class StreamOptions(msgspec.Struct):
    """OpenAI's `include_usage`, and vLLM's count in every chunk."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Conversation(msgspec.Struct):
    """OpenAI's, of which we read the name."""

    id: str = ""
