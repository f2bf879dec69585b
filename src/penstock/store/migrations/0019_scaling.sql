-- How many replicas deployments should have by their load, and who waits for a replica.

alter table deployments
    -- Since when so many replicas are wanted, and why; for cool-downs and for people.
    add column target_since timestamptz not null default now(),
    add column target_reason text not null default '',
    -- When a deployment that may go to zero last had work.
    add column busy_at timestamptz not null default now(),
    -- How long a replica's last start took; null before any has served.
    add column start_seconds double precision;

alter table replicas
    -- When it first served; null before.
    add column ready_at timestamptz;

-- Requests that wait at gateways, by the replicas that may serve them: a model, or a model and an
-- account that has replicas of its own. A gateway worker writes its own rows while anybody waits.
create table waiting_requests (
    worker text not null,
    pool text not null,
    waiting integer not null,
    at timestamptz not null default now(),
    primary key (worker, pool)
);
