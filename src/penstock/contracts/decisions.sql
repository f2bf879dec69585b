-- name: stage
create temporary table if not exists staged_decisions (previous text, hash text, line jsonb)
on commit delete rows

-- name: copy
copy staged_decisions from stdin

-- name: insert
-- The positions are those of contracts.decision_chain.DecisionLine.
with fresh as (
    insert into decisions (
        keep, day, holder, sequence, at, request, account, key, workflow, contract, kind, verdict,
        is_observed, subjects, reason, facts, actor, previous, hash
    )
    select
        line->>0, (written.at at time zone 'UTC')::date, (line->>1)::uuid, (line->>2)::bigint,
        written.at, nullif(line->>4, '')::uuid, line->>5, line->>6, line->>7, line->>8, line->>9,
        line->>10, (line->>11)::boolean, array(select jsonb_array_elements_text(line->12)),
        line->>13, line->14, line->>15, decode(previous, 'hex'), decode(hash, 'hex')
    from staged_decisions
    cross join lateral (
        select timestamptz 'epoch' + (line->>3)::bigint * interval '1 microsecond' as at
    ) written
    order by 1, 3, 4
    on conflict do nothing
    returning at, account, workflow, contract, kind, verdict, is_observed
)
insert into decision_hours as h (
    hour, account, workflow, contract, kind, verdict, is_observed, count
)
select
    date_trunc('hour', at, 'UTC') as hour, account, workflow, contract, kind, verdict, is_observed,
    count(*)
from fresh
group by 1, 2, 3, 4, 5, 6, 7
-- In one order everywhere, so that two drains cannot wait for each other.
order by account, hour, workflow, contract, kind, verdict, is_observed
on conflict (account, hour, workflow, contract, kind, verdict, is_observed) do update set
    count = h.count + excluded.count

-- name: sums
select contract, kind, verdict, is_observed, sum(count)::bigint from decision_hours
where hour >= %s and hour < %s and contract <> '' and (%s::text is null or account = %s)
    and (%s::text is null or workflow = %s)
group by 1, 2, 3, 4 order by 1, 5 desc, 2, 3, 4 limit 2000

-- name: drop_sums
delete from decision_hours where ctid = any (array(
    select ctid from decision_hours where hour < %s limit %s
))

-- name: end_of_chain
-- From the newest days back: a chain's end is in one of them.
select sequence, hash, (extract(epoch from at) * 1000000)::bigint from decisions
where keep = %s and holder = %s order by day desc, sequence desc limit 1

-- name: start_of_chain
select sequence, hash, 0 from decision_starts where keep = %s and holder = %s

-- name: columns
    keep, holder::text, sequence,
    -- A row that somebody added by hand may have a time that no number can hold.
    case when at between '1970-01-01' and '9999-12-31'
        then (extract(epoch from at) * 1000000)::bigint else 0 end,
    coalesce(request::text, ''), account, key, workflow, contract, kind, verdict, is_observed,
    subjects, reason, facts, actor, previous, hash

-- name: find
select {columns} from decisions where day >= %s and at >= %s and at < %s

-- name: newest
order by at desc, holder, sequence desc limit %s

-- name: days
select distinct day from decisions where keep = %s order by day

-- name: page
select {columns} from decisions
where keep = %s and day = %s and (holder, sequence) > (%s::uuid, %s)
order by holder, sequence limit %s

-- name: chain_page
select {columns} from decisions
where keep = %s and day = %s and holder = %s and sequence > %s order by sequence limit %s

-- name: starts
select keep, holder::text, sequence, hash, null from decision_starts

-- name: heads
-- The last rows of all chains that went on since a day.
select d.keep, d.holder::text, d.sequence, d.hash, d.day
from (
    select keep, holder, max(day) as day, max(sequence) as sequence from decisions
    where day >= %s group by 1, 2
) newest
join decisions d using (keep, day, holder, sequence)
order by 1, 2

-- name: sent
select keep, holder::text, max(sequence) from decision_heads group by 1, 2

-- name: note_sent
insert into decision_heads (keep, holder, sequence, hash)
select * from unnest(%s::text[], %s::uuid[], %s::bigint[], %s::bytea[])
on conflict do nothing

-- name: drop_days
select drop_decision_days(%s, %s)

-- name: drop_heads
delete from decision_heads where sent_at < %s
