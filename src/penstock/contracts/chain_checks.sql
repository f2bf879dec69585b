-- name: days
-- Of partitions, not of rows: it reads no row of the log.
select to_date(right(c.relname, 8), 'YYYYMMDD') as day
from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = ('decisions_' || %s)::regclass order by 1

-- name: ends
-- The last row of each chain within a day. It looks each holder up in the index, whatever the
-- number of its rows.
with recursive holders as (
    (select holder from decisions where keep = %s and day = %s order by holder limit 1)
    union all
    select (
        select d.holder from decisions d
        where d.keep = %s and d.day = %s and d.holder > h.holder order by d.holder limit 1
    )
    from holders h where h.holder is not null
)
select last.keep, last.holder::text, last.sequence, last.hash, last.day
from holders h cross join lateral (
    select d.keep, d.holder, d.sequence, d.hash, d.day from decisions d
    where d.keep = %s and d.day = %s and d.holder = h.holder order by d.sequence desc limit 1
) last

-- name: verified
select keep, holder::text, sequence, hash, day from decision_checks where keep = %s and day >= %s

-- name: before
-- The nearest row before one of a chain, on one of these days.
select found.keep, found.holder::text, found.sequence, found.hash, found.day
from unnest(%s::date[]) as wanted (day) cross join lateral (
    select d.keep, d.holder, d.sequence, d.hash, d.day from decisions d
    where d.keep = %s and d.day = wanted.day and d.holder = %s and d.sequence < %s
    order by d.sequence desc limit 1
) found
order by found.sequence desc limit 1

-- name: start
select keep, holder::text, sequence, hash, null from decision_starts where keep = %s and holder = %s

-- name: lost
-- Rows that were verified and are not there any more, or differ; not those that retention dropped.
select c.keep, c.holder::text, c.sequence, d.hash is null
from decision_checks c
left join lateral (
    select hash from decisions d
    where d.keep = c.keep and d.day = c.day and d.holder = c.holder and d.sequence = c.sequence
) d on true
where c.day >= %s and d.hash is distinct from c.hash and not exists (
    select from decision_starts s
    where s.keep = c.keep and s.holder = c.holder and s.sequence >= c.sequence
)
order by 1, 2 limit %s

-- name: note_verified
insert into decision_checks as c (keep, holder, day, sequence, hash)
select * from unnest(%s::text[], %s::uuid[], %s::date[], %s::bigint[], %s::bytea[])
order by 1, 2
on conflict (keep, holder) do update set
    day = excluded.day, sequence = excluded.sequence, hash = excluded.hash
where c.sequence < excluded.sequence

-- name: drop_verified
-- Of chains that retention has dropped as a whole, and of days that no row is kept of.
delete from decision_checks c
where c.day < %s::date or exists (
    select from decision_starts s
    where s.keep = c.keep and s.holder = c.holder and s.sequence >= c.sequence
)

-- name: reread
select keep, day, holder::text, sequence from decision_rereads

-- name: note_reread
insert into decision_rereads (keep, day, holder, sequence) values (%s, %s, %s, %s)
on conflict (is_only) do update set
    keep = excluded.keep, day = excluded.day, holder = excluded.holder,
    sequence = excluded.sequence

-- name: restart_reread
delete from decision_rereads

-- name: note_break
insert into decision_breaks (keep, holder, sequence, problem, reported_until)
select %s, %s, %s, %s, %s
where (select count(*) from decision_breaks where reported_until > now()) < %s
on conflict do nothing returning sequence

-- name: drop_breaks
delete from decision_breaks where found_at < %s and reported_until < now()

-- name: count_breaks
select count(*) from decision_breaks where reported_until > now()
