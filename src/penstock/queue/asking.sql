-- name: by_id
from jobs where id = %s

-- name: ended
from jobs where id = any (%s::uuid[]) and state not in ('queued', 'running')

-- name: results_kept
select id::text, result_object from jobs
where id = any (%s::uuid[]) and state not in ('queued', 'running')

-- name: items
from jobs where batch = %s and item > %s order by item limit %s

-- name: of
from jobs where true

-- name: page
-- By the column: a plain `id` would be the text that is selected, for which there is no index.
order by jobs.id desc limit %s

-- name: position
-- Counted only so far: the count of an account with 500,000 jobs would take too long.
with asked as (
    select account, model, priority, tag from jobs where id = %s and state = 'queued'
)
select (
    select count(*) from (
        select from jobs j
        where j.account = asked.account and j.model = asked.model
            and j.priority = asked.priority and j.state = 'queued' and j.tag < asked.tag
        limit %s
    ) before
) + 1
from asked
