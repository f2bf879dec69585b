-- Conversations that callers keep here, and their items, written by the sessions room. Items are
-- encrypted (0012), in the row or as the object that is named beside it.

create table conversations (
    id uuid primary key,
    account text not null,
    metadata jsonb not null default '{}',
    created_at timestamptz not null,
    -- When it was last read or written by a caller; idle ones are deleted.
    used_at timestamptz not null,
    -- The place of the next item; how many items there are, and their size.
    next_position bigint not null default 0,
    items bigint not null default 0,
    bytes bigint not null default 0,
    -- The response that is written into it now, until when it may be, and the number of that right:
    -- who writes names it, and is refused if there is a newer one.
    holder uuid,
    tenure_until timestamptz,
    epoch bigint not null default 0,
    -- The last call that added items: a client that did not get its answer sends it again.
    last_call text,
    last_call_at timestamptz,
    last_call_items text[]
);
create index conversations_of_account on conversations (account, used_at);
create index conversations_by_use on conversations (used_at);

create table conversation_items (
    conversation uuid not null references conversations (id) on delete cascade,
    position bigint not null,
    -- The position of the first item that was added together with this one. Items of one group may
    -- be rendered as one message; those of two never are, so that earlier prompts stay prefixes.
    first_position bigint not null,
    id text not null,
    item bytea not null,
    item_object text not null,
    bytes bigint not null,
    primary key (conversation, position),
    unique (conversation, id)
);
