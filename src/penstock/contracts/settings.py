"""Settings of contracts: how fresh each gateway's copy is, and how many there may be."""

from typing import Annotated

import msgspec
from msgspec import Meta


class ContractsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings under `[contracts]`."""

    # How often each gateway asks Postgres whether another set of contracts was applied.
    refresh_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 2.0
    # How many contracts a set may have.
    contracts_max: Annotated[int, Meta(ge=1, le=10_000)] = 500
    # How long one contract's file may be.
    document_bytes_max: Annotated[int, Meta(ge=1024, le=1024 * 1024)] = 64 * 1024
    # How many sets are kept, to go back to; the oldest go first.
    sets_max: Annotated[int, Meta(ge=2, le=1_000_000)] = 1000
    # Days for which decisions are kept.
    decision_days: Annotated[int, Meta(ge=1, le=36500)] = 400
    # Days for which allowed calls of tools are kept, where they are logged at all.
    allowed_days: Annotated[int, Meta(ge=1, le=36500)] = 30
    # Where the heads of the log's chains are sent, to be held outside; "" = nowhere.
    heads_url: Annotated[str, Meta(pattern=r"^(https?://.+)?\Z")] = ""
    # The secret that signs them, `whsec_` and base64, as webhooks have; "" = not signed.
    heads_secret: Annotated[str, Meta(pattern=r"^(whsec_[A-Za-z0-9+/]{32,128}={0,2})?\Z")] = ""
    # How often they are sent.
    heads_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 3600.0
    # How often the leading control verifies the log: what is new, and then older rows once more.
    verify_seconds: Annotated[float, Meta(ge=0.05, le=86_400)] = 60.0
    # How many rows it verifies each time. More new rows than that wait for the next times.
    verify_rows_max: Annotated[int, Meta(ge=1, le=10**6)] = 20_000
    # Days for which gateways report a break in the log after it was found.
    breaks_days: Annotated[int, Meta(ge=1, le=36500)] = 7
    # How much memory each worker keeps for outputs of tools that it has cut, for later turns.
    cut_bytes_max: Annotated[int, Meta(ge=0, le=2**40)] = 32 * 2**20
    # Longer outputs of tools are cut as texts, also JSON. All gateways need the same value: prompts
    # differ otherwise, and engines find them in no cache.
    cut_input_bytes_max: Annotated[int, Meta(ge=64 * 1024, le=2**30)] = 4 * 2**20
    # How many bytes of one answer are held while the name of a tool that it calls is not whole.
    held_bytes_max: Annotated[int, Meta(ge=4096, le=2**26)] = 2**20
    # How long a session that has fallen back to a cheaper model stays with it in a worker, so that
    # it does not go back and forth between two caches.
    fallback_hold_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 600.0
    # How many such sessions a worker remembers; beyond that, the oldest are forgotten.
    fallback_sessions_max: Annotated[int, Meta(ge=1, le=10**6)] = 20_000
    # Whether calls of tools that a contract allows are in the log of decisions too.
    log_allowed: bool = False
