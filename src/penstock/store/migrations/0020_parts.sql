-- Replicas over several hosts: an assignment is the first part, which serves; these are the others.

create table assignment_parts (
    id uuid primary key,
    assignment uuid not null references assignments (id) on delete cascade,
    -- From 1; the assignment itself has rank 0.
    rank integer not null,
    keeper text not null,
    host text not null,
    gpus integer not null,
    -- Whether its host has the weights; the first part is not started before all others have.
    has_weights boolean not null default false,
    unique (assignment, rank)
);
create index assignment_parts_by_keeper on assignment_parts (keeper);

alter table replicas
    -- The replica that this is a part of; '' if it serves itself.
    add column leader text not null default '',
    -- Where the other parts find a first part; 0 if it has no others.
    add column master_port integer not null default 0;
create index replicas_by_leader on replicas (leader) where leader <> '';
create index replicas_by_assignment on replicas (assignment) where state <> 'gone';
