-- The roster: the replicas there are, written by the fleet room and read by every gateway.

-- Used as policy_revision is (see 0001): a writer takes the next number inside its transaction and
-- stamps its rows with it, so a reader that asks for `revision > N` misses nothing.
create table roster_revision (
    is_only boolean primary key default true check (is_only),
    revision bigint not null
);
insert into roster_revision (revision) values (0);

-- Ids are never reused. Rows of replicas that are gone stay for a while, so that every gateway hears
-- of their end, and are then deleted by the fleet room.
create table replicas (
    id text primary key,
    model text not null,
    url text not null,
    served_name text not null,
    dialect text not null,
    state text not null check (state in ('starting', 'ready', 'draining', 'gone')),
    slots_live integer not null check (slots_live > 0),
    -- A late actor of an older generation is refused by comparing this.
    generation bigint not null,
    host text not null,
    keeper text not null,
    -- For people: what it is waiting for, or why it ended.
    detail text not null default '',
    started_at timestamptz not null default now(),
    heartbeat_at timestamptz not null default now(),
    changed_at timestamptz not null default now(),
    revision bigint not null
);
create index replicas_by_revision on replicas (revision, id);
create index replicas_by_keeper on replicas (keeper);
