-- What authenticates the cookies of the console: 244 random bits, the same for all control processes.
-- It is not the cell's secret, which gateways and keepers read: they must not be able to make a
-- cookie of an operator.
create table console_secret (
    is_only boolean primary key default true check (is_only),
    secret bytea not null check (length(secret) = 32)
);
insert into console_secret (secret)
values (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
