-- Weights that hosts fetch before they start replicas.

alter table hosts
    -- How the fetches stand for which replicas wait, by model; for people.
    add column fetching jsonb not null default '{}';

alter table assignments
    -- When its host was last seen fetching its weights; null before. A rollout that waits for a
    -- replica does not count the time before.
    add column fetched_at timestamptz;
