-- Budgets of cost centres, by which owners are told.

create table cost_center_budgets (
  id                 uuid primary key default gen_random_uuid(),
  company_id         uuid not null references companies on delete cascade,
  name               text not null check (char_length(name) between 1 and 64),
  monthly_budget_eur numeric not null
    check (monthly_budget_eur > 0 and monthly_budget_eur < 1e12 and min_scale(monthly_budget_eur) <= 15),
  created_at         timestamptz not null default now()
);
comment on column cost_center_budgets.name is 'as calls name it in metadata: cost_center of the ledger; there need be no call yet';
create unique index cost_center_budgets_once on cost_center_budgets (company_id, name);
create trigger audit after insert or update or delete on cost_center_budgets for each row execute function audit_row();
create trigger audit_truncate after truncate on cost_center_budgets for each statement execute function audit_truncate();
create trigger open_only before insert or update or delete on cost_center_budgets for each row execute function refuse_closed();
alter table cost_center_budgets enable row level security;
create policy own on cost_center_budgets using (is_visible(company_id));
insert into personal_data (table_name, column_name, kind, word) values ('cost_center_budgets', '', 'row', null);
insert into tenant_grants (privilege) values ('select, insert, update, delete on cost_center_budgets');
select raise_tenant_wall();

alter table budget_alerts add column cost_center text;
comment on column budget_alerts.api_key_id is 'null: the budget of the company itself, or of a cost centre';
comment on column budget_alerts.cost_center is 'null: the budget of the company itself, or of a key';
drop index budget_alerts_once;
create unique index budget_alerts_once on budget_alerts
  (company_id, coalesce(api_key_id, '00000000-0000-0000-0000-000000000000'), billing_month, threshold, coalesce(cost_center, ''));

comment on column events.kind is 'key.created, key.rotated, key.revoked, company.closed, company.reopened, budget.threshold, budget.forecast, cost_center.threshold, cost_center.forecast, statement.closed';
-- Budget alerts that are told. Event and alert have the same id. Those of cost centres are kinds of their own: who takes a
-- budget without a key for that of the company is right.
create or replace function alert_body(alert budget_alerts) returns jsonb language sql stable set search_path from current as $$
  select case when alert.cost_center is not null then jsonb_build_object('cost_center', alert.cost_center)
    else jsonb_build_object('key', case when alert.api_key_id is not null then jsonb_build_object('id', alert.api_key_id,
      'prefix', coalesce((select k.prefix from api_keys k where k.id = alert.api_key_id), '')) end) end
    || jsonb_build_object(
    'month', to_char(alert.billing_month, 'YYYY-MM'), 'threshold', alert.threshold,
    'budget_eur', trim_scale(alert.budget_eur)::text, 'spent_eur', trim_scale(alert.spent_eur)::text,
    'forecast_eur', trim_scale(alert.forecast_eur)::text)
$$;
create or replace function record_alert_event() returns trigger language plpgsql security definer set search_path from current as $$
begin
  insert into events (id, at, company_id, kind, subject, body)
  values (new.id, new.occurred_at, new.company_id, case when new.cost_center is null then 'budget' else 'cost_center' end
      || case new.threshold when 'forecast' then '.forecast' else '.threshold' end,
    coalesce(new.api_key_id, new.company_id)::text, alert_body(new));
  return null;
end $$;
