-- What was used and what it cost, written by the metering room (its drain) and read by reports.

-- Ids of requests are UUIDs of version 7: their first 48 bits are the milliseconds since 1970.
create function request_time(request uuid) returns timestamptz
language sql immutable strict parallel safe as $$
    select to_timestamp(
        ('x' || substr(translate(request::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0
    )
$$;

-- One row per attempt: a request that was tried on two replicas has two rows, and at most one of them
-- carries a charge. The day is the one in the request's own id, so that a replay always finds the
-- same partition; partitions are made by the drain and dropped by retention.
create table usage_attempts (
    day date not null,
    request uuid not null,
    attempt smallint not null,
    account text not null,
    key text not null,
    model text not null,
    replica text not null,
    session text not null,
    prompt_family text not null,
    workflow text not null,
    tier text not null,
    is_stream boolean not null,
    -- What the client said of its own retries (x-stainless-retry-count); null when it said nothing.
    client_retry smallint,
    caller_request text not null,
    -- The time in the request's id; the attempt began `waited_ms` later.
    asked_at timestamptz not null,
    waited_ms real not null,
    first_token_ms real,
    output_tokens_per_second real,
    duration_ms real not null,
    -- Unknown is null, never 0: an engine that did not say, an answer that never came.
    prompt_tokens bigint,
    cached_tokens bigint,
    is_cached_estimated boolean not null,
    output_tokens bigint,
    outcome text not null check (outcome in ('ok', 'client_left', 'failed', 'interrupted')),
    error text not null,
    -- The price book's row at the request's start, so that every charge can be calculated again.
    input_nanousd_per_mtok bigint not null,
    cached_input_nanousd_per_mtok bigint not null,
    output_nanousd_per_mtok bigint not null,
    multiplier_bp integer not null,
    charge_nanousd bigint not null,
    -- Why the charge is 0 where tokens were made; empty for an ordinary row.
    charge_reason text not null,
    primary key (day, request, attempt)
) partition by range (day);
create index usage_attempts_by_session on usage_attempts (account, session, asked_at) where session <> '';
create index usage_attempts_by_account on usage_attempts (account, asked_at);

-- The drain calls this for a day it has not seen. The table is made by itself and then attached: a
-- partition that is created in place would lock out every reader of the ledger.
create function make_usage_day(wanted date) returns void
language plpgsql as $$
declare
    name text := 'usage_attempts_' || to_char(wanted, 'YYYYMMDD');
begin
    perform pg_advisory_xact_lock(hashtext(name));
    if to_regclass(name) is null then
        execute format('create table %I (like usage_attempts including defaults including constraints)', name);
        execute format(
            'alter table usage_attempts attach partition %I for values from (%L) to (%L)',
            name, wanted, wanted + 1
        );
    end if;
end $$;

-- Retention: whole days at once, so that nothing is scanned by age.
create function drop_usage_days(before date) returns integer
language plpgsql as $$
declare
    name text;
    dropped integer := 0;
begin
    for name in
        select inhrelid::regclass::text from pg_inherits
        where inhparent = 'usage_attempts'::regclass
            and inhrelid::regclass::text < 'usage_attempts_' || to_char(before, 'YYYYMMDD')
    loop
        execute format('drop table %I', name);
        dropped := dropped + 1;
    end loop;
    return dropped;
end $$;

-- Buckets of first-token time: four to each doubling, from 4 ms up; the last one holds all above.
create function first_token_bucket(milliseconds real) returns integer
language sql immutable strict parallel safe as $$
    select least(63, greatest(0, ceil(4 * (ln(greatest(milliseconds, 1)) / ln(2) - 2))))::integer
$$;

create function count_buckets(buckets integer[]) returns bigint[]
language plpgsql immutable parallel safe as $$
declare
    counts bigint[] := array_fill(0::bigint, array[64]);
    bucket integer;
begin
    if buckets is null then
        return counts;
    end if;
    foreach bucket in array buckets loop
        counts[bucket + 1] := counts[bucket + 1] + 1;
    end loop;
    return counts;
end $$;

create function add_counts(counts bigint[], more bigint[]) returns bigint[]
language plpgsql immutable parallel safe as $$
begin
    for i in 1 .. 64 loop
        counts[i] := counts[i] + more[i];
    end loop;
    return counts;
end $$;

-- Hourly sums, added to by the drain in the same transaction as the rows they sum.
create table usage_hours (
    hour timestamptz not null,
    account text not null,
    key text not null,
    model text not null,
    tier text not null,
    workflow text not null,
    requests bigint not null,
    attempts bigint not null,
    ok bigint not null,
    client_left bigint not null,
    failed bigint not null,
    interrupted bigint not null,
    -- Requests that a client sent as a retry of its own, and how many of them were served.
    retried bigint not null,
    retried_ok bigint not null,
    prompt_tokens bigint not null,
    -- The prompts of which the engine said how much was cached: the hit ratio's denominator.
    prompt_tokens_known bigint not null,
    cached_tokens bigint not null,
    output_tokens bigint not null,
    charge_nanousd bigint not null,
    saved_nanousd bigint not null,
    -- Counts by first_token_bucket.
    first_token bigint[] not null,
    primary key (account, hour, key, model, tier, workflow)
);
create index usage_hours_by_hour on usage_hours (hour);

-- What was refused, and why. No row per refusal: a client that hammers must not fill the disk.
create table usage_refusals (
    minute timestamptz not null,
    account text not null,
    key text not null,
    reason text not null,
    count bigint not null,
    primary key (account, minute, key, reason)
);
create index usage_refusals_by_minute on usage_refusals (minute);

-- The workflow names of each account that are counted by name; those beyond the cap are `other`.
create table workflow_names (
    account text not null,
    name text not null,
    primary key (account, name)
);
