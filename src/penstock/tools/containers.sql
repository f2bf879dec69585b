-- name: columns
c.id::text, c.account, c.name, c.host, c.boot, c.state, c.memory_mb, c.idle_minutes, c.driver,
    c.isolation, extract(epoch from c.created_at)::float8,
    extract(epoch from c.last_active_at)::float8

-- name: idle_at
greatest(c.last_active_at, c.busy_until) + make_interval(mins => c.idle_minutes)

-- name: is_live
(c.state = 'running' and c.ends_at > now() and {idle_at} > now())

-- name: lock_account
select pg_advisory_xact_lock(hashtextextended('penstock containers ' || %s, 0))

-- name: count_live
select count(*) from containers c where c.account = %s and {is_live}

-- name: is_shared
select count(*) > 1 from (select 1 from accounts limit 2) known

-- name: create
insert into containers (id, account, name, host, boot, memory_mb, idle_minutes, driver, isolation,
    ends_at)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, now() + make_interval(mins => %s))

-- name: find
select {columns}, {is_live} from containers c
where c.id = %s and c.account = %s and c.state <> 'deleted'

-- name: page
select {columns}, {is_live} from containers c
where c.account = %s and c.state <> 'deleted' and (%s::text is null or c.name = %s)
    and (%s::uuid is null or c.id > %s::uuid)
order by c.id limit %s

-- name: page_newest_first
select {columns}, {is_live} from containers c
where c.account = %s and c.state <> 'deleted' and (%s::text is null or c.name = %s)
    and (%s::uuid is null or c.id < %s::uuid)
order by c.id desc limit %s

-- name: touch
update containers set last_active_at = now() where id = %s and state = 'running'

-- name: begin_call
update containers c set last_active_at = now(),
    busy_until = greatest(c.busy_until, now() + make_interval(secs => %s))
where c.id = %s and c.account = %s and {is_live}

-- name: end_call
update containers set last_active_at = now(), busy_until = now(), exec_ms = exec_ms + %s
where id = %s and state = 'running'

-- name: end
with ended as (
    update containers c set state = %s,
        ended_at = coalesce(c.ended_at, least(now(), c.ends_at, {idle_at}))
    where c.id = any(%s::uuid[]) and c.state <> 'deleted' and c.state <> %s
    returning c.id, c.ended_at
), files as (
    update container_files f
    set expires_at = least(f.expires_at, e.ended_at + make_interval(secs => %s))
    from ended e where f.container = e.id
)
select id::text from ended

-- name: ended_by_time
select c.id::text from containers c where c.state = 'running' and not {is_live} limit %s

-- name: of_hosts
select c.id::text, c.host, c.boot from containers c
where c.state = 'running' and c.host = any(%s) and c.id > %s::uuid order by c.id limit %s

-- name: cell_page
select {columns}, {is_live} from containers c
where (%s::text is null or c.account = %s) and (%s or {is_live})
    and (%s::uuid is null or c.id < %s::uuid)
order by c.id desc limit %s

-- name: find_any
select {columns}, {is_live} from containers c where c.id = %s and c.state <> 'deleted'

-- name: of_account
select {columns}, {is_live} from containers c
where c.account = %s and c.state <> 'deleted' order by c.id limit %s

-- name: unname
update containers set name = '' where account = %s and name <> ''

-- name: drop_ended
delete from containers c where c.id in (
    select o.id from containers o
    where o.ended_at < now() - make_interval(secs => %s) and o.charged_until >= o.ended_at
        and not exists (select from container_files f where f.container = o.id)
    order by o.ended_at limit %s
)

-- name: charged_to
least(now(), coalesce(c.ended_at, least(c.ends_at, {idle_at})))

-- name: take_uncharged
with due as (
    select c.id, c.account, c.memory_mb, c.created_at, c.charged_until, c.exec_ms,
        -- Not after its end, which may not be noticed yet.
        {charged_to} as until
    from containers c
    where c.charged_until < {charged_to}
        and (c.ended_at is not null or c.charged_until < now() - make_interval(secs => %s))
    order by c.charged_until limit %s for update skip locked
)
update containers c set charged_until = due.until, exec_ms = 0
from due where c.id = due.id
returning c.id::text, due.account, due.memory_mb,
    (extract(epoch from due.charged_until - due.created_at) * 1000)::bigint,
    (extract(epoch from c.charged_until - due.created_at) * 1000)::bigint,
    due.exec_ms, extract(epoch from c.charged_until)::float8

-- name: add_usage
insert into container_usage as u
    (day, account, container, memory_mb, milliseconds, exec_milliseconds, charge_nanousd)
select (to_timestamp(at) at time zone 'UTC')::date, account, container, memory_mb, ms, exec_ms,
    nanousd
from unnest(%s::float8[], %s::text[], %s::uuid[], %s::int[], %s::bigint[], %s::bigint[],
    %s::bigint[]) as used (at, account, container, memory_mb, ms, exec_ms, nanousd)
order by 1, 2, 3
on conflict (day, account, container) do update set
    milliseconds = u.milliseconds + excluded.milliseconds,
    exec_milliseconds = u.exec_milliseconds + excluded.exec_milliseconds,
    charge_nanousd = u.charge_nanousd + excluded.charge_nanousd

-- name: usage_by_account
select account, count(distinct container), sum(milliseconds)::bigint,
    sum(exec_milliseconds)::bigint, sum(charge_nanousd)::bigint
from container_usage where day >= %s and day < %s and (%s::text is null or account = %s)
group by 1 order by 5 desc, 1 limit %s

-- name: lock_files
select c.id from containers c
where c.id = %s and c.account = %s and c.state <> 'deleted' for update

-- name: files_size
select coalesce(sum(f.bytes) filter (where f.container = %s and f.path <> %s), 0)::bigint,
    count(*) filter (where f.container = %s and f.path <> %s),
    coalesce(sum(f.bytes) filter (where f.container <> %s or f.path <> %s), 0)::bigint
from container_files f where f.account = %s

-- name: file_columns
f.id::text, f.container::text, f.account, f.path, f.bytes, f.source, f.object,
    extract(epoch from f.created_at)::float8

-- name: old_object
select object from container_files where container = %s and path = %s

-- name: put_file
insert into container_files as f
    (id, container, account, path, bytes, source, object, expires_at)
select %s, c.id, c.account, %s, %s, %s, %s,
    coalesce(c.ended_at, c.ends_at) + make_interval(secs => %s)
from containers c where c.id = %s
on conflict (container, path) do update set bytes = excluded.bytes, source = excluded.source,
    object = excluded.object, created_at = now(), expires_at = excluded.expires_at
returning {file_columns}

-- name: find_file
select {file_columns} from container_files f
where f.id = %s and f.container = %s and f.account = %s and f.expires_at > now()

-- name: files
select {file_columns} from container_files f
where f.container = %s and f.account = %s and f.expires_at > now()
    and (%s::uuid is null or f.id > %s::uuid)
order by f.id limit %s

-- name: files_newest_first
select {file_columns} from container_files f
where f.container = %s and f.account = %s and f.expires_at > now()
    and (%s::uuid is null or f.id < %s::uuid)
order by f.id desc limit %s

-- name: files_of
select id::text, object from container_files where container = %s limit %s

-- name: files_of_account
select id::text, object from container_files where account = %s limit %s

-- name: expired_files
select id::text, object from container_files where expires_at <= now() order by expires_at limit %s

-- name: delete_files
delete from container_files f
using unnest(%s::uuid[], %s::text[]) as old (id, object)
where f.id = old.id and f.object = old.object
