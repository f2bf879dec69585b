-- Lists of the slowest, the dearest and the failed requests read these from their top, and no day of
-- the ledger from end to end. On the parent alone, as in 0029: days that are there already are
-- searched as before.
create index usage_attempts_by_wait on only usage_attempts
    ((waited_ms + coalesce(first_token_ms, 0)) desc, request desc);
create index usage_attempts_by_charge on only usage_attempts (charge_nanousd desc, request desc);
create index usage_attempts_failed on only usage_attempts (request)
    where outcome in ('failed', 'interrupted');
