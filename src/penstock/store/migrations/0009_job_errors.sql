-- What the last attempt of a job that failed ended with; it stays when a later attempt succeeds.
alter table jobs
    add column last_error_code text,
    add column last_error_message text;
