-- Sums of the ledger. They move with the rows, whoever inserts them and by whatever tool, so each is always the sum of the
-- rows it stands for. monthly_spend is what the budget check reads; the others are for pages and reports, which then read
-- a few thousand rows instead of ten million. src/store/statement/sums.ts has them as data, and a test compares the triggers.
-- fillfactor: the rows of today change with every batch, and the next version of one has room on its own page.

create table monthly_spend (
  company_id        uuid not null,
  billing_month     date not null,
  requests          bigint not null default 0,
  prompt_tokens     bigint not null default 0,
  completion_tokens bigint not null default 0,
  api_cost_eur      numeric not null default 0,
  chat_cost_eur     numeric not null default 0,
  statement         bigint,
  primary key (company_id, billing_month)
) with (fillfactor = 40); -- one batch may change every row of a page
comment on table monthly_spend is 'what the budget check reads: always the sum of the api_usage and chat_usage rows it stands for';
-- a batch changes none of its columns, so it adds nothing to booking
create index monthly_spend_open on monthly_spend (billing_month) where statement is null;
-- a month of all companies: rows of one month lie beside each other
create index monthly_spend_month on monthly_spend using brin (billing_month) with (pages_per_range = 32);
comment on column monthly_spend.statement is 'number of the statement that closed this month; null: the month is open';
-- looked at only by an update that names the column, so counting rows does not pay for it
create trigger closed_once before update of statement on monthly_spend for each row
  when (old.statement is not null) execute function refuse_change();

-- By this gateways learn whose spend changed: a row for each batch and month. An index on monthly_spend instead would get
-- an entry for each company of each batch, and keep the new version of its row from staying on its page.
create table spend_changes (
  company_id    uuid not null,
  xid           xid8 not null default pg_current_xact_id(),
  billing_month date not null,
  others        uuid[]
);
comment on table spend_changes is 'whose row of monthly_spend a transaction changed, for an hour';
comment on column spend_changes.others is 'further companies of the same batch; null: none';
alter table spend_changes alter column others set storage external; -- random bytes do not compress
alter table spend_changes replica identity full; -- it has no key, and its shards could not move to another server while it is written
create index spend_changes_xid on spend_changes (xid);

-- Rows of spend_changes that come from now on have an xid from here on: a transaction may commit long after it took its id.
create function spend_horizon() returns xid8 language sql stable as 'select pg_snapshot_xmin(pg_current_snapshot())';

-- Of companies, by day.
create table usage_daily (
  company_id        uuid not null,
  billing_month     date not null,
  day               date not null,
  model_slug        text not null,
  api_key_id        uuid not null,
  endpoint          text not null,
  usage_source      text not null,
  outcome           text not null,
  requests          bigint not null,
  prompt_tokens     bigint not null,
  completion_tokens bigint not null,
  cost_eur          numeric not null,
  cost_center       text not null default '',
  -- in this order the days of a key are found by it
  primary key (company_id, billing_month, api_key_id, day, model_slug, endpoint, usage_source, outcome, cost_center)
) with (fillfactor = 60);
comment on table usage_daily is 'always the sum of the api_usage rows it stands for';
comment on column usage_daily.day is 'calendar day of occurred_at in the billing time zone';

-- usage_daily without keys.
create table usage_company_days (
  company_id        uuid not null,
  billing_month     date not null,
  day               date not null,
  model_slug        text not null,
  endpoint          text not null,
  usage_source      text not null,
  outcome           text not null,
  cost_center       text not null,
  requests          bigint not null,
  prompt_tokens     bigint not null,
  completion_tokens bigint not null,
  cost_eur          numeric not null,
  primary key (company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center)
) with (fillfactor = 60);
comment on table usage_company_days is 'always the sum of the usage_daily rows it stands for';
-- a month or day of all companies is read for the margin and the overview: rows of one day lie beside each other
create index usage_company_days_time on usage_company_days using brin (billing_month, day) with (pages_per_range = 32);

-- usage_daily by the month, without models. What a key spent in a month is one row, or a few; with what each day cost: a
-- page that shows parts of months ranks thousands of companies or keys by these rows instead of those of each day and model.
create table usage_key_months (
  company_id        uuid not null,
  billing_month     date not null,
  api_key_id        uuid not null,
  endpoint          text not null,
  cost_center       text not null,
  requests          bigint not null,
  prompt_tokens     bigint not null,
  completion_tokens bigint not null,
  cost_eur          numeric not null,
  estimated         bigint not null,
  unfinished        bigint not null,
  day_01 numeric, day_02 numeric, day_03 numeric, day_04 numeric, day_05 numeric, day_06 numeric, day_07 numeric, day_08 numeric,
  day_09 numeric, day_10 numeric, day_11 numeric, day_12 numeric, day_13 numeric, day_14 numeric, day_15 numeric, day_16 numeric,
  day_17 numeric, day_18 numeric, day_19 numeric, day_20 numeric, day_21 numeric, day_22 numeric, day_23 numeric, day_24 numeric,
  day_25 numeric, day_26 numeric, day_27 numeric, day_28 numeric, day_29 numeric, day_30 numeric, day_31 numeric,
  primary key (company_id, billing_month, api_key_id, endpoint, cost_center)
) with (fillfactor = 60);
comment on table usage_key_months is 'always the sum of the usage_daily rows it stands for';
comment on column usage_key_months.estimated is 'requests with estimated tokens';
comment on column usage_key_months.unfinished is 'requests that did not complete';
comment on column usage_key_months.day_01 is 'cost_eur of this day of the month, as in the columns for the others; null: no calls. Calls of a day beside their month are in none';

-- days and months of all companies are compared by these rows
create index usage_key_months_month on usage_key_months using brin (billing_month) with (pages_per_range = 32);
-- a search among all companies asks for cost centres by name
create index usage_key_months_cost_centers on usage_key_months (billing_month, cost_center, company_id)
  where cost_center <> '';

-- usage_daily without companies and keys. A row that every batch of every gateway changes would make them wait for each
-- other, so there are up to 16 rows for a model and day: each transaction takes a part that no other one has.
create table usage_model_days (
  billing_month     date not null,
  day               date not null,
  model_slug        text not null,
  part              smallint not null,
  requests          bigint not null,
  prompt_tokens     bigint not null,
  completion_tokens bigint not null,
  cost_eur          numeric not null,
  completed         bigint not null,
  untold            bigint not null,
  primary key (billing_month, day, model_slug, part)
) with (fillfactor = 60);
comment on table usage_model_days is 'its parts are together always the sum of the usage_daily rows they stand for';
comment on column usage_model_days.completed is 'requests that completed';
comment on column usage_model_days.untold is 'requests that completed and have estimated tokens: the upstream told none';

-- The months with usage: a few steps along the index instead of all its rows.
create function usage_months() returns setof date language plpgsql stable set search_path from current as $$
declare
  month date := (select min(billing_month) from usage_model_days);
begin
  while month is not null loop
    return next month;
    month := (select min(billing_month) from usage_model_days where billing_month > month);
  end loop;
end $$;

-- One trigger does all, so partitions made later have it too. Rows of monthly_spend are taken in the same order by every
-- writer: none waits for another crosswise. Who has them has these months of these companies to itself, so the order of
-- what follows does not matter, and the rows are read and grouped once for all tables. Whether a month is closed is a column
-- of the row that is counted anyway: closing a month takes that row, so a batch is either before it or knows of it.
create function count_api_usage() returns trigger language plpgsql set search_path from current as $$
declare
  zone text := (select value from settings where name = 'billing_timezone');
  late_companies uuid[];
  late_months    date[];
  own_part smallint := 0;
  with_details bigint;
  with_people  bigint;
begin
  with counted as (
    insert into monthly_spend as s (company_id, billing_month, requests, prompt_tokens, completion_tokens, api_cost_eur)
    select company_id, billing_month, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from added group by company_id, billing_month
    order by company_id, billing_month
    on conflict (company_id, billing_month) do update set
      requests          = s.requests + excluded.requests,
      prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = s.completion_tokens + excluded.completion_tokens,
      api_cost_eur      = s.api_cost_eur + excluded.api_cost_eur
    returning s.company_id, s.billing_month, s.statement
  ),
  told as (
    insert into spend_changes (company_id, billing_month, others)
    select companies[1], billing_month, case when cardinality(companies) > 1 then companies[2:] end
    from (select billing_month, array_agg(company_id) as companies from counted group by 1) as months
  )
  select array_agg(company_id), array_agg(billing_month) into late_companies, late_months from counted where statement is not null;
  if late_companies is not null then
    insert into late_usage (company_id, billing_month, request_id)
    select company_id, billing_month, request_id
    from added join unnest(late_companies, late_months) as late (company_id, billing_month) using (company_id, billing_month);
  end if;

  -- the first part of usage_model_days that no transaction in progress has
  while own_part < 15 and not pg_try_advisory_xact_lock(hashtext('tollgate usage_model_days'), own_part) loop
    own_part := own_part + 1;
  end loop;

  with cells as materialized (
    select *, day - billing_month + 1 as number from (
      select company_id, billing_month, (occurred_at at time zone zone)::date as day, model_slug, api_key_id, endpoint, usage_source, outcome,
        cost_center, count(*) as requests, sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens,
        sum(cost_eur) as cost_eur, count(coalesce(cached_tokens, cache_write_tokens, audio_prompt_tokens, reasoning_tokens,
          audio_completion_tokens, cache_write_1h_tokens, image_prompt_tokens, image_completion_tokens, search_units)) as told,
        count(end_user_id) as named
      from added group by 1, 2, 3, 4, 5, 6, 7, 8, 9
    ) as alike
  ),
  company_days as (
    insert into usage_company_days as s (company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center,
      requests, prompt_tokens, completion_tokens, cost_eur)
    select company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center,
      sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from cells group by company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center
    on conflict (company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center) do update set
      requests          = s.requests + excluded.requests,
      prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = s.completion_tokens + excluded.completion_tokens,
      cost_eur          = s.cost_eur + excluded.cost_eur
  ),
  key_months as (
    insert into usage_key_months as s (company_id, billing_month, api_key_id, endpoint, cost_center,
      requests, prompt_tokens, completion_tokens, cost_eur, estimated, unfinished,
      day_01, day_02, day_03, day_04, day_05, day_06, day_07, day_08, day_09, day_10, day_11, day_12, day_13, day_14, day_15, day_16,
      day_17, day_18, day_19, day_20, day_21, day_22, day_23, day_24, day_25, day_26, day_27, day_28, day_29, day_30, day_31)
    select company_id, billing_month, api_key_id, endpoint, cost_center,
      sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur),
      coalesce(sum(requests) filter (where usage_source = 'estimated'), 0), coalesce(sum(requests) filter (where outcome <> 'completed'), 0),
      sum(cost_eur) filter (where number = 1), sum(cost_eur) filter (where number = 2), sum(cost_eur) filter (where number = 3),
      sum(cost_eur) filter (where number = 4), sum(cost_eur) filter (where number = 5), sum(cost_eur) filter (where number = 6),
      sum(cost_eur) filter (where number = 7), sum(cost_eur) filter (where number = 8), sum(cost_eur) filter (where number = 9),
      sum(cost_eur) filter (where number = 10), sum(cost_eur) filter (where number = 11), sum(cost_eur) filter (where number = 12),
      sum(cost_eur) filter (where number = 13), sum(cost_eur) filter (where number = 14), sum(cost_eur) filter (where number = 15),
      sum(cost_eur) filter (where number = 16), sum(cost_eur) filter (where number = 17), sum(cost_eur) filter (where number = 18),
      sum(cost_eur) filter (where number = 19), sum(cost_eur) filter (where number = 20), sum(cost_eur) filter (where number = 21),
      sum(cost_eur) filter (where number = 22), sum(cost_eur) filter (where number = 23), sum(cost_eur) filter (where number = 24),
      sum(cost_eur) filter (where number = 25), sum(cost_eur) filter (where number = 26), sum(cost_eur) filter (where number = 27),
      sum(cost_eur) filter (where number = 28), sum(cost_eur) filter (where number = 29), sum(cost_eur) filter (where number = 30),
      sum(cost_eur) filter (where number = 31)
    from cells group by company_id, billing_month, api_key_id, endpoint, cost_center
    on conflict (company_id, billing_month, api_key_id, endpoint, cost_center) do update set
      requests          = s.requests + excluded.requests,
      prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = s.completion_tokens + excluded.completion_tokens,
      cost_eur          = s.cost_eur + excluded.cost_eur,
      estimated         = s.estimated + excluded.estimated,
      unfinished        = s.unfinished + excluded.unfinished,
      day_01 = coalesce(s.day_01 + excluded.day_01, s.day_01, excluded.day_01), day_02 = coalesce(s.day_02 + excluded.day_02, s.day_02, excluded.day_02),
      day_03 = coalesce(s.day_03 + excluded.day_03, s.day_03, excluded.day_03), day_04 = coalesce(s.day_04 + excluded.day_04, s.day_04, excluded.day_04),
      day_05 = coalesce(s.day_05 + excluded.day_05, s.day_05, excluded.day_05), day_06 = coalesce(s.day_06 + excluded.day_06, s.day_06, excluded.day_06),
      day_07 = coalesce(s.day_07 + excluded.day_07, s.day_07, excluded.day_07), day_08 = coalesce(s.day_08 + excluded.day_08, s.day_08, excluded.day_08),
      day_09 = coalesce(s.day_09 + excluded.day_09, s.day_09, excluded.day_09), day_10 = coalesce(s.day_10 + excluded.day_10, s.day_10, excluded.day_10),
      day_11 = coalesce(s.day_11 + excluded.day_11, s.day_11, excluded.day_11), day_12 = coalesce(s.day_12 + excluded.day_12, s.day_12, excluded.day_12),
      day_13 = coalesce(s.day_13 + excluded.day_13, s.day_13, excluded.day_13), day_14 = coalesce(s.day_14 + excluded.day_14, s.day_14, excluded.day_14),
      day_15 = coalesce(s.day_15 + excluded.day_15, s.day_15, excluded.day_15), day_16 = coalesce(s.day_16 + excluded.day_16, s.day_16, excluded.day_16),
      day_17 = coalesce(s.day_17 + excluded.day_17, s.day_17, excluded.day_17), day_18 = coalesce(s.day_18 + excluded.day_18, s.day_18, excluded.day_18),
      day_19 = coalesce(s.day_19 + excluded.day_19, s.day_19, excluded.day_19), day_20 = coalesce(s.day_20 + excluded.day_20, s.day_20, excluded.day_20),
      day_21 = coalesce(s.day_21 + excluded.day_21, s.day_21, excluded.day_21), day_22 = coalesce(s.day_22 + excluded.day_22, s.day_22, excluded.day_22),
      day_23 = coalesce(s.day_23 + excluded.day_23, s.day_23, excluded.day_23), day_24 = coalesce(s.day_24 + excluded.day_24, s.day_24, excluded.day_24),
      day_25 = coalesce(s.day_25 + excluded.day_25, s.day_25, excluded.day_25), day_26 = coalesce(s.day_26 + excluded.day_26, s.day_26, excluded.day_26),
      day_27 = coalesce(s.day_27 + excluded.day_27, s.day_27, excluded.day_27), day_28 = coalesce(s.day_28 + excluded.day_28, s.day_28, excluded.day_28),
      day_29 = coalesce(s.day_29 + excluded.day_29, s.day_29, excluded.day_29), day_30 = coalesce(s.day_30 + excluded.day_30, s.day_30, excluded.day_30),
      day_31 = coalesce(s.day_31 + excluded.day_31, s.day_31, excluded.day_31)
  ),
  model_days as (
    insert into usage_model_days as s (billing_month, day, model_slug, part, requests, prompt_tokens, completion_tokens, cost_eur, completed, untold)
    select billing_month, day, model_slug, own_part, sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur),
      coalesce(sum(requests) filter (where outcome = 'completed'), 0),
      coalesce(sum(requests) filter (where outcome = 'completed' and usage_source = 'estimated'), 0)
    from cells group by billing_month, day, model_slug
    on conflict (billing_month, day, model_slug, part) do update set
      requests          = s.requests + excluded.requests,
      prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = s.completion_tokens + excluded.completion_tokens,
      cost_eur          = s.cost_eur + excluded.cost_eur,
      completed         = s.completed + excluded.completed,
      untold            = s.untold + excluded.untold
  ),
  days as (
    insert into usage_daily as s (company_id, billing_month, api_key_id, day, model_slug, endpoint, usage_source, outcome, cost_center,
      requests, prompt_tokens, completion_tokens, cost_eur)
    select company_id, billing_month, api_key_id, day, model_slug, endpoint, usage_source, outcome, cost_center,
      sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from cells group by company_id, billing_month, api_key_id, day, model_slug, endpoint, usage_source, outcome, cost_center
    on conflict (company_id, billing_month, api_key_id, day, model_slug, endpoint, usage_source, outcome, cost_center) do update set
      requests          = s.requests + excluded.requests,
      prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = s.completion_tokens + excluded.completion_tokens,
      cost_eur          = s.cost_eur + excluded.cost_eur
  )
  select sum(c.told), sum(c.named) into with_details, with_people from cells c;
  -- most batches have neither: a trigger of its own for each read all rows to find that out
  if with_details > 0 then
    with told as (
      select *, (occurred_at at time zone zone)::date as day from added
      where coalesce(cached_tokens, cache_write_tokens, audio_prompt_tokens, reasoning_tokens, audio_completion_tokens,
        cache_write_1h_tokens, image_prompt_tokens, image_completion_tokens, search_units) is not null
    )
    insert into usage_details as s (company_id, billing_month, day, model_slug, endpoint, cost_center, requests, prompt_tokens,
      cached_tokens, cache_write_tokens, audio_prompt_tokens, reasoning_tokens, audio_completion_tokens,
      cache_write_1h_tokens, image_prompt_tokens, image_completion_tokens, search_units)
    select company_id, billing_month, day, model_slug, endpoint, cost_center, count(*),
      coalesce(sum(prompt_tokens) filter (where cached_tokens is not null), 0), coalesce(sum(cached_tokens), 0),
      coalesce(sum(cache_write_tokens), 0), coalesce(sum(audio_prompt_tokens), 0), coalesce(sum(reasoning_tokens), 0),
      coalesce(sum(audio_completion_tokens), 0), coalesce(sum(cache_write_1h_tokens), 0), coalesce(sum(image_prompt_tokens), 0),
      coalesce(sum(image_completion_tokens), 0), coalesce(sum(search_units), 0)
    from told group by company_id, billing_month, day, model_slug, endpoint, cost_center
    on conflict (company_id, billing_month, day, model_slug, endpoint, cost_center) do update set
      requests                = s.requests + excluded.requests,
      prompt_tokens           = s.prompt_tokens + excluded.prompt_tokens,
      cached_tokens           = s.cached_tokens + excluded.cached_tokens,
      cache_write_tokens      = s.cache_write_tokens + excluded.cache_write_tokens,
      audio_prompt_tokens     = s.audio_prompt_tokens + excluded.audio_prompt_tokens,
      reasoning_tokens        = s.reasoning_tokens + excluded.reasoning_tokens,
      audio_completion_tokens = s.audio_completion_tokens + excluded.audio_completion_tokens,
      cache_write_1h_tokens   = s.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
      image_prompt_tokens     = s.image_prompt_tokens + excluded.image_prompt_tokens,
      image_completion_tokens = s.image_completion_tokens + excluded.image_completion_tokens,
      search_units            = s.search_units + excluded.search_units;
  end if;
  if with_people > 0 then
    with named as (
      select *, (occurred_at at time zone zone)::date as day from added where end_user_id is not null
    )
    insert into usage_end_user_days as s (company_id, billing_month, end_user_id, api_key_id, day, model_slug,
      requests, prompt_tokens, completion_tokens, cost_eur)
    select company_id, billing_month, end_user_id, api_key_id, day, model_slug,
      count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from named group by company_id, billing_month, end_user_id, api_key_id, day, model_slug
    order by company_id, billing_month, end_user_id, api_key_id, day, model_slug
    on conflict (company_id, billing_month, end_user_id, api_key_id, day, model_slug) do update set
      requests          = s.requests + excluded.requests,
      prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = s.completion_tokens + excluded.completion_tokens,
      cost_eur          = s.cost_eur + excluded.cost_eur;
  end if;
  -- rows without a seal, of other programs: by these they stand in the feed (feed.sql)
  if current_setting('tollgate.sealed', true) is distinct from 'on' then
    insert into ledger_feed (billing_month, request_ids)
    select billing_month, array_agg(request_id) from (select billing_month, request_id, (row_number() over () - 1) / 10000 as piece from added) as rows
    group by billing_month, piece;
  end if;
  return null;
end $$;

-- Sums of the rows that tell what their tokens consist of, for all keys together: a few rows a day, and none where nothing
-- is told.
create table usage_details (
  company_id              uuid not null,
  billing_month           date not null,
  day                     date not null,
  model_slug              text not null,
  endpoint                text not null,
  cost_center             text not null,
  requests                bigint not null,
  prompt_tokens           bigint not null,
  cached_tokens           bigint not null,
  cache_write_tokens      bigint not null,
  audio_prompt_tokens     bigint not null,
  reasoning_tokens        bigint not null,
  audio_completion_tokens bigint not null,
  cache_write_1h_tokens   bigint not null default 0,
  image_prompt_tokens     bigint not null default 0,
  image_completion_tokens bigint not null default 0,
  search_units            bigint not null default 0,
  primary key (company_id, billing_month, day, model_slug, endpoint, cost_center)
) with (fillfactor = 60);
comment on table usage_details is 'always the sum of the api_usage rows with token details';
comment on column usage_details.day is 'calendar day of occurred_at in the billing time zone';
comment on column usage_details.prompt_tokens is 'of the calls that tell cached tokens';
-- a month of all companies is read for the margin
create index usage_details_month on usage_details using brin (billing_month);

-- Of end users, by day: only of calls that name one.
create table usage_end_user_days (
  company_id        uuid not null,
  billing_month     date not null,
  end_user_id       uuid not null,
  api_key_id        uuid not null,
  day               date not null,
  model_slug        text not null,
  requests          bigint not null,
  prompt_tokens     bigint not null,
  completion_tokens bigint not null,
  cost_eur          numeric not null,
  -- in this order what one person cost by a key in a month is found by it
  primary key (company_id, billing_month, end_user_id, api_key_id, day, model_slug)
) with (fillfactor = 60);
comment on table usage_end_user_days is 'always the sum of the api_usage rows that name an end user';
comment on column usage_end_user_days.day is 'calendar day of occurred_at in the billing time zone';

-- The partitions, with their triggers.
create trigger count_usage after insert on api_usage
  referencing new table as added for each statement execute function count_api_usage();
create trigger append_only before update or delete or truncate on api_usage
  for each statement execute function refuse_change();
create table api_usage_default partition of api_usage default;
create trigger count_usage after insert on api_usage_default
  referencing new table as added for each statement execute function count_api_usage();
create trigger append_only before update or delete or truncate on api_usage_default
  for each statement execute function refuse_change();
select ensure_api_usage_partitions(date_trunc('month', now() - interval '1 month')::date, 15);

-- Sums of upstream_costs, with what the same calls cost the companies.
create table upstream_cost_monthly (
  company_id    uuid not null,
  billing_month date not null,
  model_slug    text not null,
  currency      text not null,
  requests      bigint not null,
  cost          numeric not null,
  cost_eur      numeric not null,
  primary key (company_id, billing_month, model_slug, currency)
) with (fillfactor = 60);
comment on table upstream_cost_monthly is 'always the sum of the upstream_costs rows; for operators only';
comment on column upstream_cost_monthly.cost_eur is 'of the ledger rows of these calls: the revenue';
create index upstream_cost_monthly_month on upstream_cost_monthly using brin (billing_month);

-- Books what the records tell of those calls that a batch inserted: they are here for the first time.
create function book_upstream_costs(records json, month date, booked uuid[]) returns void
language plpgsql set search_path from current as $$
begin
  with costs as materialized (
    select distinct on (r.request_id) r.company_id, r.billing_month, r.request_id, r.model_slug, r.cost_eur,
      r.upstream_cost as cost, r.upstream_currency as currency
    from json_to_recordset(records) as r (billing_month date, request_id uuid, company_id uuid, model_slug text, cost_eur numeric,
      upstream_cost numeric, upstream_currency text) join unnest(booked) as b (id) on b.id = r.request_id
    where r.billing_month = month and r.upstream_cost >= 0 and r.upstream_cost < 1e6 and r.upstream_currency ~ '^[A-Z]{3}$'
    order by r.request_id
  ),
  kept as (
    insert into upstream_costs (company_id, billing_month, request_id, cost, currency)
    select company_id, billing_month, request_id, cost, currency from costs on conflict do nothing
  )
  insert into upstream_cost_monthly as s (company_id, billing_month, model_slug, currency, requests, cost, cost_eur)
  select company_id, billing_month, model_slug, currency, count(*), sum(cost), sum(cost_eur)
  from costs group by company_id, billing_month, model_slug, currency
  order by company_id, billing_month, model_slug, currency
  on conflict (company_id, billing_month, model_slug, currency) do update set
    requests = s.requests + excluded.requests,
    cost     = s.cost + excluded.cost,
    cost_eur = s.cost_eur + excluded.cost_eur;
end $$;

-- In-app chat, a company and month at a time: a statement on the rows of a trigger cannot write to another server. The
-- application inserts a row or a few.
create function move_chat_cost() returns trigger language plpgsql security definer set search_path from current as $$
declare
  rows text := case tg_op
    when 'INSERT' then 'select company_id, occurred_at, cost_eur from added'
    when 'DELETE' then 'select company_id, occurred_at, -cost_eur as cost_eur from removed'
    else 'select company_id, occurred_at, cost_eur from added
          union all select company_id, occurred_at, -cost_eur from removed' end;
  moved record;
  zone text := (select value from settings where name = 'billing_timezone');
begin
  for moved in execute format('select company_id, date_trunc(''month'', occurred_at at time zone $1)::date as billing_month,
      sum(cost_eur) as cost from (%s) as moved group by 1, 2 order by 1, 2', rows) using zone
  loop
    insert into monthly_spend as m (company_id, billing_month, chat_cost_eur)
    values (moved.company_id, moved.billing_month, moved.cost)
    on conflict (company_id, billing_month) do update set
      chat_cost_eur = m.chat_cost_eur + excluded.chat_cost_eur;
    insert into spend_changes (company_id, billing_month) values (moved.company_id, moved.billing_month);
  end loop;
  return null;
end $$;
create trigger move_chat_cost_insert after insert on chat_usage
  referencing new table as added for each statement execute function move_chat_cost();
create trigger move_chat_cost_update after update on chat_usage
  referencing old table as removed new table as added for each statement execute function move_chat_cost();
create trigger move_chat_cost_delete after delete on chat_usage
  referencing old table as removed for each statement execute function move_chat_cost();

create function zero_chat_cost() returns trigger language plpgsql security definer set search_path from current as $$
begin
  insert into spend_changes (company_id, billing_month) select company_id, billing_month from monthly_spend where chat_cost_eur <> 0;
  update monthly_spend set chat_cost_eur = 0 where chat_cost_eur <> 0;
  return null;
end $$;
create trigger zero_chat_cost after truncate on chat_usage for each statement execute function zero_chat_cost();
