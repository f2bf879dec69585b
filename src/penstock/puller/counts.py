"""Counts what this keeper's puller has done, in plain integers for the metrics."""

import msgspec

from penstock.records.usage import Usage


class PullerCounts(msgspec.Struct):
    """Jobs since the start."""

    started: int = 0
    # Of these, on the share that is reserved for jobs that have waited long.
    started_reserved: int = 0
    succeeded: int = 0
    # For good.
    failed: int = 0
    # Failed now, to be tried again.
    retried: int = 0
    handed_back: int = 0
    cancelled: int = 0
    # Claimed by another keeper, or dropped because Postgres was down for longer than the claim.
    lost: int = 0
    # Of the jobs that succeeded; cached ones are a part of the prompts.
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    # Loops and jobs that failed by an unexpected exception.
    failures: int = 0

    def add_tokens(self, usage: Usage) -> None:
        self.prompt_tokens += usage.prompt_tokens
        self.cached_tokens += usage.cached_tokens or 0
        self.output_tokens += usage.completion_tokens
