-- Accounts and their keys, written by the policy room, and the cell's own secret.

-- One row for ever. The secret salts the engines' prefix caches per account, so it must be the same
-- on every gateway and must not change. Two version 4 UUIDs carry 244 random bits and need no
-- extension.
create table cell (
    is_only boolean primary key default true check (is_only),
    secret bytea not null check (length(secret) = 32)
);
insert into cell (secret) values (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- Every writer of accounts or keys takes the next number from this one row inside its transaction,
-- and stamps the rows it writes with it:
--     update policy_revision set revision = revision + 1 returning revision
-- The update locks the row until the transaction ends, so numbers become visible in the order in
-- which they were given: whoever reads the counter as N sees every row up to N, and may from then on
-- ask only for `revision > N`. A sequence or a timestamp cannot promise that, for a transaction that
-- took its number first may commit last, and its row would be passed over.
create table policy_revision (
    is_only boolean primary key default true check (is_only),
    revision bigint not null
);
insert into policy_revision (revision) values (0);

create table accounts (
    id text primary key,
    name text not null,
    is_blocked boolean not null default false,
    created_at timestamptz not null default now(),
    revision bigint not null
);
create index accounts_by_revision on accounts (revision, id);

create table keys (
    id text primary key,
    -- Operator keys belong to the installation and have no account; runtime keys have one.
    account_id text references accounts (id),
    role text not null check (role in ('runtime', 'operator')),
    name text not null,
    -- The secret itself is shown once, at creation, and kept nowhere.
    secret_sha256 bytea not null unique check (length(secret_sha256) = 32),
    created_at timestamptz not null default now(),
    revoked_at timestamptz,
    revision bigint not null,
    check ((role = 'operator') = (account_id is null))
);
create index keys_by_revision on keys (revision, id);
create index keys_by_account on keys (account_id);
