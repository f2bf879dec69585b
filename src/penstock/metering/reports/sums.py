"""SQL of a usage report's sums, over hourly sums and over the ledger's rows. Pure text.

Both lists have the same names, order and meaning: for a set of rows, `OF_ATTEMPTS` gives what the
drain (ledger.sql) adds to `usage_hours`.
"""

from typing import Final, LiteralString

BUCKETS: Final = 64

# The discount on cached tokens. An attempt that is not charged saves nothing. (`least` ignores a
# null, so an unknown count must become 0 first.)
_SAVED: Final[LiteralString] = """coalesce(sum(round(
    least(coalesce(cached_tokens, 0), coalesce(prompt_tokens, 0))::numeric
    * (input_nanousd_per_mtok - cached_input_nanousd_per_mtok) * multiplier_bp / 10000000000
)) filter (where charge_reason in ('', 'estimated')), 0)::bigint"""

OF_ATTEMPTS: Final[dict[str, LiteralString]] = {
    "requests": "count(*) filter (where attempt = 1)",
    "attempts": "count(*)",
    "ok": "count(*) filter (where outcome = 'ok')",
    "client_left": "count(*) filter (where outcome = 'client_left')",
    "failed": "count(*) filter (where outcome = 'failed')",
    "interrupted": "count(*) filter (where outcome = 'interrupted')",
    "retried": "count(*) filter (where attempt = 1 and client_retry > 0)",
    "retried_ok": "count(*) filter (where outcome = 'ok' and client_retry > 0)",
    "prompt_tokens": "coalesce(sum(prompt_tokens), 0)::bigint",
    "prompt_tokens_known": (
        "coalesce(sum(prompt_tokens) filter (where cached_tokens is not null), 0)::bigint"
    ),
    "cached_tokens": "coalesce(sum(cached_tokens), 0)::bigint",
    "output_tokens": "coalesce(sum(output_tokens), 0)::bigint",
    "charge_nanousd": "coalesce(sum(charge_nanousd), 0)::bigint",
    "saved_nanousd": _SAVED,
    "first_token": (
        "count_buckets(array_agg(first_token_bucket(first_token_ms))"
        " filter (where first_token_ms is not null))"
    ),
}

NAMES: Final = tuple(OF_ATTEMPTS)


def _of_hours(name: str) -> str:
    if name != "first_token":
        return f"sum({name})::bigint"
    # Summed by element, because unnesting would make 64 rows of each histogram.
    counts = ", ".join(f"sum(first_token[{i}])" for i in range(1, BUCKETS + 1))
    return f"array[{counts}]::bigint[]"


OF_HOURS: Final = {name: _of_hours(name) for name in NAMES}
