-- name: stage
create temporary table if not exists drained (
    request uuid, account text, key text, model text, tier text, input_nanousd_per_mtok bigint,
    cached_input_nanousd_per_mtok bigint, output_nanousd_per_mtok bigint, multiplier_bp integer,
    attempt smallint, replica text, session text, prompt_family text, workflow text,
    is_stream boolean, client_retry smallint, caller_request text, waited_us bigint,
    limits bigint[], cached_expected integer, session_moved text, cache_break text,
    parent_id text, purpose text, contract text, task text, model_asked text,
    duration_us bigint, outcome text, error text, first_token_us bigint, streamed_us bigint,
    prompt_tokens bigint, cached_tokens bigint, is_cached_estimated boolean, output_tokens bigint,
    charge_nanousd bigint, charge_reason text
) on commit delete rows

-- name: copy
copy drained from stdin

-- name: new_workflows
select x.account
from (
    select distinct d.account, d.workflow from drained d
    where d.workflow not in ('', 'other') and not exists (
        select from workflow_names n where n.account = d.account and n.name = d.workflow
    )
) x
group by x.account
having (select count(*) from workflow_names n where n.account = x.account) < %s
order by x.account

-- name: name_workflows
insert into workflow_names (account, name)
select %s, x.name
from (
    select distinct d.workflow as name from drained d
    where d.account = %s and d.workflow not in ('', 'other') and not exists (
        select from workflow_names n where n.account = d.account and n.name = d.workflow
    )
) x
order by x.name
limit greatest(%s - (select count(*) from workflow_names n where n.account = %s), 0)
on conflict do nothing

-- name: insert
insert into usage_attempts (
    day, request, attempt, account, key, model, replica, session, prompt_family, workflow, tier,
    is_stream, client_retry, caller_request, asked_at, waited_ms, first_token_ms,
    output_tokens_per_second, duration_ms, prompt_tokens, cached_tokens, is_cached_estimated,
    output_tokens, outcome, error, input_nanousd_per_mtok, cached_input_nanousd_per_mtok,
    output_nanousd_per_mtok, multiplier_bp, charge_nanousd, charge_reason, cached_expected,
    session_moved, cache_break, parent_id, purpose, contract, task, model_asked
)
select
    (request_time(d.request) at time zone 'UTC')::date, d.request, d.attempt, d.account,
    d.key, d.model, d.replica, d.session, d.prompt_family,
    case when d.workflow = '' or n.name is not null then d.workflow else 'other' end,
    d.tier, d.is_stream, d.client_retry, d.caller_request,
    request_time(d.request), greatest(d.waited_us, 0) / 1000.0, d.first_token_us / 1000.0,
    case
        when d.output_tokens > 1 and d.streamed_us > 0
        then (d.output_tokens - 1) * 1000000.0 / d.streamed_us
    end,
    d.duration_us / 1000.0, d.prompt_tokens,
    d.cached_tokens, d.is_cached_estimated, d.output_tokens, d.outcome, d.error,
    d.input_nanousd_per_mtok, d.cached_input_nanousd_per_mtok, d.output_nanousd_per_mtok,
    d.multiplier_bp, d.charge_nanousd, d.charge_reason, d.cached_expected, d.session_moved,
    d.cache_break, d.parent_id, d.purpose, d.contract, d.task, d.model_asked
from drained d
left join workflow_names n on n.account = d.account and n.name = d.workflow
-- In one order everywhere, so that no two who have the same attempts can wait for each other.
order by d.request, d.attempt
on conflict do nothing

-- name: sums
-- `fresh` has the attempts that changed: all of one that is new, else only its charge, once 0.
    count(*) filter (where is_new and attempt = 1), count(*) filter (where is_new),
    count(*) filter (where is_new and outcome = 'ok'),
    count(*) filter (where is_new and outcome = 'client_left'),
    count(*) filter (where is_new and outcome = 'failed'),
    count(*) filter (where is_new and outcome = 'interrupted'),
    count(*) filter (where is_new and client_retry > 0 and attempt = 1),
    count(*) filter (where is_new and client_retry > 0 and outcome = 'ok'),
    coalesce(sum(prompt_tokens) filter (where is_new), 0),
    coalesce(sum(prompt_tokens) filter (where is_new and cached_tokens is not null), 0),
    coalesce(sum(cached_tokens) filter (where is_new), 0),
    coalesce(sum(output_tokens) filter (where is_new), 0), sum(charge_nanousd),
    -- What the cached tokens would have cost beyond what they did, where they were charged.
    coalesce(sum(round(
        least(cached_tokens, prompt_tokens)::numeric
        * (input_nanousd_per_mtok - cached_input_nanousd_per_mtok) * multiplier_bp / 10000000000
    )) filter (where charge_reason in ('', 'estimated') and cached_tokens is not null), 0),
    count_buckets(
        array_agg(first_token_bucket(first_token_ms))
            filter (where is_new and first_token_ms is not null)
    )

-- name: added
    requests = h.requests + excluded.requests,
    attempts = h.attempts + excluded.attempts,
    ok = h.ok + excluded.ok,
    client_left = h.client_left + excluded.client_left,
    failed = h.failed + excluded.failed,
    interrupted = h.interrupted + excluded.interrupted,
    retried = h.retried + excluded.retried,
    retried_ok = h.retried_ok + excluded.retried_ok,
    prompt_tokens = h.prompt_tokens + excluded.prompt_tokens,
    prompt_tokens_known = h.prompt_tokens_known + excluded.prompt_tokens_known,
    cached_tokens = h.cached_tokens + excluded.cached_tokens,
    output_tokens = h.output_tokens + excluded.output_tokens,
    charge_nanousd = h.charge_nanousd + excluded.charge_nanousd,
    saved_nanousd = h.saved_nanousd + excluded.saved_nanousd,
    first_token = add_counts(h.first_token, excluded.first_token)

-- name: hours
insert into usage_hours as h (
    hour, account, key, model, tier, workflow, requests, attempts, ok, client_left, failed,
    interrupted, retried, retried_ok, prompt_tokens, prompt_tokens_known, cached_tokens,
    output_tokens, charge_nanousd, saved_nanousd, first_token
)
select
    date_trunc('hour', asked_at, 'UTC') as hour, account, key, model, tier, workflow,
{sums}
from fresh
group by 1, 2, 3, 4, 5, 6
-- In one order everywhere, so that two drains cannot wait for each other.
order by account, hour, key, model, tier, workflow
on conflict (account, hour, key, model, tier, workflow) do update set
{added}

-- name: replica_hours
insert into replica_hours as h (
    hour, replica, account, model, tier, requests, attempts, ok, client_left, failed,
    interrupted, retried, retried_ok, prompt_tokens, prompt_tokens_known, cached_tokens,
    output_tokens, charge_nanousd, saved_nanousd, first_token
)
select
    date_trunc('hour', asked_at, 'UTC') as hour, replica, account, model, tier,
{sums}
from fresh
where replica <> ''
group by 1, 2, 3, 4, 5
order by replica, hour, account, model, tier
on conflict (replica, hour, account, model, tier) do update set
{added}

-- name: workflow_hours
insert into workflow_hours as h (
    hour, account, workflow, contract, task, model, requests, session_turns, moved_load,
    moved_drain, moved_lost, session_retries, session_retries_stayed, cache_breaks,
    prompt_tokens_compared, cached_tokens_expected, cached_tokens_counted
)
select
    date_trunc('hour', asked_at, 'UTC') as hour, account, workflow, contract, task, model,
    count(*) filter (where attempt = 1),
    count(*) filter (where attempt = 1 and session <> ''),
    count(*) filter (where session_moved = 'load'),
    count(*) filter (where session_moved = 'drain'),
    count(*) filter (where session_moved = 'lost'),
    count(*) filter (where attempt = 1 and session <> '' and client_retry > 0),
    count(*) filter (
        where attempt = 1 and session <> '' and client_retry > 0 and session_moved = ''
    ),
    count(*) filter (where cache_break <> ''),
    coalesce(sum(prompt_tokens) filter (where is_compared), 0),
    coalesce(sum(least(cached_expected, prompt_tokens)) filter (where is_compared), 0),
    coalesce(sum(cached_tokens) filter (where is_compared), 0)
from fresh
cross join lateral (
    select cached_expected is not null and cached_tokens is not null and prompt_tokens is not null
        and not is_cached_estimated as is_compared
) compared
where is_new
group by 1, 2, 3, 4, 5, 6
order by account, hour, workflow, contract, task, model
on conflict (account, hour, workflow, contract, task, model) do update set
    requests = h.requests + excluded.requests,
    session_turns = h.session_turns + excluded.session_turns,
    moved_load = h.moved_load + excluded.moved_load,
    moved_drain = h.moved_drain + excluded.moved_drain,
    moved_lost = h.moved_lost + excluded.moved_lost,
    session_retries = h.session_retries + excluded.session_retries,
    session_retries_stayed = h.session_retries_stayed + excluded.session_retries_stayed,
    cache_breaks = h.cache_breaks + excluded.cache_breaks,
    prompt_tokens_compared = h.prompt_tokens_compared + excluded.prompt_tokens_compared,
    cached_tokens_expected = h.cached_tokens_expected + excluded.cached_tokens_expected,
    cached_tokens_counted = h.cached_tokens_counted + excluded.cached_tokens_counted

-- name: session_days
insert into session_days as s (
    day, account, session, workflow, model, turns, first_at, last_at, prompt_last,
    prompt_last_at, prompt_max, prompt_tokens_known, cached_tokens, output_tokens, prompts, sum_x,
    sum_y, sum_xy, sum_xx, moves, cache_breaks, charge_nanousd
)
select
    day, account, session,
    (array_agg(workflow order by asked_at desc, attempt desc))[1],
    (array_agg(model order by asked_at desc, attempt desc))[1],
    count(*) filter (where is_new and attempt = 1), min(asked_at), max(asked_at),
    (array_agg(prompt order by asked_at desc, attempt desc) filter (where prompt is not null))[1],
    max(asked_at) filter (where prompt is not null), max(prompt),
    coalesce(sum(prompt) filter (where cached_tokens is not null), 0),
    coalesce(sum(cached_tokens) filter (where is_new), 0),
    coalesce(sum(output_tokens) filter (where is_new), 0),
    count(prompt), coalesce(sum(number) filter (where prompt is not null), 0),
    coalesce(sum(prompt), 0), coalesce(sum(number * prompt), 0),
    coalesce(sum(number * number) filter (where prompt is not null), 0),
    count(*) filter (where is_new and session_moved <> ''),
    count(*) filter (where is_new and cache_break <> ''), sum(charge_nanousd)
from (
    select f.*, p.prompt,
        count(p.prompt) over (
            partition by f.day, f.account, f.session order by f.asked_at, f.request, f.attempt
        ) as number
    from fresh f
    cross join lateral (select case when f.is_new then f.prompt_tokens end as prompt) p
    where f.session <> ''
) numbered
group by day, account, session
order by day, account, session
on conflict (day, account, session) do update set
    workflow = case when excluded.last_at < s.last_at then s.workflow else excluded.workflow end,
    model = case when excluded.last_at < s.last_at then s.model else excluded.model end,
    turns = s.turns + excluded.turns,
    first_at = least(s.first_at, excluded.first_at),
    last_at = greatest(s.last_at, excluded.last_at),
    prompt_last = case
        when excluded.prompt_last_at < s.prompt_last_at then s.prompt_last
        else coalesce(excluded.prompt_last, s.prompt_last)
    end,
    prompt_last_at = greatest(s.prompt_last_at, excluded.prompt_last_at),
    prompt_max = greatest(s.prompt_max, excluded.prompt_max),
    prompt_tokens_known = s.prompt_tokens_known + excluded.prompt_tokens_known,
    cached_tokens = s.cached_tokens + excluded.cached_tokens,
    output_tokens = s.output_tokens + excluded.output_tokens,
    prompts = s.prompts + excluded.prompts,
    -- The numbers of these prompts go on from those that are there already.
    sum_x = s.sum_x + excluded.sum_x + s.prompts * excluded.prompts,
    sum_y = s.sum_y + excluded.sum_y,
    sum_xy = s.sum_xy + excluded.sum_xy + s.prompts * excluded.sum_y,
    sum_xx = s.sum_xx + excluded.sum_xx + 2 * s.prompts * excluded.sum_x
        + s.prompts::float8 * s.prompts * excluded.prompts,
    moves = s.moves + excluded.moves,
    cache_breaks = s.cache_breaks + excluded.cache_breaks,
    charge_nanousd = s.charge_nanousd + excluded.charge_nanousd

-- name: add
with fresh as (
    {insert}
    returning *, true as is_new
), hours as (
    {hours}
), replica_hours as (
    {replica_hours}
), workflow_hours as (
    {workflow_hours}
), session_days as (
    {session_days}
), spent as (
    insert into limit_spend as s (limit_id, value, window_start, holder, amount)
    select
        l.id,
        limit_value(
            l.contract, l.scope, l.value, d.account, d.key, d.workflow, d.session
        ) as value,
        date_trunc(l.period, f.asked_at, 'UTC') as window_start,
        %s::uuid,
        sum(case l.measure
            when 'requests' then (f.attempt = 1)::integer
            when 'tokens' then coalesce(f.prompt_tokens, 0) + coalesce(f.output_tokens, 0)
            else f.charge_nanousd
        end)
    from fresh f
    join (
        select distinct on (request, attempt)
            request, attempt, account, key, workflow, session, limits
        from drained where limits <> '{}'
    ) d using (request, attempt)
    cross join unnest(d.limits) as counted (limit_id)
    join limits l on l.id = counted.limit_id
    group by 1, 2, 3
    order by 1, 2, 3
    on conflict (limit_id, value, window_start, holder) do update set
        amount = s.amount + excluded.amount
)
select count(*) from fresh

-- name: insert_charged
{insert}
returning request::text

-- name: charge
with paid as (
    update usage_attempts a set
        charge_nanousd = d.charge_nanousd, charge_reason = d.charge_reason
    from drained d
    where a.day = any (%s::date[]) and a.day = (request_time(d.request) at time zone 'UTC')::date
        and a.request = d.request and a.attempt = d.attempt and a.charge_reason = 'job'
    returning a.*
), fresh as (
    select paid.*, false as is_new from paid
    union all
    select a.*, true from usage_attempts a
    join drained d on a.request = d.request and a.attempt = d.attempt
        and a.day = (request_time(d.request) at time zone 'UTC')::date
    where a.day = any (%s::date[]) and a.request = any (%s::uuid[])
), hours as (
    {hours}
), replica_hours as (
    {replica_hours}
), workflow_hours as (
    {workflow_hours}
), session_days as (
    {session_days}
)
insert into limit_spend as s (limit_id, value, window_start, holder, amount)
select
    l.id,
    limit_value(l.contract, l.scope, l.value, d.account, d.key, d.workflow, d.session) as value,
    date_trunc(l.period, f.asked_at, 'UTC') as window_start, %s::uuid, sum(f.charge_nanousd)
from fresh f
join drained d using (request, attempt)
join unnest(%s::uuid[], %s::bigint[]) as counted (request, limit_id) using (request)
join limits l on l.id = counted.limit_id and l.measure = 'nanousd'
group by 1, 2, 3
order by 1, 2, 3
on conflict (limit_id, value, window_start, holder) do update set
    amount = s.amount + excluded.amount
