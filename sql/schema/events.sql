-- Events: what happened to a company that programs are told by webhook. Each is written in the transaction of what
-- happened, by whatever program: an event without its change does not exist, and neither does a change without its
-- event. Budget alerts are events too, so that there is one way to send, one list of what failed, one signature.

create table events (
  id         uuid primary key default gen_random_uuid(),
  at         timestamptz not null default clock_timestamp(),
  company_id uuid not null references companies on delete cascade,
  kind       text not null check (kind ~ '^[a-z_]+\.[a-z_]+$'),
  subject    text not null,
  actor      text,
  body       jsonb not null check (jsonb_typeof(body) = 'object'),
  told       boolean not null default false
);
comment on column events.kind is 'key.created, key.rotated, key.revoked, key.paused, key.resumed, company.closed, company.reopened, company.paused, company.resumed, budget.threshold, budget.forecast, cost_center.threshold, cost_center.forecast, end_user.threshold, unusual.spend, unusual.refused, unusual.failed, unusual.latency, statement.closed';
comment on column events.subject is 'what it is about: id of the key or the company, or number of the statement';
comment on column events.actor is 'who did it, as in audit_log; null: the gateway found it';
comment on column events.body is 'further members of what is sent, without names of persons, keys and companies: those are added when it is sent';
comment on column events.told is 'whether event_deliveries has a row for each receiver there was';
create index events_at on events (at, id);
create index events_company on events (company_id, at, id);
create index events_untold on events (at) where not told;

-- One row for each receiver of an event.
create table event_deliveries (
  event_id        uuid not null references events on delete cascade,
  channel         text not null check (channel in ('webhook', 'email')),
  recipient       text not null,
  state           text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
  attempts        integer not null default 0,
  next_attempt_at timestamptz not null default now(),
  last_error      text,
  delivered_at    timestamptz,
  primary key (event_id, channel, recipient)
);
comment on column event_deliveries.recipient is 'an e-mail address; empty for the webhook';
comment on column event_deliveries.state is 'dead: it failed for a day; "tollgate event replay" sends it again';
create index event_deliveries_due on event_deliveries (channel, next_attempt_at) where state = 'pending';
create index event_deliveries_dead on event_deliveries (channel) where state = 'dead';

-- Which gateway looks for alerts and sends events. A row with an end, because a lock of the session
-- would not be one behind PgBouncer.
create table alert_lease (
  only_one   boolean primary key default true check (only_one),
  holder     uuid,
  expires_at timestamptz not null
);
insert into alert_lease (expires_at) values ('-infinity');

-- Writes an event; the body holds no names. For triggers, and for programs that are granted it.
create function record_event(company uuid, kind text, subject text, body jsonb) returns uuid
language sql security definer set search_path from current as $$
  insert into events (company_id, kind, subject, actor, body)
  values (record_event.company, record_event.kind, record_event.subject, audit_actor(), record_event.body) returning id
$$;

create function record_key_event() returns trigger language plpgsql security definer set search_path from current as $$
declare
  key      api_keys := case when tg_op = 'DELETE' then old else new end;
  replaced api_keys;
  body     jsonb := jsonb_build_object('key', jsonb_build_object('id', key.id, 'prefix', key.prefix));
begin
  if tg_op = 'INSERT' then
    select * into replaced from api_keys k where k.id = new.rotated_from and k.company_id = new.company_id;
  elsif tg_op = 'UPDATE' and new.revoked_at is null then
    replaced := old; -- another text in the same row
    replaced.revoked_at := now();
  else
    -- keys of a company that is being deleted go with its events
    if exists (select from companies c where c.id = key.company_id) then
      perform record_event(key.company_id, 'key.revoked', key.id::text, body);
    end if;
    return null;
  end if;
  body := body || jsonb_build_object('scopes', key.scopes, 'expires_at', utc_text(key.expires_at), 'purpose', key.purpose);
  if replaced.id is null then
    perform record_event(key.company_id, 'key.created', key.id::text, body);
  else
    perform record_event(key.company_id, 'key.rotated', key.id::text, body || jsonb_build_object('old_key', jsonb_build_object(
      'id', replaced.id, 'prefix', replaced.prefix, 'ends_at', utc_text(least(replaced.revoked_at, replaced.expires_at)))));
  end if;
  return null;
end $$;
create trigger event after insert on api_keys for each row execute function record_key_event();
-- not the text of a playground's key, which is another every few minutes; and nothing at all of last_used_at
create trigger event_change after update of digest, revoked_at on api_keys for each row
  when (old.revoked_at is null and (new.revoked_at is not null or old.digest <> new.digest and new.purpose is null))
  execute function record_key_event();
create trigger event_removal after delete on api_keys for each row
  when (old.revoked_at is null) execute function record_key_event();

-- Closing a company stops all of its keys and revokes none: reopened, it has them again.
create function record_company_event() returns trigger language plpgsql security definer set search_path from current as $$
begin
  perform record_event(new.id, case when new.closed_at is null then 'company.reopened' else 'company.closed' end, new.id::text, '{}');
  return null;
end $$;
create trigger event after update of closed_at on companies for each row
  when ((old.closed_at is null) <> (new.closed_at is null)) execute function record_company_event();

-- Of a key or a company; without the reason, which is a text about persons.
create function record_pause_event() returns trigger language plpgsql security definer set search_path from current as $$
declare
  paused jsonb := to_jsonb(new);
  isKey  boolean := tg_table_name = 'api_keys';
begin
  perform record_event((paused ->> case when isKey then 'company_id' else 'id' end)::uuid,
    case when isKey then 'key' else 'company' end || case when new.paused_at is null then '.resumed' else '.paused' end, new.id::text,
    case when isKey then jsonb_build_object('key', jsonb_build_object('id', new.id, 'prefix', paused -> 'prefix')) else '{}' end);
  return null;
end $$;
create trigger event_pause after update of paused_at on companies for each row
  when ((old.paused_at is null) <> (new.paused_at is null)) execute function record_pause_event();
create trigger event_pause after update of paused_at on api_keys for each row
  when ((old.paused_at is null) <> (new.paused_at is null)) execute function record_pause_event();

-- Budget alerts that are told. Event and alert have the same id. Those of cost centres are kinds of their own: who takes a
-- budget without a key for that of the company is right.
create function alert_body(alert budget_alerts) returns jsonb language sql stable set search_path from current as $$
  select case when alert.cost_center is not null then jsonb_build_object('cost_center', alert.cost_center)
    else jsonb_build_object('key', case when alert.api_key_id is not null then jsonb_build_object('id', alert.api_key_id,
      'prefix', coalesce((select k.prefix from api_keys k where k.id = alert.api_key_id), '')) end) end
    || jsonb_build_object(
    'month', to_char(alert.billing_month, 'YYYY-MM'), 'threshold', alert.threshold,
    'budget_eur', trim_scale(alert.budget_eur)::text, 'spent_eur', trim_scale(alert.spent_eur)::text,
    'forecast_eur', trim_scale(alert.forecast_eur)::text)
    || case when alert.day is null then '{}' else jsonb_build_object('day', to_char(alert.day, 'YYYY-MM-DD')) end
$$;
create function record_alert_event() returns trigger language plpgsql security definer set search_path from current as $$
begin
  insert into events (id, at, company_id, kind, subject, body)
  values (new.id, new.occurred_at, new.company_id, case when new.cost_center is null then 'budget' else 'cost_center' end
      || case new.threshold when 'forecast' then '.forecast' else '.threshold' end,
    coalesce(new.api_key_id, new.company_id)::text, alert_body(new));
  return null;
end $$;
create trigger event after insert on budget_alerts for each row
  when (not new.superseded) execute function record_alert_event();

create function record_unusual_event() returns trigger language plpgsql security definer set search_path from current as $$
begin
  insert into events (id, at, company_id, kind, subject, body)
  values (new.id, new.occurred_at, new.company_id, 'unusual.' || new.measure, coalesce(new.api_key_id, new.company_id)::text,
    jsonb_build_object('key', case when new.api_key_id is not null then jsonb_build_object('id', new.api_key_id,
      'prefix', coalesce((select k.prefix from api_keys k where k.id = new.api_key_id), '')) end,
    'model', new.model_slug, 'subject', new.subject, 'day', to_char(new.day, 'YYYY-MM-DD'),
    'until', to_char(new.seen_at at time zone (select s.value from settings s where s.name = 'billing_timezone'), 'HH24:MI'),
    'value', trim_scale(new.value)::text, 'usual', trim_scale(new.usual)::text));
  return null;
end $$;
create trigger event after insert on unusual_days for each row
  when (not new.superseded) execute function record_unusual_event();
