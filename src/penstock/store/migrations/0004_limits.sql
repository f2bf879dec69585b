-- Limits and budgets. `limits`, `leases` and `lease_holders` are written by the admission room,
-- `limit_spend` by the metering room's drain.

-- What happens to an account's requests when its leases are used up while Postgres is away.
alter table accounts add column on_outage text not null default 'continue'
    check (on_outage in ('continue', 'refuse'));

-- Used as policy_revision is (see 0001).
create table limits_revision (
    is_only boolean primary key default true check (is_only),
    revision bigint not null
);
insert into limits_revision (revision) values (0);

create table limits (
    id bigint generated always as identity primary key,
    account text not null references accounts (id),
    scope text not null check (scope in ('account', 'key', 'workflow', 'session')),
    -- Which key, workflow or session; '*' for each one by itself; '' for the account.
    value text not null check ((scope = 'account') = (value = '')),
    measure text not null check (measure in ('requests', 'tokens', 'nanousd')),
    period text not null check (period in ('minute', 'day', 'month')),
    amount bigint not null check (amount >= 0),
    is_hard boolean not null,
    -- What had been used in the window in which the limit was set, before it was set.
    base_window timestamptz not null,
    base_amount bigint not null,
    is_removed boolean not null default false,
    created_at timestamptz not null default now(),
    revision bigint not null
);
create unique index limits_once on limits (account, scope, value, measure, period) where not is_removed;
create index limits_by_revision on limits (revision, id);

-- A *pot* is one limit's amount for one value in one window (UTC). What of it is free is
--     amount - base_amount (in base_window) - sum over holders of greatest(granted, spent)
-- where `granted` stands in leases and `spent` in limit_spend. A holder is one gateway worker, named
-- as its journal is. When its journal is drained, `spent` is exact and its lease can go.

-- A worker renews its row here, however many leases it has. Whoever takes its leases away deletes the
-- row first: without it the worker can write no lease, and learns that it has none.
create table lease_holders (
    holder uuid primary key,
    expires_at timestamptz not null
);

create table leases (
    limit_id bigint not null,
    value text not null,
    window_start timestamptz not null,
    holder uuid not null,
    granted bigint not null check (granted >= 0),
    primary key (limit_id, value, window_start, holder)
);
create index leases_by_holder on leases (holder, limit_id, value, window_start);
create index leases_by_window on leases (window_start);

create table limit_spend (
    limit_id bigint not null,
    value text not null,
    window_start timestamptz not null,
    holder uuid not null,
    amount bigint not null,
    primary key (limit_id, value, window_start, holder)
);
create index limit_spend_by_window on limit_spend (window_start);
