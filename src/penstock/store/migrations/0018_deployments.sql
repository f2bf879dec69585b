-- Deployments: what operators want of a model, its revisions, and where replicas are placed.

-- Every writer of the tables below takes the next number first, so that writers are serialised.
create table deployments_revision (
    is_only boolean primary key default true check (is_only),
    revision bigint not null
);
insert into deployments_revision (revision) values (0);

create table deployments (
    name text primary key,
    -- The newest revision.
    revision integer not null,
    -- The launch that is wanted: the first revision that starts replicas in this way.
    launch integer not null,
    -- The launch that served well last; null before any has.
    stable integer,
    -- How many replicas are wanted now.
    target integer not null,
    stage text not null default 'done',
    stage_since timestamptz not null default now(),
    -- Why the rollout stands so, and why replicas have no place; for people.
    reason text not null default '',
    waits text not null default '',
    is_paused boolean not null default false,
    is_removed boolean not null default false
);

create table deployment_revisions (
    deployment text not null references deployments (name) on delete cascade,
    revision integer not null,
    launch integer not null,
    model text not null,
    -- What the operator wrote.
    spec jsonb not null,
    -- How replicas are started: the catalogue's recipe with the operator's arguments.
    recipe jsonb not null,
    -- The key that made it, and why.
    made_by text not null,
    why text not null,
    made_at timestamptz not null default now(),
    primary key (deployment, revision)
);

-- One wanted replica on one host. Its keeper starts and replaces it while the row is there.
create table assignments (
    id uuid primary key,
    deployment text not null references deployments (name),
    launch integer not null,
    keeper text not null,
    host text not null,
    gpus integer not null,
    made_at timestamptz not null default now(),
    -- Why its replica is to end; '' while it is wanted.
    ending text not null default '',
    ending_at timestamptz
);
create index assignments_by_keeper on assignments (keeper);

alter table replicas
    add column assignment text not null default '',
    -- The accounts that it serves; empty: all.
    add column accounts text[] not null default '{}';

alter table hosts
    -- What its keeper starts: the replicas of its own 'settings', or those of 'deployments'.
    add column obeys text not null default 'settings';
