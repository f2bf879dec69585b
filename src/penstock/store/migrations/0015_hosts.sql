-- Hosts: one row for each keeper, which reports its machine and GPUs.
create table hosts (
    -- The id in the keeper's state folder.
    keeper text primary key,
    name text not null,
    address text not null,
    labels jsonb not null,
    -- Index, id (UUID), name, memory and its use.
    gpus jsonb not null,
    -- Why wanted replicas are not started, by model; for people.
    waiting jsonb not null,
    versions jsonb not null,
    heartbeat_at timestamptz not null default now()
);

-- Whether launched engines get keys. Gateways of an earlier release do not know them, so a cell that
-- was in use before goes on without keys until its operator decides.
alter table cell_defaults add column gives_engine_keys boolean not null default false;
update cell_defaults set gives_engine_keys = not exists (select 1 from accounts);

-- The GPUs that a replica holds, and the key that its engine wants, encrypted with the cell's key.
alter table replicas
    add column gpus text[] not null default '{}',
    add column engine_key bytea not null default '';
