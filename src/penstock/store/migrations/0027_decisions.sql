-- Decisions of contracts and acts of operators, written by the contracts room. Rows are only ever
-- added. Each writer (`holder`) numbers its rows without gaps, and each row's hash covers the row and
-- the hash before it: contracts/decision_chain.py.
create table decisions (
    -- `short` has the tool calls that were allowed, `long` all else.
    keep text not null check (keep in ('long', 'short')),
    -- The day of `at`, UTC.
    day date not null,
    -- The journal that had the row first; all acts of operators have one holder.
    holder uuid not null,
    sequence bigint not null check (sequence > 0),
    at timestamptz not null,
    -- Null for an act of an operator.
    request uuid,
    account text not null,
    key text not null,
    workflow text not null,
    -- The contract with its version, such as `code-review@7`.
    contract text not null,
    kind text not null,
    verdict text not null check (verdict in ('allow', 'change', 'deny')),
    -- An observed decision did not happen: the contract only observes.
    is_observed boolean not null,
    subjects text[] not null,
    reason text not null,
    facts jsonb not null,
    -- Who acted: the id of an operator's key, or `database` for a command that had the DSN.
    actor text not null,
    previous bytea not null check (length(previous) = 32),
    hash bytea not null check (length(hash) = 32),
    primary key (keep, day, holder, sequence)
) partition by list (keep);
create index decisions_by_request on decisions (request) where request is not null;
create index decisions_by_account on decisions (account, at);
create index decisions_by_workflow on decisions (workflow, at);
create table decisions_long partition of decisions for values in ('long') partition by range (day);
create table decisions_short partition of decisions for values in ('short') partition by range (day);

create function refuse_decision_change() returns trigger
language plpgsql as $$
begin
    raise exception 'decisions are only ever added' using errcode = 'insufficient_privilege';
end $$;
create trigger decisions_stay before update or delete on decisions
    for each row execute function refuse_decision_change();

-- Of all roles only the owner adds acts of operators: a gateway that is broken into writes none.
alter table decisions enable row level security;
create policy decisions_read on decisions for select using (true);
create policy decisions_added on decisions for insert
    with check (actor = '' and kind <> 'operator' and holder <> '00000000-0000-0000-0000-000000000001');

-- The last row of each chain that retention dropped: what is left must go on from there.
create table decision_starts (
    keep text not null,
    holder uuid not null,
    sequence bigint not null,
    hash bytea not null,
    primary key (keep, holder)
);

-- The heads of chains that were sent to an address outside.
create table decision_heads (
    keep text not null,
    holder uuid not null,
    sequence bigint not null,
    hash bytea not null,
    sent_at timestamptz not null default now(),
    primary key (keep, holder, sequence)
);

-- As make_usage_day: the table is made by itself and then attached, so that no reader waits for it.
create function make_decision_day(kept text, wanted date) returns void
language plpgsql as $$
declare
    parent text := 'decisions_' || kept;
    name text := parent || '_' || to_char(wanted, 'YYYYMMDD');
begin
    if kept not in ('long', 'short') then
        raise exception 'no such keep: %', kept;
    end if;
    perform pg_advisory_xact_lock(hashtext(name));
    if to_regclass(name) is null then
        execute format('create table %I (like %I including defaults including constraints)', name, parent);
        execute format(
            'alter table %I attach partition %I for values from (%L) to (%L)',
            parent, name, wanted, wanted + 1
        );
        -- Triggers on each statement do not come with the attachment.
        execute format(
            'create trigger decisions_stay_whole before truncate on %I'
            ' for each statement execute function refuse_decision_change()', name
        );
    end if;
end $$;

-- Whole days at once; where each chain goes on is noted first.
create function drop_decision_days(kept text, before date) returns integer
language plpgsql as $$
declare
    name text;
    dropped integer := 0;
begin
    for name in
        select inhrelid::regclass::text from pg_inherits
        where inhparent = ('decisions_' || kept)::regclass
            and inhrelid::regclass::text < 'decisions_' || kept || '_' || to_char(before, 'YYYYMMDD')
        order by 1
    loop
        execute format(
            'insert into decision_starts (keep, holder, sequence, hash)'
            ' select distinct on (holder) keep, holder, sequence, hash from %I'
            ' order by holder, sequence desc'
            ' on conflict (keep, holder) do update set sequence = excluded.sequence,'
            ' hash = excluded.hash where decision_starts.sequence < excluded.sequence', name
        );
        execute format('drop table %I', name);
        dropped := dropped + 1;
    end loop;
    return dropped;
end $$;

-- Gateways and keepers may connect as a role that owns nothing; these two make partitions for it.
-- The search path is fixed, so that nobody's own tables stand in for the cell's.
do $$
begin
    execute format('alter function make_decision_day(text, date) security definer set search_path = %I, pg_temp', current_schema());
    execute format('alter function make_usage_day(date) security definer set search_path = %I, pg_temp', current_schema());
end $$;
revoke execute on function drop_decision_days(text, date), drop_usage_days(date) from public;

do $$
begin
    execute format('alter function make_responses_day(date) security definer set search_path = %I, pg_temp', current_schema());
end $$;
revoke execute on function drop_responses_days(date) from public;

-- Roles for gateways and keepers; each `penstock migrate` grants them what new tables need.
create table runtime_roles (
    name text primary key
);
