-- Indexes for lists of the slowest, the dearest and the failed requests, which scanned each day's
-- partition from end to end. On the parent alone, as in 0029: partitions of days that are there
-- already get none, and are scanned as before.
create index usage_attempts_by_wait on only usage_attempts
    ((waited_ms + coalesce(first_token_ms, 0)) desc, request desc);
create index usage_attempts_by_charge on only usage_attempts (charge_nanousd desc, request desc);
create index usage_attempts_failed on only usage_attempts (request)
    where outcome in ('failed', 'interrupted');
