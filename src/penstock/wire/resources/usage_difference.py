"""The answer to "what changed?": two periods compared, and each change split into eight parts.

Amounts are integer nano-dollars; those of a whole row are there as exact decimals too.
"""

from datetime import datetime

import msgspec


class ChangeParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one change, in nano-dollars. Their sum is the change, exactly."""

    # Requests, each counted once.
    volume: int = 0
    # Attempts per request.
    retries: int = 0
    # The shares of the models and tiers in the attempts.
    models: int = 0
    # Prompt tokens per attempt.
    prompts: int = 0
    # The share of the prompt tokens that was cached.
    cache: int = 0
    # Output tokens per attempt.
    answers: int = 0
    # The price book.
    price: int = 0
    # The list cost that was not charged: more of it makes this part negative.
    uncharged: int = 0


class DifferenceRow(msgspec.Struct, frozen=True, kw_only=True):
    """The change of what was charged for the usage with these labels."""

    # Empty in the row of all groups that have none of their own (`is_other`), and in the total.
    labels: dict[str, str]
    is_other: bool
    before_nanousd: int
    before_usd: str
    after_nanousd: int
    after_usd: str
    change_nanousd: int
    change_usd: str
    parts_nanousd: ChangeParts
    # The two largest parts, with measured figures.
    why: str


class DifferenceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Two periods of the same length compared: `since` to `until` against the earlier one."""

    since: datetime
    until: datetime
    against_since: datetime
    against_until: datetime
    by: tuple[str, ...]
    total: DifferenceRow
    # Largest change first.
    rows: list[DifferenceRow]
    # Models that are not in the catalogue: what they were charged per token stands for their price.
    unpriced_models: list[str]
    # Models that were charged more than the catalogue's prices.
    dearer_models: list[str]
    object: str = "usage.difference"
