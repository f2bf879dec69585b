-- Responses that are kept for their callers, written by the sessions room. What callers and models
-- wrote is encrypted (0012); it is in the row, or in object storage under the name beside it.

-- The day is the one in the response's own id: whoever knows an id knows its partition.
create table responses (
    day date not null,
    id uuid not null,
    account text not null,
    key text not null,
    model text not null,
    -- The response that this one goes on from, the first of its chain, and how many are before it.
    previous uuid,
    root uuid not null,
    depth integer not null check (depth >= 0),
    status text not null check (
        status in ('queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled')
    ),
    created_at timestamptz not null,
    -- The items that its own request sent, and the response as clients get it.
    input bytea not null,
    input_object text not null,
    response bytea not null,
    response_object text not null,
    -- A background response has the id of its job. What the job's end adds to the response stands
    -- apart, so that nothing is written twice; an error has a code and a message, and no content.
    is_background boolean not null default false,
    ending bytea not null default '',
    ending_object text not null default '',
    error jsonb,
    -- The conversation that it is written into, and the epoch of its right to do so.
    conversation uuid,
    tenure_epoch bigint,
    -- All together, for quotas.
    bytes bigint not null,
    primary key (day, id)
) partition by range (day);
create index responses_of_account on responses (account, day, id);
create index responses_queued on responses (created_at) where is_background and status = 'queued';

create function make_responses_day(wanted date) returns void
language plpgsql as $$
declare
    name text := 'responses_' || to_char(wanted, 'YYYYMMDD');
begin
    perform pg_advisory_xact_lock(hashtext(name));
    if to_regclass(name) is null then
        execute format('create table %I (like responses including defaults including constraints)', name);
        execute format(
            'alter table responses attach partition %I for values from (%L) to (%L)',
            name, wanted, wanted + 1
        );
    end if;
end $$;

-- Drops the partitions before a day; their objects must be deleted first.
create function drop_responses_days(before date) returns integer
language plpgsql as $$
declare
    name text;
    dropped integer := 0;
begin
    for name in
        select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'responses'::regclass
            and c.relname < 'responses_' || to_char(before, 'YYYYMMDD')
    loop
        execute format('drop table %I', name);
        dropped := dropped + 1;
    end loop;
    delete from stored_bytes where day < before;
    return dropped;
end $$;

-- What an account has kept of each day, so that a quota needs no scan. In several rows, because each
-- response changes one, and those of one row wait for each other.
create table stored_bytes (
    account text not null,
    day date not null,
    slot smallint not null,
    bytes bigint not null,
    primary key (account, day, slot)
);

-- Whether a Responses request that does not say `store` is kept. A cell that was in use before there
-- were stored responses goes on keeping nothing until its operator decides.
create table cell_defaults (
    is_only boolean primary key default true check (is_only),
    stores_responses boolean not null
);
insert into cell_defaults (stores_responses) select not exists (select 1 from accounts);

-- `penstock account set --storage never`: nothing of the account is ever kept.
alter table accounts add column storage text not null default 'cell'
    check (storage in ('cell', 'never'));
