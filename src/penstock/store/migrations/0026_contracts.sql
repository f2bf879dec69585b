-- Contracts of workflows, written by the contracts room. A set is all contracts at one time; sets
-- are never changed, and going back makes a new set of an old one's contents.
create table contract_sets (
    id bigint generated always as identity primary key,
    applied_at timestamptz not null default now(),
    -- The id of the key that applied it; "" where a command went to the database itself.
    actor text not null,
    message text not null,
    -- The set whose contents it has, if it was made by going back.
    from_set bigint,
    schema smallint not null
);

create table contracts (
    set_id bigint not null references contract_sets,
    name text not null,
    -- Grows when the contract's meaning changes, not with every set.
    version integer not null check (version > 0),
    -- The TOML as it was written.
    document text not null,
    primary key (set_id, name)
);
create index contracts_by_name on contracts (name, version);

-- The set that is in force; 0 is none. Gateways read it every few seconds.
create table contract_revision (
    is_only boolean primary key default true check (is_only),
    set_id bigint not null default 0
);
insert into contract_revision default values;

-- The only workflow that a key's requests may belong to; "" is any.
alter table keys add column workflow text not null default '';
