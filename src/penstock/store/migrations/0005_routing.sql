-- Sessions and their caches.

-- How firmly a session of this account stays with its replica: among near equals, or until it is gone.
alter table accounts add column affinity text not null default 'near'
    check (affinity in ('near', 'strict'));

-- What of the prompt was expected to be cached when the replica was picked; null when nothing was known.
alter table usage_attempts add column cached_expected integer;
-- The first part of the prompt that was not as in the turn before: `tools`, `system`, `message 3`.
alter table usage_attempts add column cache_break text not null default '';
-- Why a session was not served where its turn before was: `load`, `drain`, `lost`.
alter table usage_attempts add column session_moved text not null default '';
