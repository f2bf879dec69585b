-- What operators ask of keepers, what engines do now, and usage by replica.

alter table hosts
    -- A cordoned host starts nothing new; a draining one also ends what it runs.
    add column is_cordoned boolean not null default false,
    add column is_draining boolean not null default false;

alter table replicas
    -- What an operator asked of its keeper: '', 'drain' or 'restart'.
    add column asked text not null default '',
    -- What its engine reported last, for people and for scaling.
    add column load jsonb not null default '{}';

-- Parts of engines' logs that operators asked keepers for, encrypted with the cell's key.
create table replica_logs (
    id uuid primary key,
    replica text not null,
    -- Where to read on; null for the end of the log.
    after bigint,
    asked_at timestamptz not null default now(),
    text bytea,
    position bigint
);
create index replica_logs_unanswered on replica_logs (replica) where position is null;

-- Hourly sums by replica, as usage_hours has them by account, key, model, tier and workflow.
create table replica_hours (
    hour timestamptz not null,
    replica text not null,
    account text not null,
    model text not null,
    tier text not null,
    requests bigint not null,
    attempts bigint not null,
    ok bigint not null,
    client_left bigint not null,
    failed bigint not null,
    interrupted bigint not null,
    retried bigint not null,
    retried_ok bigint not null,
    prompt_tokens bigint not null,
    prompt_tokens_known bigint not null,
    cached_tokens bigint not null,
    output_tokens bigint not null,
    charge_nanousd bigint not null,
    saved_nanousd bigint not null,
    first_token bigint[] not null,
    primary key (replica, hour, account, model, tier)
);
create index replica_hours_by_hour on replica_hours (hour);
