-- name: renew
with held as materialized (
    select j.id, j.is_cancelling
    from unnest(%s::uuid[], %s::integer[]) as h (id, epoch)
    join jobs j on j.id = h.id and j.epoch = h.epoch
    where j.state = 'running'
    order by j.id
    for update of j
), renewed as (
    update jobs j set lease_until = now() + make_interval(secs => %s)
    from held where j.id = held.id and j.state = 'running'
)
select id::text, is_cancelling from held

-- name: put_back
-- One that is being cancelled is not put back: its lease ends now, and the sweep ends it.
with held as materialized (
    select j.id, j.is_cancelling
    from unnest(%s::uuid[], %s::integer[]) as h (id, epoch)
    join jobs j on j.id = h.id and j.epoch = h.epoch
    where j.state = 'running'
    order by j.id
    for update of j
), put_back as (
    update jobs j set
        state = 'queued', lease_until = null, keeper = '', attempts = j.attempts - 1,
        is_deferred = u.until is not null, not_before = u.until
    from held, (select to_timestamp(%s) as until) u
    where j.id = held.id and j.state = 'running' and not held.is_cancelling
    returning j.id
), dropped as (
    update jobs j set lease_until = now()
    from held where j.id = held.id and j.state = 'running' and held.is_cancelling
)
select id::text from put_back
