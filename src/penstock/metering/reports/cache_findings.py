"""Explains, from a request's ledger row, why its prompt was or was not cached. Pure."""

from collections.abc import Iterator
from typing import Final

from penstock.records.prompt_chain import SYSTEM, TOOLS
from penstock.wire.resources.cache_findings import CacheAnswer, CacheFinding
from penstock.wire.resources.usage import AttemptAnswer, RequestAnswer

# Routing estimates bytes and engines count blocks, so only less than this share is a loss.
AS_EXPECTED: Final = 0.8
# The largest block of a prefix cache: vLLM's on CPUs. On GPUs it is 16.
_BLOCK_TOKENS_MAX: Final = 128
_MOVED: Final = {
    "load": (
        "The session was served by another replica than last, because its own had too much to do:"
        " what it had cached stayed behind.",
        "Nothing, if it is rare. If it is not, the fleet is short of replicas; or let the account's"
        " sessions wait for their own: `penstock account set ID --affinity strict`.",
    ),
    "drain": (
        "The session was served by another replica than last, because its own is being drained.",
        "Nothing: it happens once for each replica that is taken out.",
    ),
    "lost": (
        "The session was served by another replica than last, because its own failed or is gone.",
        "Look for the replica in the log (`replica ejected`) and in the roster.",
    ),
}


def cache_answer(answer: RequestAnswer) -> CacheAnswer:
    """Return the facts of the last attempt, with at least one finding."""
    row = answer.attempts[-1]
    return CacheAnswer(
        request=answer.id,
        attempt=row.attempt,
        replica=row.replica,
        session=row.session,
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        is_cached_estimated=row.is_cached_estimated,
        cached_expected=row.cached_expected,
        session_moved=row.session_moved,
        cache_break=row.cache_break,
        findings=list(cache_findings(row)),
    )


def cache_findings(row: AttemptAnswer) -> Iterator[CacheFinding]:
    """Yield what the facts of an attempt say of its cache, at least one finding."""
    if row.cache_break:
        yield _break(row.cache_break)
    if row.session_moved in _MOVED:
        said, advice = _MOVED[row.session_moved]
        yield CacheFinding(kind="moved", said=said, advice=advice)
    yield from _counts(row)


def _counts(row: AttemptAnswer) -> Iterator[CacheFinding]:
    """Compare the expected cached tokens with the real ones."""
    expected, cached = row.cached_expected or 0, row.cached_tokens
    if cached is None:
        yield _unknown(row)
    elif row.is_cached_estimated:
        yield CacheFinding(
            kind="estimated",
            said="The stream was cut before the engine said what was cached:"
            f" {cached} tokens is what routing expected, and what is charged as cached.",
        )
    elif cached < expected * AS_EXPECTED:
        yield CacheFinding(
            kind="evicted",
            said=f"{expected} tokens were expected in the replica's cache, and {cached} were there:"
            " other prompts have pushed the rest out, or the engine was restarted.",
            advice="If it happens often, the KV caches are too small for the sessions that are"
            " alive: more replicas, fewer requests at a time, or shorter prompts.",
        )
    elif not cached and not row.cache_break and not row.session_moved:
        yield _short(row) if _is_short(row) else _new(row)
    else:
        said = (
            f"{cached} of {row.prompt_tokens} prompt tokens were cached; {expected} were expected."
        )
        yield CacheFinding(kind="hit", said=said)


def _break(part: str) -> CacheFinding:
    if part == TOOLS:
        said = "The tools are not those of the session's last turn. They stand first in a prompt,"
        said += " so nothing behind them could be used again."
        advice = "Send the same tools in the same order with the same text on every turn."
    elif part == SYSTEM:
        said = "The system message is not that of the session's last turn: everything from it on"
        said += " had to be read again."
        advice = "Keep dates, times, paths and ids out of it; put them into the newest message."
    else:
        said = f"`{part}` (counted from 0) is not what it was in the session's last turn:"
        said += " everything from it on had to be read again."
        advice = "Only append. Do not edit, shorten, reorder or leave out earlier messages; when"
        advice += " a conversation must be compacted, do it once in a while, not on every turn."
    return CacheFinding(kind="break", said=said, advice=advice)


def _unknown(row: AttemptAnswer) -> CacheFinding:
    if row.outcome != "ok":
        said = "It ended before anything was counted."
        return CacheFinding(kind="unknown", said=said)
    return CacheFinding(
        kind="unknown",
        said="The engine did not say how much was cached.",
        advice="Start it with `--enable-prompt-tokens-details`.",
    )


def _is_short(row: AttemptAnswer) -> bool:
    return 0 < (row.prompt_tokens or 0) < _BLOCK_TOKENS_MAX


def _short(row: AttemptAnswer) -> CacheFinding:
    return CacheFinding(
        kind="short",
        said=f"The prompt has {row.prompt_tokens} tokens. Engines cache whole blocks, of 16 to"
        f" {_BLOCK_TOKENS_MAX} tokens by engine, so that a short prompt is not cached.",
        advice="Nothing: it costs little. Longer prompts are cached from their second time on.",
    )


def _new(row: AttemptAnswer) -> CacheFinding:
    advice = "Nothing, if it is a first turn."
    if not row.session:
        advice += " Name the session (`x-session-affinity`), so that its next turns are known to"
        advice += " belong to it."
    return CacheFinding(
        kind="new",
        said="No replica was known to hold any of this prompt: a first turn, or a prompt that"
        " has not been sent for long.",
        advice=advice,
    )
