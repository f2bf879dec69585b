-- How far control has verified the log of decisions, and the breaks that it found: contracts/chain_watch.py.

-- The last row of each chain that was verified.
create table decision_checks (
    keep text not null,
    holder uuid not null,
    day date not null,
    sequence bigint not null,
    hash bytea not null,
    primary key (keep, holder)
);
create index decision_checks_by_day on decision_checks (day);

-- Where the reading of the whole log stands, which begins anew at its end. No row: at the beginning.
create table decision_rereads (
    is_only boolean primary key default true check (is_only),
    keep text not null,
    day date not null,
    holder uuid not null,
    sequence bigint not null
);

create table decision_breaks (
    keep text not null,
    holder uuid not null,
    -- The first row that is missing, changed or out of place.
    sequence bigint not null,
    problem text not null,
    found_at timestamptz not null default now(),
    -- Until when gateways report it.
    reported_until timestamptz not null,
    primary key (keep, holder, sequence, problem)
);
