-- Budget alerts: what was reached of the monthly budget of a company or of one of its keys, once a month
-- each, and whom it was told. A budget that is raised meanwhile does not alert again at the same threshold.

create table budget_alerts (
  id            uuid primary key default gen_random_uuid(),
  company_id    uuid not null references companies on delete cascade,
  api_key_id    uuid, -- no foreign key: others could not truncate api_keys then
  billing_month date not null,
  threshold     text not null check (threshold in ('50', '80', '100', 'forecast')),
  budget_eur    numeric not null,
  spent_eur     numeric not null,
  forecast_eur  numeric,
  -- reached together with a higher one, which is told instead
  superseded    boolean not null default false,
  occurred_at   timestamptz not null default now()
);
comment on column budget_alerts.api_key_id is 'null: the budget of the company itself';
comment on column budget_alerts.threshold is 'percent of the budget; forecast: at its pace the month passes the budget';
-- one null is like another here, which "nulls not distinct" says from Postgres 15 on
create unique index budget_alerts_once on budget_alerts
  (company_id, coalesce(api_key_id, '00000000-0000-0000-0000-000000000000'), billing_month, threshold);

-- One row for each receiver of an alert that is told.
create table budget_alert_deliveries (
  alert_id        uuid not null references budget_alerts on delete cascade,
  channel         text not null check (channel in ('webhook', 'email')),
  recipient       text not null,
  state           text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
  attempts        integer not null default 0,
  next_attempt_at timestamptz not null default now(),
  last_error      text,
  delivered_at    timestamptz,
  primary key (alert_id, channel, recipient)
);
comment on column budget_alert_deliveries.recipient is 'an e-mail address; empty for the webhook';
comment on column budget_alert_deliveries.state is 'dead: it failed for a day; "tollgate alert retry" sends it again';
create index budget_alert_deliveries_due on budget_alert_deliveries (channel, next_attempt_at) where state = 'pending';
create index budget_alert_deliveries_dead on budget_alert_deliveries (channel) where state = 'dead';

-- Which gateway looks for alerts and sends them. A row with an end, because a lock of the session
-- would not be one behind PgBouncer.
create table alert_lease (
  only_one   boolean primary key default true check (only_one),
  holder     uuid,
  expires_at timestamptz not null
);
insert into alert_lease (expires_at) values ('-infinity');

-- few keys have a budget of their own
create index api_keys_budget on api_keys (company_id) where monthly_budget_eur > 0;

alter table budget_alerts enable row level security;
create policy own on budget_alerts using (is_visible(company_id));

-- As in 0020_tenant_wall.sql, with budget_alerts and the columns of 0024_limits.sql.
create or replace function raise_tenant_wall() returns boolean language plpgsql set search_path from current as $$
begin
  perform pg_advisory_xact_lock(hashtext('tollgate tenant wall'));
  begin
    -- it belongs to the server: other databases may have made it, even just now
    if to_regrole('tollgate_tenant') is null then create role tollgate_tenant nologin; end if;
  exception when duplicate_object or unique_violation then
  end;
  if not pg_has_role(session_user, 'tollgate_tenant', case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end) then
    execute format('grant tollgate_tenant to %I', session_user);
  end if;
  execute format('grant usage on schema %s to tollgate_tenant',
    (select relnamespace::regnamespace from pg_class where oid = 'assistants'::regclass));
  grant select on settings, models, chat_usage, api_usage, monthly_spend, usage_daily, audit_log, budget_reservations, budget_alerts to tollgate_tenant;
  grant select, update on companies to tollgate_tenant;
  -- all but the digest, and the password's hash
  grant select (id, company_id, name, prefix, scopes, created_at, created_by, expires_at, last_used_at, revoked_at,
      requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, allowed_cidrs),
    insert,
    update (name, scopes, expires_at, revoked_at,
      requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, allowed_cidrs)
    on api_keys to tollgate_tenant;
  grant select (id, email, company_id, role, created_at) on users to tollgate_tenant;
  grant insert on changes, audit_log to tollgate_tenant; -- what every change leaves behind
  grant select, insert, update, delete on assistants to tollgate_tenant;
  return tenant_wall_stands();
exception when insufficient_privilege then
  return false;
end $$;
select raise_tenant_wall();
