-- name: finish
with ends as materialized (
    select * from unnest(
        %s::uuid[], %s::integer[], %b::bytea[], %s::text[], %s::text[], %s::text[], %s::smallint[],
        %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[]
    ) as e (
        id, epoch, result, result_object, code, message, status,
        prompt_tokens, completion_tokens, cached_tokens, charge_nanousd, replica
    )
), cancelled as (
    select %s::text as code, %s::text as message, %s::smallint as status
), locked as materialized (
    select j.id, j.held as was_held, j.is_cancelling as is_unwanted
    from ends e join jobs j on j.id = e.id and j.epoch = e.epoch
    where j.state = 'running'
    order by j.id
    for update of j
), ended as (
    update jobs j set
        state = case
            when l.is_unwanted then 'cancelled' when e.code is null then 'succeeded' else 'failed'
        end,
        finished_at = now(), lease_until = null, is_cancelling = false, payload = '', held = 0,
        result = case when l.is_unwanted then '' else e.result end,
        result_object = e.result_object,
        failure_code = case when l.is_unwanted then c.code else e.code end,
        failure_message = case when l.is_unwanted then c.message else e.message end,
        failure_status = case when l.is_unwanted then c.status else e.status end,
        last_error_code = case
            when l.is_unwanted or e.code is null then j.last_error_code else e.code
        end,
        last_error_message = case
            when l.is_unwanted or e.code is null then j.last_error_message else e.message
        end,
        prompt_tokens = case when not l.is_unwanted then e.prompt_tokens end,
        completion_tokens = case when not l.is_unwanted then e.completion_tokens end,
        cached_tokens = case when not l.is_unwanted then e.cached_tokens end,
        charge_nanousd = case when l.is_unwanted then 0 else e.charge_nanousd end,
        replica = e.replica
    from locked l join ends e on e.id = l.id, cancelled c
    where j.id = l.id and j.state = 'running' and j.epoch = e.epoch
    returning j.*, l.was_held
)

-- name: cancel
with locked as materialized (
    select id, state as was, held as was_held from jobs
    where id = %s and account = coalesce(%s, account) and state in ('queued', 'running')
    for update
)

-- name: cancel_batch
with locked as materialized (
    select id, state as was, held as was_held from jobs
    where batch = %s and (state = 'queued' or (state = 'running' and not is_cancelling))
    order by id
    limit %s
    for update
)

-- name: cancel_locked
, asked as (
    update jobs j set is_cancelling = true
    from locked l where j.id = l.id and j.state = 'running' and l.was = 'running'
    returning j.*, l.was_held
), stopped as (
    update jobs j set
        state = 'cancelled', finished_at = now(), payload = '', held = 0, is_deferred = false,
        failure_code = %s, failure_message = %s, failure_status = %s
    from locked l where j.id = l.id and j.state = 'queued' and l.was = 'queued'
    returning j.*, l.was_held
), ended as (
    select * from asked union all select * from stopped
)

-- name: ended
-- In the order of the fields of after_job_end.FinishedJob.
select
    id::text, account, key, model, priority, batch::text, state, tokens, weight,
    prompt_tokens + completion_tokens, was_held, limits, workflow, session, failure_code,
    failure_message, door
from ended

-- name: held
select attempts, is_cancelling, extract(epoch from deadline - now())::float8 from jobs
where id = %s and epoch = %s and state = 'running'
for update

-- name: try_again
update jobs set
    state = 'queued', lease_until = null, keeper = '', is_deferred = true,
    not_before = now() + make_interval(secs => %s),
    last_error_code = %s, last_error_message = %s
where id = %s and epoch = %s and state = 'running'

-- name: lapsed
with ends as (
    select * from unnest(%s::text[], %s::text[], %s::text[], %s::smallint[])
        as e (state, code, message, status)
), locked as materialized (
    select id, held as was_held, case
        when is_cancelling then 'cancelled' when deadline <= now() then 'expired'
        when attempts >= %s then 'failed' else 'queued'
    end as becomes
    from jobs
    where state = 'running' and lease_until < now()
    order by lease_until
    limit %s
    for update skip locked
), requeued as (
    update jobs j set
        state = 'queued', lease_until = null, keeper = '',
        last_error_code = e.code, last_error_message = e.message
    from locked l join ends e on e.state = l.becomes
    where j.id = l.id and j.state = 'running' and l.becomes = 'queued'
    returning j.*, l.was_held
), given_up as (
    update jobs j set
        state = l.becomes, finished_at = now(), lease_until = null, is_cancelling = false,
        payload = '', held = 0,
        failure_code = e.code, failure_message = e.message, failure_status = e.status,
        last_error_code = case when l.becomes = 'failed' then e.code else j.last_error_code end,
        last_error_message = case
            when l.becomes = 'failed' then e.message else j.last_error_message
        end
    from locked l join ends e on e.state = l.becomes
    where j.id = l.id and j.state = 'running' and l.becomes <> 'queued'
    returning j.*, l.was_held
), ended as (
    select * from requeued union all select * from given_up
)

-- name: past_deadline
with locked as materialized (
    select id, held as was_held from jobs
    where state = 'queued' and deadline <= now()
    order by deadline
    limit %s
    for update skip locked
), ended as (
    update jobs j set
        state = 'expired', finished_at = now(), payload = '', held = 0, is_deferred = false,
        failure_code = %s, failure_message = %s, failure_status = %s
    from locked l where j.id = l.id and j.state = 'queued'
    returning j.*, l.was_held
)
