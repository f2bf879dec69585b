-- name: begin
insert into turns (response, day, lapses_at)
values (%s, %s, now() + make_interval(secs => %s))

-- name: renew
update turns set lapses_at = now() + make_interval(secs => %s) where response = any(%s)

-- name: end
delete from turns where response = %s

-- name: end_lost
with lost as (
    delete from turns where response in (
        select response from turns where lapses_at < now()
        order by lapses_at limit %s for update skip locked
    )
    returning day, response
)
update responses r set status = 'failed', error = %s from lost
where r.day = lost.day and r.id = lost.response and r.status = 'in_progress'
returning r.id
