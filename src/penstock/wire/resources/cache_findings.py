"""What became of a request's cache: the facts of its ledger row, and what they mean in words."""

import msgspec


class CacheFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the facts show."""

    # `break`, `moved`, `evicted`, `new`, `unknown`, `estimated` or `hit`.
    kind: str
    said: str
    # What to do about it; empty where there is nothing to do.
    advice: str = ""


class CacheAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Of the attempt that answered, or the last that was made."""

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
