-- Content at rest is encrypted (penstock.store.sealing): the data keys of accounts, each encrypted
-- with the cell's key, which is a file and never here.
create table account_keys (
    account text primary key,
    wrapped bytea not null,
    created_at timestamptz not null default now()
);

-- A digest of the cell's key, so that a process with another key finds out before it writes.
create table cell_key (
    is_only boolean primary key default true check (is_only),
    mark bytea not null
);
