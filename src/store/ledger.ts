import { formatEur } from '../domain/money.ts';
import type { LedgerStore, MonthSum } from '../domain/ports.ts';
import type { Database } from './database.ts';
import { inlined, serverIdentity } from './server.ts';

/**
 * Deadline of one batch. Short, because a connection to a server that went away without a word
 * is only noticed by it; a batch that is merely large is made smaller by the writer.
 */
const INSERT_MS = 4_000;
const READ_MS = 2_000;
const READ_ALL_MS = 10_000; // some hundred thousand figures

/** The ledger's tables: api_usage, monthly_spend and what is set aside (contract section 3). */
export function ledgerStore(db: Database): LedgerStore {
  return {
    async insert(writer, records, total): Promise<MonthSum[] | 'all'> {
      // one JSON text instead of an array per column: the record was serialised once already, and
      // constant text serves every batch size; the sums come as one text too
      const sums = await db.run(
        INSERT_MS,
        async (sql, large) =>
          (
            await sql<{ sums: string | null }[]>`
              select case when sum(cost_eur) = ${total === null ? null : formatEur(total)}::numeric then 'all'
                else string_agg(company_id || ' ' || billing_month || ' ' || cost_eur, ',') end as sums
              from book_usage(${writer}::uuid, ${large(records)}::text::json)`
          )[0]?.sums ?? null,
      );
      return sums === 'all' ? sums : readSums(sums);
    },

    async setAside(refused): Promise<void> {
      // a text of Postgres holds no NUL, and what is damaged may
      const records = refused.map(({ record }) => record.replaceAll('\0', '\ufffd'));
      const reasons = refused.map(({ reason }) => reason.replaceAll('\0', '\ufffd'));
      // what is there already may be on the primary alone: a repetition writes a few bytes of log, so
      // that it too waits for the synchronous standby (see sql/0012_repeated_batches.sql)
      await db.run(
        READ_MS,
        (sql) => sql`
          with kept as (
            insert into api_usage_set_aside (record, reason)
            select * from unnest(${records}::text[], ${reasons}::text[]) on conflict do nothing
            returning id
          )
          select pg_logical_emit_message(true, 'tollgate', 'repeated') where not exists (select from kept)`,
      );
    },

    async spend(companyIds, months): Promise<MonthSum[]> {
      return db.run(READ_MS, async (sql) => [
        ...(await sql<MonthSum[]>`
          select company_id::text as "companyId", billing_month::text as month, (api_cost_eur + chat_cost_eur)::text as eur
          from monthly_spend
          where company_id = any(${companyIds as string[]}::uuid[]) and billing_month = any(${months as string[]}::date[])`),
      ]);
    },

    async changedSpend(cursor): Promise<{ cursor: string; sums: MonthSum[] }> {
      // A transaction that takes an id early may commit late: everything from the oldest
      // transaction that was still running at the last look is read again.
      const [before, since] = cursor?.split(' ') ?? [null, null];
      const { server, xmin, sums } = await db.run(READ_MS, async (sql) => {
        const [row] = await sql<{ server: string; xmin: string; sums: string | null }[]>`
          select ${serverIdentity(sql)} as server, pg_snapshot_xmin(pg_current_snapshot())::text as xmin, (
            select string_agg(company_id || ' ' || billing_month || ' ' || (api_cost_eur + chat_cost_eur), ',')
            from monthly_spend where changed_xid >= ${inlined(sql, since ?? null)}::xid8
          ) as sums`;
        return row as { server: string; xmin: string; sums: string | null };
      });
      const next = `${server} ${xmin}`;
      if (before === null || before === server) return { cursor: next, sums: readSums(sums) };
      // the ids of a server that took over, or was restored, may be behind those we saw: read all that is current
      return db.run(READ_ALL_MS, async (sql) => ({
        cursor: next,
        sums: [
          ...(await sql<MonthSum[]>`
            select company_id::text as "companyId", billing_month::text as month, (api_cost_eur + chat_cost_eur)::text as eur
            from monthly_spend where billing_month > now() - interval '2 months'`),
        ],
      }));
    },

    async touchKeys(lastUsed): Promise<void> {
      const ids = lastUsed.map(([id]) => id);
      const times = lastUsed.map(([, at]) => at);
      // in the order of their ids, so that two replicas never wait for each other
      await db.run(
        READ_MS,
        (sql) => sql`
          update api_keys k set last_used_at = greatest(k.last_used_at, used.at)
          from (
            select id, max(to_timestamp(at / 1000)) as at
            from unnest(${ids}::uuid[], ${times}::float8[]) as t (id, at) group by id order by id
          ) as used
          where k.id = used.id`,
      );
    },

    async reserve(owner, leaseSeconds, wanted): Promise<ReadonlySet<string>> {
      const requests = wanted.map(({ requestId, companyId, month, amount, bounded }) => ({
        request_id: requestId,
        company_id: companyId,
        billing_month: month,
        amount_eur: formatEur(amount),
        bounded,
      }));
      const rows = await db.run(READ_MS, async (sql) => [
        ...(await sql<{ id: string }[]>`
          select reserve_budget(${owner}::uuid, ${leaseSeconds}::integer, ${JSON.stringify(requests)}::text::json)::text as id`),
      ]);
      return new Set(rows.map(({ id }) => id));
    },

    async keepReservations(ended, renewed, leaseSeconds): Promise<void> {
      await db.run(
        READ_MS,
        (sql) => sql`
          with ended as (
            delete from budget_reservations
            where request_id = any(${ended as string[]}::uuid[])
              or (expires_at < clock_timestamp() and request_id <> all(${renewed as string[]}::uuid[]))
          )
          update budget_reservations set expires_at = clock_timestamp() + make_interval(secs => ${leaseSeconds}::integer)
          where request_id = any(${renewed as string[]}::uuid[])`,
      );
    },
  };
}

/** Sums as one text: the driver takes 3 µs for a row. */
function readSums(text: string | null): MonthSum[] {
  if (text === null) return [];
  return text.split(',').map((sum) => {
    const [companyId, month, eur] = sum.split(' ') as [string, string, string];
    return { companyId, month, eur };
  });
}
