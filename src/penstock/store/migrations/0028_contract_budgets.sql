-- Limits that contracts own: `account` is null, which is each account by itself, and `contract` names
-- the owner. They count what is decided by that contract, whatever the requests' own labels say.
alter table limits alter column account drop not null;
alter table limits add column contract text not null default '';
alter table limits add constraint limits_owner check ((account is null) = (contract <> ''));
drop index limits_once;
create unique index limits_once on limits (account, contract, scope, value, measure, period)
    nulls not distinct where not is_removed;

-- What a limit counts together: the value of its scope, for owned limits by account.
create function limit_value(
    owner text, scope text, value text, account text, key text, workflow text, session text
) returns text language sql immutable return case
    when owner = '' then case scope
        when 'account' then '' when 'key' then key when 'workflow' then workflow else session
    end
    else account || '/' || case scope when 'workflow' then value else session end
end;
