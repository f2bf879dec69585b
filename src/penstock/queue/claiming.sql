-- name: ahead
with ahead as materialized (
    select id, priority, tag, opening, created_at from jobs
    where model = %s and state = 'queued' and not is_deferred and deadline > now()
    order by priority, tag
    limit %s
    for update skip locked
)

-- name: ahead_aged
-- Old ones near the queue's front, in fair order. Young ones may stand before them by the hundred
-- thousand, so only so many are looked at; what is further back is found by its age.
with front as materialized (
    select id, created_at, priority, tag from jobs
    where model = %s and state = 'queued' and not is_deferred and deadline > now()
    order by priority, tag
    limit %s
), ahead as materialized (
    select j.id, j.priority, j.tag, j.opening, j.created_at from jobs j
    where j.state = 'queued' and not j.is_deferred and j.id = any (array(
        select f.id from front f where f.created_at < now() - make_interval(secs => %s)
        order by f.priority, f.tag limit %s
    ))
    for update skip locked
)

-- name: ahead_oldest
with ahead as materialized (
    select id, priority, tag, opening, created_at from jobs
    where model = %s and state = 'queued' and not is_deferred and deadline > now()
        and created_at < now() - make_interval(secs => %s)
    order by created_at
    limit %s
    for update skip locked
)

-- name: take
, picked as materialized (
    select id from ahead
    -- Warm ones first, and as good as these what has been passed over while much younger ones came
    -- into view: what is always cold must not wait for ever.
    order by
        priority,
        opening = any (%s::bigint[])
            or created_at < (select max(created_at) from ahead) - make_interval(secs => %s) desc,
        tag
    limit %s
), claimed as (
    update jobs j set
        state = 'running', epoch = j.epoch + 1, attempts = j.attempts + 1, keeper = %s,
        lease_until = now() + make_interval(secs => %s), started_at = coalesce(j.started_at, now())
    from picked p where j.id = p.id
    returning j.*
), moved as (
    insert into fair_clocks as c (model, priority, virtual_time)
    select model, priority, max(tag) from claimed group by model, priority order by model, priority
    on conflict (model, priority) do update
    set virtual_time = greatest(c.virtual_time, excluded.virtual_time)
)
select
    id::text, epoch, account, key, model, priority, payload, payload_object, ticket,
    extract(epoch from created_at)::float8, extract(epoch from deadline)::float8, attempts, door
from claimed order by priority, tag

-- name: has_aged
select exists (
    select from jobs
    where model = %s and state = 'queued' and created_at < now() - make_interval(secs => %s)
)

-- name: wake
update jobs set is_deferred = false, not_before = null
where state = 'queued' and is_deferred and id = any (array(
    select id from jobs where state = 'queued' and is_deferred and not_before <= now()
    order by not_before limit %s for update skip locked
))
