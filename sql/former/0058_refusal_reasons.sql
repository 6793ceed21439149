-- Why requests were refused or failed, by the hour: a company whose every request got 402 looked well.

alter table request_hours add column reasons jsonb not null default '{}';
comment on column request_hours.reasons is 'how many requests got each error code: {"insufficient_quota": 345}; hours written by earlier versions do not have it';
comment on column request_hours.upstream_failed is 'requests that the upstream failed: not those that it refused because of what the caller sent';
