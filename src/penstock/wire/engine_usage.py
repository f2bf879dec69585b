"""`usage` as engines write it, read strictly enough that no nonsense is ever added up."""

from typing import Annotated

import msgspec
from msgspec import Meta

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


_decoder = msgspec.json.Decoder(WireUsage)


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
