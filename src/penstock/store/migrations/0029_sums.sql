-- Sums for the people on call, added to by the drain with those of usage_hours; and when an attempt
-- came into the ledger.

alter table usage_attempts add column drained_at timestamptz;
-- A default of its own: rows that are there already stay without a time.
alter table usage_attempts alter column drained_at set default now();
-- On the parent alone: days that are there already are searched as before, and new ones have both.
create index usage_attempts_by_drain on only usage_attempts using brin (drained_at)
    with (pages_per_range = 16);
create index usage_attempts_by_caller on only usage_attempts (caller_request)
    where caller_request <> '';

-- How steady sessions were: what usage_hours does not have, by workflow, contract and task.
create table workflow_hours (
    hour timestamptz not null,
    account text not null,
    workflow text not null,
    -- With its version; empty for requests that no contract binds.
    contract text not null,
    task text not null,
    model text not null,
    requests bigint not null,
    -- Requests that named a session, and those of them that left its last replica, by reason.
    session_turns bigint not null,
    moved_load bigint not null,
    moved_drain bigint not null,
    moved_lost bigint not null,
    -- Requests of sessions that a client sent as a retry, and how many stayed on their replica.
    session_retries bigint not null,
    session_retries_stayed bigint not null,
    cache_breaks bigint not null,
    -- Of attempts of which routing expected and the engine counted cached tokens.
    prompt_tokens_compared bigint not null,
    cached_tokens_expected bigint not null,
    cached_tokens_counted bigint not null,
    primary key (account, hour, workflow, contract, task, model)
);
create index workflow_hours_by_hour on workflow_hours (hour);

-- One row for each session and day.
create table session_days (
    day date not null,
    account text not null,
    session text not null,
    -- Of its last request that day.
    workflow text not null,
    model text not null,
    turns integer not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    -- The last prompt whose length is known.
    prompt_last bigint,
    prompt_last_at timestamptz,
    prompt_max bigint,
    prompt_tokens_known bigint not null,
    cached_tokens bigint not null,
    output_tokens bigint not null,
    -- For the slope of the prompt over the turns: prompts with a known length, numbered from 1, and
    -- sums of x = number, y = tokens.
    prompts integer not null,
    sum_x float8 not null,
    sum_y float8 not null,
    sum_xy float8 not null,
    sum_xx float8 not null,
    moves integer not null,
    cache_breaks integer not null,
    charge_nanousd bigint not null,
    primary key (day, account, session)
) partition by range (day);

-- Now also makes the day of session_days.
create or replace function make_usage_day(wanted date) returns void
language plpgsql as $$
declare
    parent text;
    name text;
begin
    foreach parent in array array['usage_attempts', 'session_days'] loop
        name := parent || '_' || to_char(wanted, 'YYYYMMDD');
        perform pg_advisory_xact_lock(hashtext(name));
        if to_regclass(name) is null then
            execute format('create table %I (like %I including defaults including constraints)', name, parent);
            execute format(
                'alter table %I attach partition %I for values from (%L) to (%L)',
                parent, name, wanted, wanted + 1
            );
        end if;
    end loop;
end $$;
-- Replacing a function takes back how it runs: as its owner, for gateways and keepers that own
-- nothing, and with a fixed search path, so that nobody's own tables stand in for the cell's.
do $$
begin
    execute format('alter function make_usage_day(date) security definer set search_path = %I, pg_temp', current_schema());
end $$;

create function drop_session_days(before date) returns integer
language plpgsql as $$
declare
    name text;
    dropped integer := 0;
begin
    for name in
        select inhrelid::regclass::text from pg_inherits
        where inhparent = 'session_days'::regclass
            and inhrelid::regclass::text < 'session_days_' || to_char(before, 'YYYYMMDD')
    loop
        execute format('drop table %I', name);
        dropped := dropped + 1;
    end loop;
    return dropped;
end $$;
revoke execute on function drop_session_days(date) from public;

-- What contracts decided and operators did, counted: added to with the rows of `decisions`.
create table decision_hours (
    hour timestamptz not null,
    account text not null,
    workflow text not null,
    contract text not null,
    kind text not null,
    verdict text not null,
    is_observed boolean not null,
    count bigint not null,
    primary key (account, hour, workflow, contract, kind, verdict, is_observed)
);
create index decision_hours_by_hour on decision_hours (hour);
-- The latest refusals, without reading all that was changed.
create index decisions_denied on decisions (at) where verdict = 'deny';
