import { randomInt, randomUUID } from 'node:crypto';
import t from 'tap';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import { usageRecord } from '../../src/domain/usage.ts';
import { BatchLedger } from '../../src/ledger/batch-ledger.ts';
import type { Sql } from '../../src/store/connection/pool.ts';
import { ledgerStore } from '../../src/store/gateway/ledger.ts';
import { verifyLedger, verifySeals } from '../../src/store/statement/verify.ts';
import { exportLedger } from '../../src/store/usage/export.ts';
import { summarizeUsage } from '../../src/store/usage/summary.ts';
import { note } from '../faults/results.ts';
import { LONG } from '../faults/world.ts';
import { testDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { decimal, randomPrice, rate, whole } from './oracle.ts';

const ROWS = LONG ? 1_000_000 : 20_000;
const COMPANIES = 20;

const oracle = new Map<string, bigint>();

t.test(
  'row, summary, export and monthly_spend agree with a big-number oracle to the last digit',
  async (t) => {
    const { db } = await testDatabase(t);
    const read = <T>(work: (sql: Sql) => PromiseLike<T>): Promise<T> => db.run(300_000, work);
    const companies = await read(
      (sql) => sql<{ id: string }[]>`
      insert into companies (name) select 'Company ' || n from generate_series(1, ${COMPANIES}::integer) n returning id`,
    );
    const log = { warn: () => {}, error: (_fields: object, text: string) => t.fail(text) };
    const ledger = new BatchLedger({
      store: ledgerStore(db),
      clock: Date.now,
      calendar: { date: () => '2026-11-01' },
      log,
      maxUnspooled: 50_000,
    });
    ledger.start();
    const rows = new Map<string, string>();
    let model = newModel();
    for (let n = 0; n < ROWS; n++) {
      if (n % 500 === 0) {
        model = newModel(); // prices change all the while
        await until(() => ledger.backlog <= 20_000, 'the ledger catches up');
        await new Promise((resolve) => setImmediate(resolve));
      }
      const company = companies[n % COMPANIES]?.id as string;
      const tokens = {
        prompt: randomInt(2 ** (1 + (n % 30))),
        completion: randomInt(2 ** (1 + (n % 25))),
      };
      const requestId = randomUUID();
      const month = n % 7 === 0 ? '2026-10-01' : '2026-11-01';
      const at = Date.parse(month) + 86_400_000 * 3 + n;
      const admission = {
        requestId,
        payer: { id: company, companyId: company },
        model: model.model,
        endpoint: 'embeddings',
        at,
        month,
        costCenter: '',
      } as const;
      ledger.book(usageRecord(admission, tokens, 'upstream', 'completed'), null);
      const cost = BigInt(tokens.prompt) * model.input + BigInt(tokens.completion) * model.output;
      oracle.set(`${company} ${month}`, (oracle.get(`${company} ${month}`) ?? 0n) + cost);
      if (n % 50 === 0) rows.set(requestId, decimal(cost));
    }
    t.equal(await ledger.close(120_000), 0);

    const stored = await read(
      (sql) => sql<{ id: string; cost: string }[]>`
      select request_id::text as id, trim_scale(cost_eur)::text as cost from api_usage
      where request_id = any(${[...rows.keys()]}::uuid[])`,
    );
    t.same(new Map(stored.map(({ id, cost }) => [id, cost])), rows, 'rows');
    const counters = await read(
      (sql) => sql<{ key: string; cost: string }[]>`
      select company_id || ' ' || billing_month as key, trim_scale(api_cost_eur)::text as cost from monthly_spend`,
    );
    t.same(
      new Map(counters.map(({ key, cost }) => [key, cost])),
      new Map([...oracle].map(([key, cost]) => [key, decimal(cost)])),
      'monthly_spend',
    );
    for (const { id } of LONG ? companies.slice(0, 2) : companies) {
      for (const month of ['2026-10-01', '2026-11-01']) {
        const truth = oracle.get(`${id} ${month}`) as bigint;
        const summary = await read((sql) => summarizeUsage(sql, id, month));
        t.equal(summary.api_cost_eur, decimal(truth), 'summary');
        let exported = 0n;
        await read(async (sql) => {
          for await (const batch of exportLedger(sql, id, month))
            for (const row of batch) exported += whole(String(row.cost_eur));
        });
        t.equal(exported, truth, 'export');
      }
    }
    t.same((await read(verifyLedger)).differences, []);
    const seals = await read((sql) => verifySeals(sql));
    t.match(seals, { rows: ROWS, unsealed: 0, total: 0 });
    note(
      'Money is exact',
      `${ROWS} random rows, prices changed every 500, against a big-number oracle`,
      `0 differences in rows, counters, summaries and exports, to 10^-15 EUR; ${seals.seals} seals hold`,
    );
  },
);

/** A model with prices of up to 12 decimals, and the same prices per token as whole numbers of 10^-15 EUR. */
function newModel() {
  const [input, output] = [randomPrice(), randomPrice()];
  const model = {
    slug: 'priced',
    upstream: `internal ${input}`,
    kind: 'embedding',
    euHosted: true,
    acceptsTokens: false,
    prices: parsePrices(input, output),
    created: 0,
    next: null,
  } as const;
  return { model, input: rate(input), output: rate(output) };
}
