-- Keys of auditors, who read what operators may read and change nothing; and the running processes.

-- Neither an operator's nor an auditor's key has an account.
alter table keys
    drop constraint keys_role_check,
    drop constraint keys_check,
    add constraint keys_role_check check (role in ('runtime', 'operator', 'auditor')),
    add constraint keys_check check ((role = 'runtime') = (account_id is not null));

-- Gateway workers, keepers and control processes of this cell. Each writes its own row.
create table workers (
    holder uuid primary key,
    kind text not null,
    host text not null,
    version text not null,
    started_at timestamptz not null default now(),
    beat_at timestamptz not null default now(),
    -- What it says of itself, for people.
    facts jsonb not null default '{}'
);
