-- Limits of companies and keys, and what a key may do less than its company (contract section 5).
-- null: no limit. A key only narrows: what its company may not do, no key of it may.

alter table companies
  add column requests_per_minute integer check (requests_per_minute between 1 and 1000000000),
  add column tokens_per_minute   bigint  check (tokens_per_minute between 1 and 1000000000000),
  add column max_concurrent      integer check (max_concurrent between 1 and 1000000);

alter table api_keys
  add column requests_per_minute integer check (requests_per_minute between 1 and 1000000000),
  add column tokens_per_minute   bigint  check (tokens_per_minute between 1 and 1000000000000),
  add column max_concurrent      integer check (max_concurrent between 1 and 1000000),
  add column allowed_model_slugs text[] check (cardinality(allowed_model_slugs) > 0 and array_position(allowed_model_slugs, null) is null),
  -- null or 0 means unlimited, as for a company
  add column monthly_budget_eur  numeric check (monthly_budget_eur >= 0 and monthly_budget_eur < 1e12 and min_scale(monthly_budget_eur) <= 15),
  add column allowed_cidrs       cidr[] check (cardinality(allowed_cidrs) > 0 and array_position(allowed_cidrs, null) is null);
comment on column api_keys.allowed_model_slugs is 'the only models of the company that the key lists and calls; null: all of them';
comment on column api_keys.allowed_cidrs is 'networks the key may be used from; null: any';

-- what a key spent in a month is a sum over these rows
create index usage_daily_key on usage_daily (api_key_id, billing_month);

-- neither fires for last_used_at, which moves with every batch
drop trigger announce on api_keys;
create trigger announce after insert or delete or update of company_id, digest, scopes, expires_at, revoked_at,
    requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, allowed_cidrs
  on api_keys for each row execute function announce_row('key', 'digest');
drop trigger audit on api_keys;
create trigger audit after insert or delete or update of id, company_id, name, digest, prefix, scopes, created_at, created_by,
    expires_at, revoked_at, requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, allowed_cidrs
  on api_keys for each row execute function audit_row();
