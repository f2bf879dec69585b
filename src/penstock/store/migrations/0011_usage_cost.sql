-- Whether an account's answers have their cost in `usage`, without asking for it in each request.
alter table accounts add column has_usage_cost boolean not null default false;
