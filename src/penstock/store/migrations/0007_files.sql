-- Files and the batches made of them, written by the queue room. What is in a file is an object.

-- The row comes first, so that no object is ever without one: what was not received whole is deleted
-- like what has expired.
create table files (
    id text primary key,
    account text not null references accounts (id),
    purpose text not null check (purpose in ('batch', 'batch_output')),
    filename text not null,
    object text not null,
    bytes bigint not null default 0,
    lines integer not null default 0,
    is_ready boolean not null default false,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null
);
create index files_by_account on files (account, created_at, id) where is_ready;
create index files_by_expiry on files (expires_at);

-- What a batch of OpenAI's kind has beside its row in job_batches: a file of requests that is read
-- line by line into jobs, and two files of answers. Whoever works on it (reads it in, writes its
-- answers) holds its lease; `epoch` tells a late writer that another one has it now.
create table file_batches (
    id uuid primary key references job_batches (id) on delete cascade,
    -- Lines of the input that are jobs or refused by now; and how many of them were refused.
    lines_read integer not null default 0,
    refused integer not null default 0,
    -- What is wrong with the file as a whole.
    errors jsonb not null default '[]',
    output_file text,
    error_file text,
    output_keep_seconds integer,
    in_progress_at timestamptz,
    cancelling_at timestamptz,
    finalizing_at timestamptz,
    -- How it ended, and when its answers could be read.
    outcome text check (outcome in ('completed', 'failed', 'expired', 'cancelled')),
    closed_at timestamptz,
    not_before timestamptz not null default now(),
    lease_until timestamptz,
    epoch bigint not null default 0,
    check ((outcome is null) = (closed_at is null))
);
create index file_batches_open on file_batches (not_before) where outcome is null;

-- Lines that are no job: each is answered in the error file.
create table refused_lines (
    batch uuid not null references file_batches (id) on delete cascade,
    item integer not null,
    custom_id text,
    code text not null,
    message text not null,
    param text,
    status integer not null,
    primary key (batch, item)
);
