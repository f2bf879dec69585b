-- What happened, told to those who want to know. All of these are written by the events room.

-- The log's last number. The relay takes numbers from this one row inside its transaction, which
-- locks it until the commit: numbers have no gaps and appear in order. Whoever reads the row as N
-- sees every event up to N, and may from then on ask only for what is newer.
create table event_head (
    is_only boolean primary key default true check (is_only),
    sequence bigint not null
);
insert into event_head (sequence) values (0);

create table events (
    sequence bigint primary key,
    id uuid not null,
    account text not null,
    type text not null,
    created_at timestamptz not null,
    logged_at timestamptz not null default now(),
    data jsonb not null
);
create index events_by_account on events (account, sequence);

create table webhook_endpoints (
    id uuid primary key,
    account text not null references accounts (id),
    -- Which bodies it gets: OpenAI's, or Workers AI's, which are called subscriptions there.
    shape text not null check (shape in ('openai', 'workers_ai')),
    name text not null,
    url text not null,
    events text[] not null,
    -- Only of this model; '' = of all.
    model text not null default '',
    -- Kept as it is, for it signs: whoever reads this table can sign. No page shows it again.
    secret bytea not null,
    -- Signs too while its time lasts, so that a receiver can change over.
    old_secret bytea,
    old_secret_until timestamptz,
    is_enabled boolean not null default true,
    -- Why we disabled it; '' if we did not.
    disabled_reason text not null default '',
    created_at timestamptz not null default now(),
    modified_at timestamptz not null default now()
);
create index webhook_endpoints_by_account on webhook_endpoints (account, id);

-- What is still to be delivered; a row goes when it is delivered or given up.
create table deliveries (
    id bigint generated always as identity primary key,
    endpoint uuid not null references webhook_endpoints (id) on delete cascade,
    -- The webhook-id, the same at every try.
    event text not null,
    -- As it is signed and sent, at every try.
    body text not null,
    attempts integer not null default 0,
    -- When it is tried next. A claim moves it beyond the time that a try may take: if the claimer
    -- dies, it is due again.
    due_at timestamptz not null default now(),
    created_at timestamptz not null default now(),
    last_problem text not null default '',
    unique (event, endpoint)
);
create index deliveries_by_due on deliveries (due_at);
create index deliveries_by_endpoint on deliveries (endpoint);
create index deliveries_by_age on deliveries (created_at);

create table delivery_counts (
    outcome text primary key,
    count bigint not null
);
