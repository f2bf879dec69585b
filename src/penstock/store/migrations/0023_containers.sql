-- Containers in which code runs, the files of them that are kept, and what they cost; written by the
-- tools room. Contents of files are encrypted objects (0012); names and paths are not content.

create table containers (
    id uuid primary key,
    account text not null,
    name text not null,
    -- The address of its sandbox host, and the boot of that host in which it lives.
    host text not null,
    boot text not null,
    state text not null default 'running' check (state in ('running', 'expired', 'deleted')),
    memory_mb integer not null check (memory_mb > 0),
    idle_minutes integer not null check (idle_minutes > 0),
    driver text not null,
    isolation text not null,
    created_at timestamptz not null default now(),
    last_active_at timestamptz not null default now(),
    -- Until when code that was begun may run: the container is not idle before.
    busy_until timestamptz not null default now(),
    -- When it ends however much it is used, and when it has ended.
    ends_at timestamptz not null,
    ended_at timestamptz,
    -- Up to when its time is charged, and for how long code ran that is not charged yet.
    charged_until timestamptz not null default now(),
    exec_ms bigint not null default 0
);
create index containers_of_account on containers (account, created_at, id);
create index containers_running on containers (charged_until) where state = 'running';
create index containers_ended on containers (ended_at) where ended_at is not null;

create table container_files (
    id uuid primary key,
    container uuid not null references containers (id),
    account text not null,
    -- Below /mnt/data.
    path text not null,
    bytes bigint not null,
    source text not null check (source in ('user', 'assistant')),
    object text not null,
    created_at timestamptz not null default now(),
    -- At the latest; sooner if the container ends sooner.
    expires_at timestamptz not null,
    unique (container, path)
);
create index container_files_of_account on container_files (account);
create index container_files_by_expiry on container_files (expires_at);

-- What a container used in a day (UTC). Rows stay when the container's row is deleted.
create table container_usage (
    day date not null,
    account text not null,
    container uuid not null,
    memory_mb integer not null,
    milliseconds bigint not null,
    exec_milliseconds bigint not null,
    charge_nanousd bigint not null,
    primary key (day, account, container)
);
