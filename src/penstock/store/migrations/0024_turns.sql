-- Responses whose gateway runs tools for them, written by the sessions room. Such a response has its
-- row from the start; here is until when the gateway that runs it is believed to live. Control ends
-- the response of a row that has lapsed.
create table turns (
    response uuid primary key,
    day date not null,
    lapses_at timestamptz not null
);
create index turns_lapsing on turns (lapses_at);
