"""Answers about a request's cache: the facts of its ledger row, and their meaning in words."""

import msgspec


class CacheFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One conclusion from the facts."""

    # `break`, `moved`, `evicted`, `short`, `new`, `unknown`, `estimated` or `hit`.
    kind: str
    said: str
    # What to do about it; empty where there is nothing to do.
    advice: str = ""


class CacheAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The cache facts of the attempt that answered, or of the last attempt."""

    request: str
    attempt: int
    replica: str
    session: str
    prompt_tokens: int | None
    cached_tokens: int | None
    is_cached_estimated: bool
    cached_expected: int | None
    session_moved: str
    cache_break: str
    findings: list[CacheFinding]
