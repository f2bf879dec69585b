"""What is written where an operator can see it."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

# Printable ASCII without `@` and `#`: a user would be a secret in what `config show` prints.
_TRACES_URL: Final = r"^(https?://[0-9A-Za-z\[][!-\"$-?A-~]*)?\Z"


class TelemetrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Log, metrics and traces."""

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
    # Where traces are posted as OTLP/HTTP JSON, such as `http://127.0.0.1:4318/v1/traces`; "" = no
    # request is traced.
    traces_url: Annotated[str, Meta(pattern=_TRACES_URL, max_length=2048)] = ""
    # The share of requests that are traced. Errors, withheld answers, moved sessions and slow
    # requests always are.
    traces_share: Annotated[float, Meta(ge=0, le=1)] = 0.01
    # Requests whose first token takes longer are always traced.
    traces_slow_ms: Annotated[int, Meta(ge=1, le=86_400_000)] = 10_000
    # Traces that wait in a process to be posted; further ones are dropped and counted.
    traces_waiting_max: Annotated[int, Meta(ge=1, le=10**6)] = 10_000
    # Traces in one post, one or more of which is made each second.
    traces_batch: Annotated[int, Meta(ge=1, le=10_000)] = 512
    # How long a post may take; then its traces are dropped and counted.
    traces_timeout_seconds: Annotated[float, Meta(ge=0.1, le=60)] = 5.0
