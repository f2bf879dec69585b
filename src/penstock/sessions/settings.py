"""Settings of stored responses, `[responses]`, and of conversations, `[conversations]`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class ResponsesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is kept, for how long, and how much of it."""

    # Whether a response is kept whose request does not say `store`. "cell" = true in a cell that
    # was made with stored responses, false in one that is older.
    store_default: bool | Literal["cell"] = "cell"
    # How long a response is kept.
    kept_seconds: Annotated[float, Meta(ge=60, le=315_360_000)] = 2_592_000.0
    # How many responses a chain may have.
    chain_max: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    # How large the items of a chain may be together.
    context_bytes_max: Annotated[int, Meta(ge=1024, le=2**30)] = 32 * 2**20
    # How much of what was read lately each worker keeps in memory, decrypted.
    cache_bytes_max: Annotated[int, Meta(ge=0, le=2**33)] = 32 * 2**20
    # How much an account may keep.
    bytes_per_account_max: Annotated[int, Meta(ge=0, le=2**50)] = 100 * 2**30


class ConversationsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many items a conversation has, how large all are, and how long they are kept."""

    # How long a conversation is kept that nobody reads or writes.
    idle_seconds: Annotated[float, Meta(ge=60, le=315_360_000)] = 2_592_000.0
    # How many conversations an account may have.
    per_account_max: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000
    # How many items a conversation may have.
    items_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    # How many items one call may add; OpenAI's number.
    items_per_call_max: Annotated[int, Meta(ge=1, le=1000)] = 20
    # How much an account may keep in conversations.
    bytes_per_account_max: Annotated[int, Meta(ge=0, le=2**50)] = 100 * 2**30
    # How long a gateway that died keeps a conversation locked.
    tenure_seconds: Annotated[float, Meta(ge=1, le=600)] = 30.0
