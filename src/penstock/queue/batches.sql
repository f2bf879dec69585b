-- name: open
insert into job_batches (
    id, account, key, door, model, idempotency_key, deadline, endpoint, completion_window,
    input_file, metadata, is_sealed
)
values (%s, %s, %s, %s, %s, %s, to_timestamp(%s), %s, %s, %s, %s::jsonb, %s)
on conflict do nothing

-- name: known
select id::text from job_batches where id = %s or (account = %s and idempotency_key = %s)

-- name: facts
-- In the order of the fields of Batch.
select
    b.id::text, b.account, b.key, b.door, b.model, b.state,
    extract(epoch from b.created_at)::float8, extract(epoch from b.deadline)::float8,
    extract(epoch from b.ended_at)::float8, b.endpoint, b.completion_window, b.input_file,
    b.metadata, b.is_sealed, b.is_cancelling, b.total,
    b.open_jobs, (select count(*) from jobs j where j.batch = b.id and j.state = 'running'),
    b.succeeded, b.failed, b.cancelled, b.expired

-- name: by_id
from job_batches b where b.id = %s and b.account = coalesce(%s, b.account)

-- name: ready
from job_batches b
where b.state = 'open' and b.is_sealed and b.open_jobs = 0 and b.door = %s
order by b.created_at limit %s
for update skip locked

-- name: seal
update job_batches set is_sealed = true where id = %s and state = 'open'

-- name: end
update job_batches set state = 'ended', ended_at = now()
where id = any (%s::uuid[]) and state = 'open' and open_jobs = 0
returning id::text

-- name: first_failure
select failure_code, failure_message, failure_status from jobs
where batch = %s and failure_code is not null order by item limit 1
