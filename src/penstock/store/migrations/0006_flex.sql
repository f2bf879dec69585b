-- Flex: work that is wanted later. Written by the queue room; `accounts.flex_weight` by policy.

-- An account's share in the fair order, beside those of the other accounts.
alter table accounts add column flex_weight integer not null default 1
    check (flex_weight between 1 and 1000);

-- queued → running → succeeded | failed | cancelled | expired; running → queued again. Every change
-- asks for the state it leaves, and what a keeper writes for the epoch of its lease. Rows are written
-- three times and read by their indexes only; vacuum must keep up with those at the queue's front.
create table jobs (
    -- A UUID of version 7, and the job's request id in journal, ledger and engine.
    id uuid primary key,
    account text not null,
    key text not null,
    model text not null,
    door text not null,
    priority smallint not null,
    state text not null default 'queued'
        check (state in ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'expired')),
    batch uuid,
    item integer not null,
    reference text,
    idempotency_key text,
    created_at timestamptz not null default now(),
    deadline timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,

    -- The fair order: least (priority, tag) first. `tokens` is the estimate that moved the tag.
    tag double precision not null,
    tokens bigint not null check (tokens > 0),
    weight integer not null check (weight > 0),
    -- The prompt's first user message, by which a replica that holds the conversation is known.
    opening bigint not null,
    -- Not to be begun before this; deferred rows are kept out of the claims' index until it comes.
    is_deferred boolean not null default false,
    not_before timestamptz,

    -- Who runs it, until when, and which of its runs this is.
    keeper text not null default '',
    lease_until timestamptz,
    epoch integer not null default 0,
    attempts integer not null default 0,
    is_cancelling boolean not null default false,

    payload bytea not null,
    payload_object text not null,
    ticket bytea not null,
    -- Money that limits hold for it until it ends, and which limits, for whom.
    held bigint not null check (held >= 0),
    limits bigint[] not null,
    workflow text not null,
    session text not null,

    result bytea not null default '',
    result_object text not null default '',
    failure_code text,
    failure_message text,
    failure_status smallint,
    prompt_tokens bigint,
    completion_tokens bigint,
    cached_tokens bigint,
    charge_nanousd bigint not null default 0,
    replica text not null default '',

    check ((state = 'running') = (lease_until is not null)),
    check ((state in ('queued', 'running')) = (finished_at is null)),
    check (not is_deferred or (state = 'queued' and not_before is not null)),
    check (not is_cancelling or state = 'running'),
    check (state in ('queued', 'running') or held = 0),
    check ((state in ('failed', 'cancelled', 'expired')) = (failure_code is not null))
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);

create index jobs_ready on jobs (model, priority, tag) where state = 'queued' and not is_deferred;
create index jobs_deferred on jobs (not_before) where state = 'queued' and is_deferred;
create index jobs_by_age on jobs (model, created_at) where state = 'queued';
create index jobs_by_deadline on jobs (deadline) where state = 'queued';
-- Positions, and the highest tag that an account has left when others of its jobs are cancelled.
create index jobs_of_account_queued on jobs (account, model, priority, tag) where state = 'queued';
create index jobs_by_lease on jobs (lease_until) where state = 'running';
create index jobs_of_batch_running on jobs (batch) where state = 'running' and batch is not null;
create index jobs_by_end on jobs (finished_at) where finished_at is not null;
create index jobs_of_account on jobs (account, id);
create unique index jobs_idempotency on jobs (account, idempotency_key)
    where idempotency_key is not null;
create unique index jobs_of_batch on jobs (batch, item) where batch is not null;

-- What one submission of several requests became: a Workers AI request_id, or an OpenAI batch. Its
-- counts are kept by those who submit and end its jobs, so that nobody has to count 50,000 rows.
create table job_batches (
    id uuid primary key,
    account text not null,
    key text not null,
    door text not null,
    -- Null where its jobs name models of their own.
    model text,
    state text not null default 'open' check (state in ('open', 'ended')),
    idempotency_key text,
    created_at timestamptz not null default now(),
    deadline timestamptz not null,
    ended_at timestamptz,
    endpoint text not null default '',
    completion_window text not null default '',
    input_file text not null default '',
    metadata jsonb not null default '{}',
    -- All its jobs have been submitted; before that it cannot end.
    is_sealed boolean not null default true,
    is_cancelling boolean not null default false,
    total integer not null default 0,
    open_jobs integer not null default 0 check (open_jobs >= 0),
    succeeded integer not null default 0,
    failed integer not null default 0,
    cancelled integer not null default 0,
    expired integer not null default 0,
    check ((state = 'ended') = (ended_at is not null)),
    check (total = open_jobs + succeeded + failed + cancelled + expired)
);
create index job_batches_ready on job_batches (door, created_at)
    where state = 'open' and is_sealed and open_jobs = 0;
create index job_batches_of_account on job_batches (account, id);
create index job_batches_by_end on job_batches (ended_at) where state = 'ended';
create unique index job_batches_idempotency on job_batches (account, idempotency_key)
    where idempotency_key is not null;

-- How far the queue has come: the highest tag that was claimed. One clock for all priorities starves:
-- after 10,000 cancels an account got 0 of the next 100.
create table fair_clocks (
    model text not null,
    priority smallint not null,
    virtual_time double precision not null,
    primary key (model, priority)
);

-- How far each account has queued up, and how many of its jobs have not ended.
create table fair_tags (
    model text not null,
    priority smallint not null,
    account text not null,
    tag double precision not null,
    weight integer not null,
    open_jobs bigint not null check (open_jobs >= 0),
    primary key (model, priority, account)
);
create index fair_tags_of_account on fair_tags (account);

-- What operators say to the pullers of a model; no row, nothing said.
create table flex_controls (
    model text primary key,
    is_paused boolean not null,
    in_flight_max integer check (in_flight_max >= 0)
);

-- What is measured of each model's queue by the leading control process.
create table flex_stats (
    model text primary key,
    measured_at timestamptz not null,
    queued bigint not null,
    running bigint not null,
    oldest_created_at timestamptz,
    -- Averages in which what is older than a minute or so fades; null before the first job has ended.
    finished_per_second double precision,
    tokens_per_second double precision,
    -- Of the jobs that ended, the share that was begun within five minutes.
    started_soon double precision
);

-- What happened, to be told: written in the transaction in which it happened, taken by the events room.
create table outbox (
    id uuid primary key,
    account text not null,
    type text not null,
    created_at timestamptz not null default now(),
    data jsonb not null
);
