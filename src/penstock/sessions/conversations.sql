-- name: create
insert into conversations (id, account, metadata, created_at, used_at, bytes)
values (%s, %s, %s, %s, now(), %s)

-- name: find
select id::text, metadata::text, extract(epoch from created_at)::float8, items, bytes
from conversations where id = %s and account = %s and used_at > now() - make_interval(secs => %s)

-- name: use
update conversations set used_at = now() where id = %s and used_at < now() - interval '60 seconds'

-- name: set_metadata
update conversations set metadata = %s, used_at = now() where id = %s and account = %s

-- name: delete
delete from conversations where id = %s and account = %s

-- name: objects_of
select item_object from conversation_items i join conversations c on c.id = i.conversation
where c.id = %s and c.account = %s and item_object <> ''

-- name: kept
select count(*), coalesce(sum(bytes), 0)::bigint from conversations where account = %s

-- name: lock
select next_position, last_call, last_call_items,
    coalesce(last_call_at > now() - make_interval(secs => %s), false)
from conversations where id = %s and account = %s for update

-- name: insert_items
insert into conversation_items (conversation, position, first_position, id, item, item_object, bytes)
select %s, * from unnest(%s::bigint[], %s::bigint[], %s::text[], %s::bytea[], %s::text[], %s::bigint[])
on conflict (conversation, id) do nothing
returning bytes

-- name: added
update conversations set next_position = next_position + %s, items = items + %s, bytes = bytes + %s,
    used_at = now()
where id = %s

-- name: note_call
update conversations set last_call = %s, last_call_at = now(), last_call_items = %s where id = %s

-- name: items_named
select id, item, item_object from conversation_items where conversation = %s and id = any(%s)
order by position

-- name: items
select first_position, id, item, item_object from conversation_items
where conversation = %s order by position

-- name: page
select id, bytes from conversation_items
where conversation = %s and (%s::text is null or position > (
    select position from conversation_items where conversation = %s and id = %s
)) order by position limit %s

-- name: page_newest_first
select id, bytes from conversation_items
where conversation = %s and (%s::text is null or position < (
    select position from conversation_items where conversation = %s and id = %s
)) order by position desc limit %s

-- name: delete_item
with gone as (
    delete from conversation_items where conversation = %s and id = %s
    returning conversation, item_object, bytes
), counted as (
    update conversations c set items = items - 1, bytes = c.bytes - g.bytes, used_at = now()
    from gone g where c.id = g.conversation
)
select item_object from gone

-- name: take
update conversations set holder = %s, tenure_until = now() + make_interval(secs => %s),
    epoch = epoch + 1, used_at = now()
where id = %s and account = %s and (holder is null or tenure_until < now())
returning epoch

-- name: renew
update conversations c set tenure_until = now() + make_interval(secs => %s)
from unnest(%s::uuid[], %s::bigint[]) as h (id, epoch) where c.id = h.id and c.epoch = h.epoch

-- name: release_orphans
update conversations c set holder = null, tenure_until = null
where c.tenure_until > now() + make_interval(secs => %s) and not exists (
    select from responses r
    where r.day = (request_time(c.holder) at time zone 'UTC')::date and r.id = c.holder
        and r.status = 'queued'
)

-- name: release
update conversations set holder = null, tenure_until = null where id = %s and epoch = %s

-- name: end
update conversations set holder = null, tenure_until = null
where id = %s and epoch = %s and holder is not null and account = %s
returning next_position

-- name: idle
select id::text, account from conversations where used_at < now() - make_interval(secs => %s)
order by used_at limit %s

-- name: of_account
select id::text, account from conversations where account = %s limit %s
