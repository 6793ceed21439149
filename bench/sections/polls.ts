import { openDatabase } from '../../src/store/database.ts';
import { ledgerStore } from '../../src/store/ledger.ts';
import { reading } from '../results.ts';
import type { Section, Step } from '../run/rounds.ts';
import { median, table } from '../tables.ts';

const MINUTE_MS = 60_000;
const COMPANIES = 20_000;
/** Figures that changed since the last look. */
const CHANGED = [0, 1000, 10_000];

/** What a look at the spend that other gateways booked costs Postgres and a replica. */
export const polls: Section = {
  heading: 'What a look at spend costs',
  steps: ({ server }) =>
    CHANGED.map(
      (changed): Step => ({
        name: `${changed} changed`,
        async measure() {
          const url = await server.seeded();
          const db = openDatabase({ url, maxConnections: 1 });
          await db.run(MINUTE_MS, async (sql) => {
            await sql`
              insert into monthly_spend (company_id, billing_month)
              select gen_random_uuid(), date_trunc('month', now())::date from generate_series(1, ${COMPANIES}::int)`;
            await sql`vacuum analyze monthly_spend`;
          });
          const store = ledgerStore(db);
          const { cursor } = await store.changedSpend(null);
          await db.run(
            MINUTE_MS,
            (sql) => sql`
              update monthly_spend set requests = 1, changed_xid = pg_current_xact_id()
              where company_id in (select company_id from monthly_spend limit ${changed})`,
          );
          const looks = changed > 1000 ? 40 : 400;
          for (let n = 0; n < 5; n++) await store.changedSpend(cursor);
          const before = server.cpuMicros();
          const own = process.cpuUsage();
          for (let n = 0; n < looks; n++) await store.changedSpend(cursor);
          const postgres = (server.cpuMicros() - before) / looks;
          const { user, system } = process.cpuUsage(own);
          await db.close();
          await server.drop(url);
          return { [changed]: { postgres, cpu: (user + system) / looks } };
        },
      }),
    ),
  note: () => `Spend of ${COMPANIES.toLocaleString('en')} companies.`,
  table: (results) =>
    table(
      ['figures that changed since the last look', 'Postgres CPU µs', 'replica CPU µs'],
      CHANGED.map((changed) => [
        changed.toLocaleString('en'),
        ...['postgres', 'cpu'].map((kind) => median(reading(results, `${changed}`, 'gateway', kind))),
      ]),
    ),
};
