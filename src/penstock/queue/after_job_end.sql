-- name: correct_tags
with ends as (
    select * from unnest(%s::text[], %s::smallint[], %s::text[], %s::bigint[], %s::float8[])
        as e (model, priority, account, jobs, correction)
), locked as materialized (
    select t.model, t.priority, t.account, e.jobs, e.correction
    from fair_tags t join ends e using (model, priority, account)
    order by t.model, t.priority, t.account
    for update of t
)
update fair_tags t set open_jobs = t.open_jobs - l.jobs, tag = t.tag + l.correction
from locked l
where t.model = l.model and t.priority = l.priority and t.account = l.account

-- name: pull_tags_back
-- To the highest that is still queued, but never behind the clock.
with ends as (
    select * from unnest(%s::text[], %s::smallint[], %s::text[], %s::bigint[], %s::float8[])
        as e (model, priority, account, jobs, correction)
), locked as materialized (
    select t.model, t.priority, t.account, e.jobs
    from fair_tags t join ends e using (model, priority, account)
    order by t.model, t.priority, t.account
    for update of t
)
update fair_tags t set
    open_jobs = t.open_jobs - l.jobs,
    tag = greatest(
        coalesce((
            select c.virtual_time from fair_clocks c
            where c.model = l.model and c.priority = l.priority
        ), 0),
        coalesce((
            select max(j.tag) from jobs j
            where j.account = l.account and j.model = l.model and j.priority = l.priority
                and j.state = 'queued'
        ), 0)
    )
from locked l
where t.model = l.model and t.priority = l.priority and t.account = l.account

-- name: count_batches
with ends as (
    select * from unnest(%s::uuid[], %s::integer[], %s::integer[], %s::integer[], %s::integer[])
        as e (id, succeeded, failed, cancelled, expired)
), locked as materialized (
    select b.id, e.succeeded, e.failed, e.cancelled, e.expired
    from job_batches b join ends e using (id)
    order by b.id
    for update of b
)
update job_batches b set
    open_jobs = b.open_jobs - l.succeeded - l.failed - l.cancelled - l.expired,
    succeeded = b.succeeded + l.succeeded, failed = b.failed + l.failed,
    cancelled = b.cancelled + l.cancelled, expired = b.expired + l.expired
from locked l where b.id = l.id
