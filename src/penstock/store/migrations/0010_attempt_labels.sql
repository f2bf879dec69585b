-- What a request belongs to. Empty where nothing says: turns and contracts write these columns.
-- The request whose turn this one is a part of.
alter table usage_attempts add column parent_id text not null default '';
-- What the request is for, such as a step of a turn.
alter table usage_attempts add column purpose text not null default '';
-- The contract and its revision that applied.
alter table usage_attempts add column contract text not null default '';
-- The caller's own name of the task.
alter table usage_attempts add column task text not null default '';
-- The model that the caller named, where another one served the request.
alter table usage_attempts add column model_asked text not null default '';
