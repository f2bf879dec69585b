"""What is logged of a request: one wide line, encoded as JSON by `request_log`."""

from datetime import datetime

import msgspec


class RequestLine(msgspec.Struct, omit_defaults=True):
    """What is said about a request. No prompt, no completion, no key."""

    time: datetime
    event: str
    request: str
    status: int
    outcome: str
    account: str = ""
    key: str = ""
    model: str = ""
    replica: str = ""
    session: str = ""
    attempts: int = 0
    stream: bool = False
    path: str = ""
    error: str = ""
    caller_request: str = ""
    queue_ms: float = 0.0
    first_token_ms: float | None = None
    total_ms: float = 0.0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    workflow: str = ""
    cost_usd: str = ""
