-- Of which limits it was told that they are used up: once for each window, value and amount. Whoever
-- inserts a row publishes the event, in the same transaction.
create table limit_notices (
    window_start timestamptz not null,
    limit_id bigint not null,
    value text not null,
    -- A limit that was raised may be reached again in the same window.
    amount bigint not null,
    primary key (window_start, limit_id, value, amount)
);
