"""What is written where an operator can see it."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class TelemetrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Log and metrics."""

    # The least level that is logged.
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    # How log lines are written: `json` for collectors, `text` for people.
    log_format: Literal["json", "text"] = "json"
    # Whether each request leaves one line at its end.
    log_requests: bool = True
    # Log lines that wait while standard error is not read; further lines are dropped and counted.
    log_buffer_bytes: Annotated[int, Meta(ge=2**16, le=2**30)] = 2**20
    # Pairs of model and account that metrics tell apart; further ones count as account `other`.
    label_pairs_max: Annotated[int, Meta(ge=1, le=10**6)] = 2000
    # Workflows, and prompt families, that metrics tell apart in one account; others are `other`.
    labels_per_account_max: Annotated[int, Meta(ge=1, le=10**6)] = 100
