-- name: count
with models as (
    select model, sum(open_jobs)::bigint as open_jobs from fair_tags group by model
), running as (
    select model, count(*) as jobs from jobs where state = 'running' group by model
), since as (
    select coalesce(max(measured_at), now()) as measured_at from flex_stats
), ended as (
    select
        j.model,
        count(*) filter (where j.state in ('succeeded', 'failed')) as finished,
        coalesce(sum(j.prompt_tokens + j.completion_tokens), 0)::bigint as tokens,
        -- What was cancelled while it waited says nothing; what expired was not begun in time.
        count(*) filter (where j.started_at is not null or j.state = 'expired') as begun,
        count(*) filter (where j.started_at < j.created_at + interval '5 minutes') as begun_soon
    from jobs j, since
    where j.finished_at > since.measured_at and j.finished_at <= now()
    group by j.model
)
select
    m.model, greatest(m.open_jobs - coalesce(r.jobs, 0), 0), coalesce(r.jobs, 0),
    extract(epoch from now() - since.measured_at)::float8,
    coalesce(e.finished, 0), coalesce(e.tokens, 0), coalesce(e.begun, 0), coalesce(e.begun_soon, 0),
    s.finished_per_second, s.tokens_per_second, s.started_soon
from since, models m
left join running r using (model)
left join ended e using (model)
left join flex_stats s using (model)
order by m.model

-- name: write
insert into flex_stats as s (
    model, measured_at, queued, running, oldest_created_at, finished_per_second, tokens_per_second,
    started_soon
)
select
    c.model, now(), c.queued, c.running,
    (select min(j.created_at) from jobs j where j.model = c.model and j.state = 'queued'),
    c.finished_per_second, c.tokens_per_second, c.started_soon
from unnest(
    %s::text[], %s::bigint[], %s::bigint[], %s::float8[], %s::float8[], %s::float8[]
) as c (model, queued, running, finished_per_second, tokens_per_second, started_soon)
on conflict (model) do update set
    measured_at = excluded.measured_at, queued = excluded.queued, running = excluded.running,
    oldest_created_at = excluded.oldest_created_at,
    finished_per_second = excluded.finished_per_second,
    tokens_per_second = excluded.tokens_per_second, started_soon = excluded.started_soon

-- name: read
select
    model, queued, running, extract(epoch from oldest_created_at)::float8, finished_per_second,
    tokens_per_second, started_soon, extract(epoch from measured_at)::float8
from flex_stats order by model limit 10000

-- name: share
select
    t.weight::float8 / greatest((
        select sum(o.weight) from fair_tags o
        where o.model = t.model and o.priority = t.priority and o.open_jobs > 0
    ), t.weight),
    coalesce(s.queued, 0), s.finished_per_second,
    coalesce(c.is_paused or c.in_flight_max = 0, false),
    extract(epoch from j.deadline - now())::float8
from jobs j
join fair_tags t using (model, priority, account)
left join flex_stats s using (model)
left join flex_controls c using (model)
where j.id = %s and j.state = 'queued'
