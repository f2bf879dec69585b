"""Tokens that an engine counted. Unknown is None, never 0."""

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """`cached_tokens` is the part of `prompt_tokens` that came out of the prefix cache."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
