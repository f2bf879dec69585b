-- name: make_day
select make_responses_day(%s)

-- name: add
with added as (
    insert into responses (
        day, id, account, key, model, previous, root, depth, status, created_at,
        input, input_object, response, response_object, bytes,
        is_background, conversation, tenure_epoch
    ) values (
        %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s
    )
    on conflict do nothing
    returning account, day, bytes
)
insert into stored_bytes (account, day, slot, bytes)
select account, day, %s, bytes from added
on conflict (account, day, slot) do update set bytes = stored_bytes.bytes + excluded.bytes

-- name: delete
with gone as (
    delete from responses where day = %s and id = %s and account = %s
    returning account, day, bytes
)
insert into stored_bytes (account, day, slot, bytes)
select account, day, %s, -bytes from gone
on conflict (account, day, slot) do update set bytes = stored_bytes.bytes + excluded.bytes

-- name: objects
select input_object, response_object, ending_object from responses
where day = %s and id = %s and account = %s

-- name: end
-- Once: a response that has ended stays as it is.
with ended as (
    update responses set status = %s, ending = %s, ending_object = %s, bytes = bytes + %s
    where day = %s and id = %s and status in ('queued', 'in_progress')
    returning account, day
)
insert into stored_bytes (account, day, slot, bytes)
select account, day, %s, %s from ended
on conflict (account, day, slot) do update set bytes = stored_bytes.bytes + excluded.bytes

-- name: stop
update responses set status = %s, error = %s
where day = %s and id = %s and status = 'queued'
returning conversation::text, tenure_epoch

-- name: left_over
-- Queued, although the job has ended or is gone.
select r.id::text, r.account from responses r left join jobs j on j.id = r.id
where r.is_background and r.status = 'queued' and (j.id is null or j.finished_at is not null)
    and r.created_at < now() - make_interval(secs => %s)
order by r.created_at limit %s

-- name: statuses
select id::text, status from responses
where (day, id) in (select * from unnest(%s::date[], %s::uuid[]))

-- name: kept_bytes
select coalesce(sum(bytes), 0)::bigint from stored_bytes where account = %s

-- name: find
select id::text, previous::text, root::text, depth, status, extract(epoch from created_at)::float8,
    input, input_object, response, response_object, bytes,
    is_background, ending, ending_object, error, conversation::text, tenure_epoch
from responses where day = %s and id = %s and account = %s

-- name: sizes
select id::text, bytes from responses
where (day, id) in (select * from unnest(%s::date[], %s::uuid[])) and account = %s

-- name: find_many
select id::text, previous::text, root::text, depth, status, extract(epoch from created_at)::float8,
    input, input_object, response, response_object, bytes,
    is_background, ending, ending_object, error, conversation::text, tenure_epoch
from responses where (day, id) in (select * from unnest(%s::date[], %s::uuid[])) and account = %s

-- name: chain
with recursive chain as (
    select r.id, r.previous, r.root, r.depth, r.status, r.created_at,
        r.input, r.input_object, r.response, r.response_object, r.bytes,
        r.is_background, r.ending, r.ending_object, r.error, r.conversation, r.tenure_epoch,
        r.bytes as total
    from responses r where r.day = %s and r.id = %s and r.account = %s
    union all
    select r.id, r.previous, r.root, r.depth, r.status, r.created_at,
        r.input, r.input_object, r.response, r.response_object, r.bytes,
        r.is_background, r.ending, r.ending_object, r.error, r.conversation, r.tenure_epoch,
        c.total + r.bytes
    from chain c join responses r on r.id = c.previous
        and r.day = (request_time(c.previous) at time zone 'UTC')::date and r.account = %s
    -- One that is too large is refused, and need not be read to its end.
    where c.total <= %s
)
select id::text, previous::text, root::text, depth, status, extract(epoch from created_at)::float8,
    input, input_object, response, response_object, bytes,
    is_background, ending, ending_object, error, conversation::text, tenure_epoch
from chain order by depth limit %s

-- name: page
select id::text, account, key, model, previous::text, status,
    extract(epoch from created_at)::float8, bytes
from responses
where (%s::text is null or account = %s) and (%s::uuid is null or (day, id) < (%s, %s))
order by day desc, id desc limit %s

-- name: describe
select id::text, account, key, model, previous::text, status,
    extract(epoch from created_at)::float8, bytes
from responses where day = %s and id = %s

-- name: objects_before
select day, id::text, input_object, response_object, ending_object from responses
where day < %s and (input_object <> '' or response_object <> '' or ending_object <> '')
    and (day, id) > (%s, %s) order by day, id limit %s

-- name: of_account
select id::text, input_object, response_object, ending_object from responses where account = %s limit %s

-- name: delete_of_account
delete from responses where account = %s and id = any(%s)

-- name: forget_bytes
delete from stored_bytes where account = %s

-- name: drop_days
select drop_responses_days(%s)

-- name: default
select stores_responses from cell_defaults
