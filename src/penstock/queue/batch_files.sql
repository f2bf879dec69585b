-- name: batch
select
    b.id::text, b.account, b.key, b.endpoint, b.input_file, b.metadata,
    extract(epoch from b.created_at)::float8, extract(epoch from b.deadline)::float8,
    b.is_sealed, b.is_cancelling, b.total, b.open_jobs, b.succeeded, b.expired,
    f.lines_read, f.refused, f.errors, f.output_file, f.error_file, f.output_keep_seconds,
    extract(epoch from f.in_progress_at)::float8, extract(epoch from f.cancelling_at)::float8,
    extract(epoch from f.finalizing_at)::float8, extract(epoch from f.closed_at)::float8,
    f.outcome, f.epoch
from file_batches f join job_batches b using (id)
where

-- name: claim
-- What is to be read in, or has no open job left; the one that has waited longest.
update file_batches set
    lease_until = now() + make_interval(secs => %s), epoch = epoch + 1,
    finalizing_at = case when picked.is_sealed then coalesce(finalizing_at, now()) end
from (
    select f.id, b.is_sealed from file_batches f join job_batches b using (id)
    where f.outcome is null and f.not_before <= now()
        and (f.lease_until is null or f.lease_until <= now())
        and (not b.is_sealed or b.open_jobs = 0)
    order by f.not_before limit 1
    for update of f skip locked
) picked
where file_batches.id = picked.id
returning file_batches.id::text

-- name: refuse
insert into refused_lines (batch, item, custom_id, code, message, param, status)
select %s::uuid, r.* from unnest(
    %s::integer[], %s::text[], %s::text[], %s::text[], %s::text[], %s::integer[]
) as r (item, custom_id, code, message, param, status)
-- One that a worker made a job before it died is no refused line, whatever has become of it since.
where not exists (select from jobs j where j.batch = %s::uuid and j.item = r.item)
on conflict (batch, item) do nothing

-- name: took
update file_batches set
    lines_read = greatest(lines_read, %s), lease_until = now() + make_interval(secs => %s),
    refused = (select count(*) from refused_lines where batch = %s)
where id = %s and epoch = %s and outcome is null

-- name: renew
update file_batches set lease_until = now() + make_interval(secs => %s)
where id = %s and epoch = %s and outcome is null

-- name: release
update file_batches set
    lease_until = null, not_before = now() + make_interval(secs => %s),
    in_progress_at = case when %s then coalesce(in_progress_at, now()) else in_progress_at end
where id = %s and epoch = %s and outcome is null

-- name: close
update file_batches set
    outcome = %s, closed_at = now(), lease_until = null, output_file = %s, error_file = %s,
    errors = %s::jsonb
where id = %s and epoch = %s and outcome is null

-- name: first_unread
-- Jobs may be there of lines that are not noted as read: the worker died, or found no more room.
select greatest(
    f.lines_read, (select coalesce(max(j.item) + 1, 0) from jobs j where j.batch = f.id)
)
from file_batches f where f.id = %s

-- name: refused_lines
select item, custom_id, code, message, param, status from refused_lines
where batch = %s and item > %s order by item limit %s
