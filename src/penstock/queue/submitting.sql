-- name: lock_account
-- Submissions of one account go one after the other: what the next sees is what this one left.
select pg_advisory_xact_lock(hashtextextended(%s, 2))

-- name: place
with mine as (
    insert into fair_tags as f (model, priority, account, tag, weight, open_jobs)
    values (%s, %s, %s, 0, %s, 0)
    on conflict (model, priority, account) do update set weight = excluded.weight
    returning f.model, f.priority, f.account, f.tag
)
select
    greatest(m.tag, coalesce((
        select c.virtual_time from fair_clocks c where c.model = m.model and c.priority = m.priority
    ), 0)),
    coalesce((select sum(t.open_jobs) from fair_tags t where t.account = m.account), 0)::bigint
from mine m

-- name: add
with ask as materialized (
    select
        %s::text as account, %s::text as key, %s::text as model, %s::text as door,
        %s::smallint as priority, %s::uuid as batch, to_timestamp(%s) as deadline,
        %s::integer as weight, %s::double precision as start, %s::bigint as room
), given as materialized (
    select g.*, coalesce(
        (select j.id from jobs j, ask
            where j.account = ask.account and j.idempotency_key = g.idempotency_key),
        (select j.id from jobs j, ask where j.batch = ask.batch and j.item = g.item),
        (select j.id from jobs j where j.id = g.id)
    ) as known
    from unnest(
        %s::uuid[], %s::integer[], %s::text[], %s::text[], %s::bigint[], %s::bigint[],
        %b::bytea[], %s::text[], %b::bytea[], %s::bigint[], %s::text[], %s::text[], %s::text[]
    ) with ordinality as g (
        id, item, reference, idempotency_key, tokens, opening,
        payload, payload_object, ticket, held, limits, workflow, session, n
    )
), fresh as materialized (
    select g.*, sum(g.tokens) over (order by g.n) as tokens_so_far from given g where known is null
), added as (
    insert into jobs (
        id, account, key, model, door, priority, batch, item, reference, idempotency_key, deadline,
        tag, tokens, weight, opening, payload, payload_object, ticket, held, limits, workflow, session
    )
    select
        f.id, ask.account, ask.key, ask.model, ask.door, ask.priority, ask.batch, f.item,
        f.reference, f.idempotency_key, ask.deadline,
        ask.start + f.tokens_so_far::double precision / ask.weight, f.tokens, ask.weight, f.opening,
        f.payload, f.payload_object, f.ticket, f.held, f.limits::bigint[], f.workflow, f.session
    from fresh f, ask
    where (select count(*) from fresh) <= ask.room
    -- An index scan that meets rows in the order of their tags is what claims live on.
    order by f.n
    returning id, tag
), tagged as (
    update fair_tags t
    set tag = greatest(t.tag, added_up.tag), open_jobs = t.open_jobs + added_up.jobs
    from ask, (select max(tag) as tag, count(*) as jobs from added) added_up
    where t.model = ask.model and t.priority = ask.priority and t.account = ask.account
        and added_up.jobs > 0
), counted as (
    update job_batches b set total = b.total + n.jobs, open_jobs = b.open_jobs + n.jobs
    from ask, (select count(*) as jobs from added) n
    where b.id = ask.batch and n.jobs > 0
)
select coalesce(g.known, g.id)::text, g.known is null, a.id is not null
from given g left join added a on a.id = g.id
order by g.n
