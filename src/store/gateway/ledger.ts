import { isOfDay, isOfPerson } from '../../domain/month.ts';
import type { LedgerStore, MonthSum, RefusedRecord, Reservation } from '../../domain/ports.ts';
import { formatEur } from '../../domain/pricing/money.ts';
import { type BookedCall, TOKEN_DETAILS } from '../../domain/usage.ts';
import { CLOCK, SERVER_IDENTITY, SPEND_CURSOR, spentSince } from '../connection/expressions.ts';
import type { Database, Sql } from '../connection/pool.ts';
import { KEPT_SECONDS } from './change-feed.ts';

/** Deadline of one batch. Short, because nothing else reveals a server that vanished; the writer halves slow batches. */
const INSERT_MS = 4_000;
const READ_MS = 2_000;
const READ_ALL_MS = 10_000; // some hundred thousand figures

/** The ledger's tables: api_usage, monthly_spend and the records that were set aside (contract section 3). */
export function ledgerStore(db: Database): LedgerStore {
  return {
    async insert(writer, records, total) {
      // one JSON text instead of an array per column, because the records were serialised once already
      const rows = await db.run(
        INSERT_MS,
        (sql) => sql<{ sums: MonthSum[] | 'all' | null }[]>`
          select case when sum(cost_eur) = ${total === null ? null : formatEur(total)}::numeric then '"all"'::json
            else ${sql.unsafe(sumsOf('cost_eur'))} end as sums
          from book_usage(${writer}::uuid, ${sql.large(records)}::text::json)`,
      );
      return rows[0]?.sums ?? [];
    },
    setAside: (refused) => setAside(db, refused),
    spend: (ids, months) => readSpend(db, ids, months),
    changedSpend: (cursor) => readChangedSpend(db, cursor),
    keyUsage: (keys) => readKeyUsage(db, keys),
    calls: (wanted) => readCalls(db, wanted),
    async touchKeys(lastUsed) {
      // never waits for a transaction that changes a key: the next use of that key tells its time again
      await db.transaction(READ_MS, async (sql) => {
        const free = await sql<{ id: string }[]>`
          select id::text from api_keys where id = any(${lastUsed.map(([id]) => id)}::uuid[])
          order by id for no key update skip locked`;
        const ids = new Set(free.map(({ id }) => id));
        const used = lastUsed.filter(([id]) => ids.has(id));
        await sql`
          update api_keys k set last_used_at = greatest(k.last_used_at, used.at)
          from (
            select id, max(to_timestamp(at / 1000)) as at
            from unnest(${used.map(([id]) => id)}::uuid[], ${used.map(([, at]) => at)}::float8[]) as t (id, at) group by id
          ) as used
          where k.id = used.id`;
      });
    },
    async reserve(writer, leaseSeconds, wanted) {
      const rows = await db.run(
        READ_MS,
        (sql) => sql<{ id: string; refused_by: 'day' | 'end_user' | null }[]>`
          select id, refused_by from reserve_budget(${writer}::uuid, ${leaseSeconds}::integer, ${jsonOf(wanted)}::text::json)`,
      );
      return new Map(rows.map(({ id, refused_by }) => [id, refused_by ?? true]));
    },
    keepReservations: (...given) => keepReservations(db, ...given),
  };
}

function readKeyUsage(
  db: Database,
  keys: Parameters<LedgerStore['keyUsage']>[0],
): ReturnType<LedgerStore['keyUsage']> {
  return db.run(
    READ_MS,
    (sql) => sql<Awaited<ReturnType<LedgerStore['keyUsage']>>>`
      select api_key_id::text as "keyId", company_id::text as "companyId", billing_month::text as month,
        sum(requests)::float8 as requests, sum(prompt_tokens)::float8 as "promptTokens",
        sum(completion_tokens)::float8 as "completionTokens", sum(cost_eur)::text as eur
      from usage_key_months
      where company_id = any(${keys.map(({ companyId }) => companyId)}::uuid[])
        and api_key_id = any(${keys.map(({ keyId }) => keyId)}::uuid[])
        and billing_month = any(${[...new Set(keys.map(({ month }) => month))]}::date[])
      group by 1, 2, 3`,
  );
}

function readCalls(
  db: Database,
  wanted: Parameters<LedgerStore['calls']>[0],
): Promise<BookedCall[]> {
  return db.run(
    READ_MS,
    (sql) => sql<BookedCall[]>`
      select request_id::text as "requestId", api_key_id::text as "keyId", model_slug as slug, endpoint,
        prompt_tokens::float8 as "promptTokens", completion_tokens::float8 as "completionTokens",
        trim_scale(cost_eur)::text as eur, usage_source as source, outcome,
        (extract(epoch from occurred_at) * 1000)::float8 as at,
        json_build_object(${sql.unsafe(TOKEN_DETAILS.map((name) => `'${name}', ${name}`).join(', '))}) as details
      from api_usage
      where company_id = any(${wanted.map(({ payer }) => payer.companyId)}::uuid[])
        and api_key_id = any(${wanted.map(({ payer }) => payer.id)}::uuid[])
        and billing_month = any(${[...new Set(wanted.flatMap(({ months }) => months))]}::date[])
        and request_id = any(${wanted.map(({ requestId }) => requestId)}::uuid[])`,
  );
}

async function keepReservations(
  db: Database,
  ...[writer, ended, renewed, leaseSeconds]: Parameters<LedgerStore['keepReservations']>
): Promise<void> {
  const ids = renewed.map(({ requestId }) => requestId);
  await db.run(READ_MS, async (sql) => {
    const expiry = sql`clock_timestamp() + make_interval(secs => ${leaseSeconds}::integer)`;
    const renewedRows = await sql<{ id: string }[]>`
      with ended as (
        delete from budget_reservations
        where request_id = any(${[...ended]}::uuid[])
          or (expires_at < clock_timestamp() and request_id <> all(${ids}::uuid[]))
      )
      update budget_reservations set expires_at = ${expiry} where request_id = any(${ids}::uuid[])
      returning request_id::text as id`;
    if (renewedRows.length === ids.length) return;
    const there = new Set(renewedRows.map(({ id }) => id));
    await sql`
      insert into budget_reservations (request_id, company_id, billing_month, billing_day, api_key_id, end_user_id, owner, amount_eur, expires_at)
      select request_id, company_id, billing_month, billing_day, api_key_id, end_user_id, ${writer}::uuid, amount_eur, ${expiry}
      from json_to_recordset(${jsonOf(renewed.filter(({ requestId }) => !there.has(requestId)))}::text::json)
        as r (request_id uuid, company_id uuid, billing_month date, billing_day date, api_key_id uuid, end_user_id uuid, amount_eur numeric)
      on conflict do nothing`;
  });
}

/** Reservations as `reserve_budget` takes them (sql/schema/budgets.sql). */
function jsonOf(reservations: readonly Reservation[]): string {
  return JSON.stringify(
    reservations.map(({ requestId, companyId, month, day, keyId, endUserId, amount, bounded }) => ({
      request_id: requestId,
      company_id: companyId,
      billing_month: month,
      billing_day: day,
      api_key_id: keyId,
      end_user_id: endUserId,
      amount_eur: formatEur(amount),
      bounded,
    })),
  );
}

async function setAside(db: Database, refused: readonly RefusedRecord[]): Promise<void> {
  // a text of Postgres holds no NUL, but a damaged record may
  const records = refused.map(({ record }) => record.replaceAll('\0', '\ufffd'));
  const reasons = refused.map(({ reason }) => reason.replaceAll('\0', '\ufffd'));
  // the row may exist on the primary alone: the message makes a repetition wait for the synchronous
  // standby too (see sql/schema/seals.sql)
  await db.run(
    READ_MS,
    (sql) => sql`
      with kept as (
        insert into api_usage_set_aside (record, reason)
        select * from unnest(${records}::text[], ${reasons}::text[]) on conflict do nothing
        returning id
      )
      select pg_logical_emit_message(true, 'tollgate', 'repeated') where not exists (select 1 from kept)`,
  );
}

/** @param ids see MonthSum */
function readSpend(
  db: Database,
  ids: readonly string[],
  months: readonly string[],
): Promise<MonthSum[]> {
  const days = ids.filter(isOfDay);
  const people = ids.filter(isOfPerson);
  const companies = ids.filter((id) => !id.includes('/'));
  const keys = ids.filter((id) => id.includes('/') && !isOfDay(id) && !isOfPerson(id));
  return db.run(READ_MS, async (sql) => {
    const others = [
      ...(days.length === 0 ? [] : await readDaySpend(sql, days, months)),
      ...(people.length === 0 ? [] : await readLineSpend(sql, people, months)),
    ];
    if (companies.length + keys.length === 0) return others;
    const ofCompanies = sql<MonthSum[]>`
      select ${spendColumns(sql)} from monthly_spend
      where company_id = any(${companies}::uuid[]) and billing_month = any(${[...months]}::date[])`;
    if (keys.length === 0) return [...(await ofCompanies), ...others];
    const ofKeys = readLineSpend(sql, keys, months);
    return [...(await ofCompanies), ...(await ofKeys), ...others];
  });
}

/** @param ids of days, see MonthSum */
function readDaySpend(
  sql: Sql,
  ids: readonly string[],
  days: readonly string[],
): Promise<MonthSum[]> {
  return sql<MonthSum[]>`
    select id, day::text as month,
      day_spend(split_part(id, '/', 1)::uuid, nullif(split_part(id, '/', 2), '')::uuid, day)::text as eur
    from unnest(${[...ids]}::text[]) as i (id), unnest(${[...days]}::date[]) as d (day)`;
}

/** Each by the primary key of the sums, whatever the planner thinks of them. @param ids of keys or end users, see MonthSum */
function readLineSpend(
  sql: Sql,
  ids: readonly string[],
  months: readonly string[],
): Promise<MonthSum[]> {
  return sql<MonthSum[]>`
    select id, month::text, line_spend(split_part(id, '/', 1)::uuid, split_part(id, '/', 2)::uuid, month,
      nullif(split_part(id, '/', 3), '')::uuid)::text as eur
    from unnest(${[...ids]}::text[]) as i (id), unnest(${[...months]}::date[]) as m (month)`;
}

/** @param cursor the server and its clock at the last reading, and the cursor of `spentSince` */
async function readChangedSpend(
  db: Database,
  cursor: string | null,
): ReturnType<LedgerStore['changedSpend']> {
  const [before, seconds, ...since] = cursor?.split(' ') ?? [];
  // as one text, see `readNews` in change-feed.ts: a gateway that writes asks this four times a second
  const [{ server, at, now, sums }] = await db.run(READ_MS, (sql) =>
    sql.unsafe<[{ server: string; at: number; now: string; sums: MonthSum[] | null }]>(`
      with changed as materialized (${spentSince(before === undefined ? null : since.join(' '))})
      select ${SERVER_IDENTITY} as server, ${CLOCK} as at, ${SPEND_CURSOR} as now, (
        select ${sumsOf('api_cost_eur + chat_cost_eur')} from monthly_spend
        where company_id = any(array(select distinct company_id from changed))
          and billing_month = any(array(select distinct billing_month from changed))
      ) as sums`),
  );
  const next = `${server} ${at} ${now}`;
  const continues = before === server && at - Number(seconds) <= KEPT_SECONDS;
  if (before === undefined || continues) return { cursor: next, sums: sums ?? [] };
  // after a failover or a restore, ids may be lower than those we saw, and after a long time changes are deleted: read all
  // current figures
  const all = await db.run(
    READ_ALL_MS,
    (sql) => sql<MonthSum[]>`
      select ${spendColumns(sql)} from monthly_spend where billing_month > now() - interval '2 months'`,
  );
  return { cursor: next, sums: all };
}

/** The members of a MonthSum. */
function spendColumns(sql: Sql) {
  return sql`company_id::text as id, billing_month::text as month, (api_cost_eur + chat_cost_eur)::text as eur`;
}

/** All MonthSums of an amount as one JSON value, because the driver takes 3 µs for each row. */
function sumsOf(amount: string): string {
  return `json_agg(json_build_object('id', company_id, 'month', billing_month, 'eur', (${amount})::text))`;
}
