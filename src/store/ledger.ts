import type { LedgerStore, MonthSum } from '../domain/ports.ts';
import type { Database } from './database.ts';

const INSERT_MS = 10_000; // deadline of one batch
const READ_MS = 2_000;

/** The ledger's tables: api_usage, monthly_spend and what is set aside (contract section 3). */
export function ledgerStore(db: Database): LedgerStore {
  return {
    async insert(records): Promise<MonthSum[]> {
      // one JSON text instead of an array per column: the record was serialised once already,
      // and constant text serves every batch size
      const json = `[${records.join(',')}]`;
      return db.run(INSERT_MS, async (sql) => [
        ...(await sql<MonthSum[]>`
          with inserted as (
            insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
              prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
            select billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
              prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at
            from json_to_recordset(${json}::text::json) as record (billing_month date, request_id uuid, company_id uuid,
              api_key_id uuid, model_slug text, upstream_model text, endpoint text, prompt_tokens bigint,
              completion_tokens bigint, cost_eur numeric, price_input numeric, price_output numeric, usage_source text,
              outcome text, occurred_at timestamptz)
            order by billing_month, request_id
            on conflict do nothing
            returning company_id, billing_month, cost_eur
          )
          select company_id::text as "companyId", billing_month::text as month, sum(cost_eur)::text as eur
          from inserted group by company_id, billing_month`),
      ]);
    },

    async setAside(record, reason): Promise<void> {
      await db.run(
        READ_MS,
        (sql) => sql`insert into api_usage_set_aside (record, reason) values (${record}, ${reason})`,
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
      return db.run(READ_MS, async (sql) => {
        const rows = await sql<({ xmin: string } & { [K in keyof MonthSum]: MonthSum[K] | null })[]>`
          select pg_snapshot_xmin(pg_current_snapshot())::text as xmin, m.company_id::text as "companyId",
            m.billing_month::text as month, (m.api_cost_eur + m.chat_cost_eur)::text as eur
          from (values (1)) as one left join monthly_spend m on m.changed_xid >= ${cursor}::text::xid8`;
        return {
          cursor: rows[0]?.xmin as string,
          sums: rows.filter((row): row is typeof row & MonthSum => row.eur !== null),
        };
      });
    },

    async touchKeys(lastUsed): Promise<void> {
      const ids = [...lastUsed.keys()];
      const times = [...lastUsed.values()].map((at) => new Date(at).toISOString());
      await db.run(
        READ_MS,
        (sql) => sql`
          update api_keys k set last_used_at = greatest(k.last_used_at, used.at)
          from (select * from unnest(${ids}::uuid[], ${times}::timestamptz[]) as t (id, at) order by id) as used
          where k.id = used.id`,
      );
    },
  };
}
