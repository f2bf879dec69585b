-- Pools: clusters that place replicas themselves. Their keepers report them beside hosts.

alter table hosts
    -- The name of the pool; '' for a machine.
    add column pool text not null default '';
