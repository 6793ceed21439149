import { randomInt, randomUUID } from 'node:crypto';
import t from 'tap';
import { PLAIN_CSV } from '../../src/domain/documents/csv.ts';
import { readCsv } from '../../src/domain/documents/read-csv.ts';
import { statementCsv } from '../../src/domain/documents/statement.ts';
import { newRequestId } from '../../src/runtime/request-id.ts';
import type { Sql } from '../../src/store/connection/pool.ts';
import { snapshot } from '../../src/store/connection/tenant-role.ts';
import { ledgerStore } from '../../src/store/gateway/ledger.ts';
import { readMonthOf } from '../../src/store/statement/statement.ts';
import { verifyLedger, verifySeals } from '../../src/store/statement/verify.ts';
import { verifyStatements } from '../../src/store/statement/verify-statements.ts';
import { readUsageChange } from '../../src/store/usage/change.ts';
import { NO_FILTERS } from '../../src/store/usage/cube.ts';
import { copyLedger, exportLedger } from '../../src/store/usage/export.ts';
import { readFeed } from '../../src/store/usage/feed.ts';
import { readFocus } from '../../src/store/usage/focus.ts';
import { findRequest } from '../../src/store/usage/request.ts';
import { summarizeUsage } from '../../src/store/usage/summary.ts';
import { LONG } from '../faults/world.ts';
import { testDatabase } from '../support/postgres.ts';
import { closeStatement } from '../support/statement.ts';
import { decimal, rate as perUnit, randomPrice, whole } from './oracle.ts';

/**
 * Reports of rows with all parts and rates, against an oracle that shares no code with them: whole numbers of 10^-15 EUR.
 */

const ROWS = LONG ? 200_000 : 3000;
const MS = 600_000;
const MONTHS = ['2026-09-01', '2026-10-01'] as const;
const SLUGS = ['swift', 'solid', 'plain'] as const;
const RATES = [
  null,
  'over 272000',
  'priority',
  'priority over 272000',
  'Mon-Fri 01:00-04:00 UTC',
] as const;
const OF_PROMPT = [
  'input',
  'cache_read',
  'cache_write',
  'cache_write_1h',
  'audio_input',
  'image_input',
] as const;
const OF_COMPLETION = ['output', 'reasoning', 'audio_output', 'image_output'] as const;
const BESIDE = ['search_unit', 'request'] as const;
const PARTS = [...OF_PROMPT, ...OF_COMPLETION, ...BESIDE];
const COLUMNS = ['input', 'cache_read', 'cache_write', 'output'];

type Part = (typeof PARTS)[number];
interface Charged {
  readonly part: Part;
  readonly units: number;
  readonly price: string;
}
interface Row {
  readonly id: string;
  readonly company: string;
  readonly key: string;
  readonly slug: string;
  readonly center: string;
  readonly month: string;
  readonly rate: string | null;
  readonly charged: readonly Charged[];
  readonly isListed: boolean;
  readonly cost: bigint;
}

const oneOf = <T>(from: readonly T[]): T => from[randomInt(from.length)] as T;
const costOf = ({ units, price }: Charged) => BigInt(units) * perUnit(price);
const total = (rows: readonly Row[]) => rows.reduce((sum, { cost }) => sum + cost, 0n);
const text = (price: string) => price.replace(/\.?0+$/, '') || '0';

/** Prices of a part, by model and rate: two that follow each other. */
const prices = new Map<string, string>();
function priceOf(slug: string, rate: string | null, part: Part): string {
  const key = `${slug} ${rate} ${part} ${randomInt(2)}`;
  const price = prices.get(key) ?? randomPrice();
  prices.set(key, price);
  return price;
}

function sumsBy<T>(all: readonly T[], keyOf: (each: T) => string, of: (each: T) => bigint) {
  const sums = new Map<string, bigint>();
  for (const each of all) sums.set(keyOf(each), (sums.get(keyOf(each)) ?? 0n) + of(each));
  return [...sums].map(([key, sum]) => `${key} = ${sum}`).sort();
}

t.test(
  'statement, FOCUS, export, feed, summary and change of rows with parts and rates agree with an oracle',
  async (t) => {
    const { db } = await testDatabase(t);
    const read = <T>(work: (sql: Sql) => PromiseLike<T>): Promise<T> => db.run(MS, work);
    const companies = await read(
      (sql) => sql<{ id: string }[]>`insert into companies (name) values ('A'), ('B') returning id`,
    );
    await read(
      (sql) => sql`
      insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output, rates)
      values ('swift', 'internal/swift', 'chat', true, 1, 1, '[{"over":272000,"input":"1","output":"1","audio_input":"2"}]')`,
    );
    const keys = [randomUUID(), randomUUID()];
    const rows: Row[] = [];
    const store = ledgerStore(db);
    for (let n = 0; n < ROWS; n += 500) {
      const batch = Array.from({ length: 500 }, () => randomRow());
      rows.push(...batch.map(([row]) => row));
      await store.insert(
        randomUUID(),
        Buffer.from(JSON.stringify(batch.map(([, record]) => record))),
        null,
      );
    }
    function randomRow(): [Row, object] {
      const [slug, company, key] = [oneOf(SLUGS), oneOf(companies).id, oneOf(keys)];
      const rate = slug === 'plain' ? null : oneOf(RATES);
      const isListed = slug !== 'plain' && randomInt(3) > 0;
      const some = isListed ? PARTS : PARTS.filter((part) => COLUMNS.includes(part));
      const charged = some
        .filter((part) => part === 'input' || randomInt(2) === 0)
        .map((part) => ({
          part,
          units: part === 'request' ? 1 : 1 + randomInt(2 ** (1 + randomInt(20))),
          price: priceOf(slug, rate, part),
        }));
      if (isListed && charged.every(({ part }) => COLUMNS.includes(part)))
        charged.push({ part: 'request', units: 1, price: priceOf(slug, rate, 'request') });
      const count = (of: readonly Part[]) =>
        charged.reduce((sum, { part, units }) => sum + (of.includes(part) ? units : 0), 0);
      const priceIn = (part: Part) => charged.find((each) => each.part === part)?.price;
      const units = (part: Part) => charged.find((each) => each.part === part)?.units;
      const month = oneOf(MONTHS);
      const at = Date.parse(month) + randomInt(29 * 86_400_000);
      const cost = charged.reduce((sum, each) => sum + costOf(each), 0n);
      const id = newRequestId(at);
      const center = oneOf(['', 'Einkauf']);
      const record = {
        billing_month: month,
        request_id: id,
        company_id: company,
        api_key_id: key,
        model_slug: slug,
        upstream_model: `internal/${slug}`,
        endpoint: 'chat.completions',
        prompt_tokens: count(OF_PROMPT),
        completion_tokens: count(OF_COMPLETION),
        cost_eur: decimal(cost),
        price_input: priceIn('input') ?? '0',
        price_output: priceIn('output') ?? '0',
        price_cache_read: priceIn('cache_read'),
        price_cache_write: priceIn('cache_write'),
        cached_tokens: units('cache_read'),
        cache_write_tokens: units('cache_write'),
        usage_source: 'upstream',
        outcome: 'completed',
        occurred_at: new Date(at).toISOString(),
        cost_center: center,
        ...(rate !== null && { rate }),
        ...(isListed && { parts: charged }),
      };
      return [{ id, company, key, slug, center, month, rate, charged, isListed, cost }, record];
    }

    const at = ({ slug, rate }: Row, { part, price }: Charged) =>
      `${slug} ${part} ${rate ?? ''} ${text(price)}`;
    for (const { id } of companies) {
      for (const month of MONTHS) {
        const own = rows.filter((row) => row.company === id && row.month === month);
        const charges = own.flatMap((row) => row.charged.map((each) => [row, each] as const));
        const key = ([row, each]: (typeof charges)[number]) => at(row, each);
        const units = sumsBy(charges, key, ([, each]) => BigInt(each.units));
        const costs = sumsBy(charges, key, ([, each]) => costOf(each));

        // FOCUS, before and after the month is closed
        for (const isClosed of [false, true]) {
          if (isClosed) await closeStatement(db, id, month, undefined, MS);
          const focus: Record<string, string>[] = [];
          await snapshot(db, null, MS, async (sql) => {
            const brand = { name: 'Nordcloud', seller: null };
            for await (const batch of readFocus(sql, {
              brand,
              company: id,
              month,
              role: 'operator',
            }))
              focus.push(...(batch as unknown as Record<string, string>[]));
          });
          const place = (row: Record<string, string>) => {
            const { x_Model, x_Part, x_Rate = '' } = JSON.parse(row.SkuPriceDetails as string);
            t.equal(row.SkuId, [x_Model, x_Part, x_Rate].filter((each) => each !== '').join(':'));
            return `${x_Model} ${x_Part} ${x_Rate} ${row.ContractedUnitPrice}`;
          };
          t.same(
            sumsBy(focus, place, (row) => BigInt(row.ConsumedQuantity as string)),
            units,
            'units of FOCUS',
          );
          t.same(
            sumsBy(focus, place, (row) => whole(row.BilledCost as string)),
            costs,
            'costs of FOCUS',
          );
          t.same(
            new Set(
              focus.map(({ ConsumedUnit, PricingUnit }) => `${ConsumedUnit}, ${PricingUnit}`),
            ),
            new Set([
              'Tokens, 1000 Tokens',
              'Search Units, 1000 Search Units',
              'Calls, 1000 Calls',
            ]),
          );
        }

        // statement
        const shown = await read((sql) => readMonthOf(sql, id, month));
        const { charges: told = [], lines, cost_eur } = shown.statement;
        t.equal(cost_eur, decimal(total(own)), 'statement');
        const chargeAt = (each: (typeof told)[number]) =>
          `${each.model} ${each.part} ${each.rate ?? ''} ${each.price}`;
        t.same(
          sumsBy(told, chargeAt, ({ tokens }) => BigInt(tokens)),
          units,
          'units of its prices',
        );
        t.same(
          sumsBy(told, chargeAt, (each) => whole(each.cost_eur)),
          costs,
          'costs of its prices',
        );
        const linePart = (line: { model: string; key: string; cost_center: string }) =>
          `${line.model} ${line.key} ${line.cost_center}`;
        t.same(
          sumsBy(
            lines
              .flatMap((line) => (line.parts ?? []).map((part) => ({ ...line, ...part })))
              .filter(({ tokens }) => tokens > 0),
            (line) => `${linePart(line)} ${line.part}`,
            (line) => whole(line.cost_eur),
          ),
          sumsBy(
            charges,
            ([row, { part }]) => `${row.slug} ${row.key} ${row.center} ${part}`,
            ([, each]) => costOf(each),
          ),
          'parts of its lines',
        );
        const [heading, ...cells] = readCsv(
          statementCsv(shown.statement, shown.names, PLAIN_CSV),
        ).lines;
        const column = (name: string) => {
          const place = heading?.cells.indexOf(name) as number;
          return cells.map((line) => line.cells[place] as string);
        };
        t.equal(
          column('cost_eur').reduce((sum, each) => sum + whole(each), 0n),
          total(own),
          'its CSV',
        );
        t.equal(
          column('units').reduce((sum, each) => sum + Number(each), 0),
          charges.reduce(
            (sum, [, { part, units }]) =>
              sum + (part === 'search_unit' || part === 'request' ? units : 0),
            0,
          ),
          'its units',
        );

        // export
        const byId = new Map(own.map((row) => [row.id, row]));
        let exported = 0n;
        await read(async (sql) => {
          for await (const batch of exportLedger(sql, id, month)) {
            for (const told of batch) {
              const row = byId.get(told.request_id as string) as Row;
              byId.delete(row.id);
              t.equal(told.rate, row.rate);
              t.strictSame(told.parts, row.isListed ? row.charged : null);
              const parts = PARTS.map((part) => told[`cost_${part}`] as string);
              const sum = parts.reduce((all, each) => all + whole(each), 0n);
              t.equal(sum, row.cost, 'costs of parts');
              exported += whole(told.cost_eur as string);
            }
          }
        });
        t.equal(byId.size, 0);
        t.equal(exported, total(own), 'export');
        let csv = '';
        const range = { from: month, to: `${month.slice(0, 8)}${month === MONTHS[0] ? 30 : 31}` };
        const asked = {
          companyId: id,
          range,
          filters: NO_FILTERS,
          internal: true,
          form: PLAIN_CSV,
        };
        await snapshot(db, null, MS, (sql) =>
          copyLedger(sql, asked, async (bytes) => {
            csv += bytes;
            return true;
          }),
        );
        const [names, ...written] = readCsv(csv).lines;
        const ofParts = PARTS.map((part) => names?.cells.indexOf(`cost_${part}`) as number);
        const sum = written.flatMap(({ cells }) =>
          ofParts.map((place) => whole(cells[place] as string)),
        );
        t.equal(
          sum.reduce((all, each) => all + each, 0n),
          total(own),
          'export as CSV',
        );

        const summary = await read((sql) => summarizeUsage(sql, id, month));
        t.equal(summary.api_cost_eur, decimal(total(own)), 'summary');
      }
      const own = rows.filter(({ company }) => company === id);
      const of = (month: string) => total(own.filter((row) => row.month === month));
      const { total: change } = await read((sql) =>
        readUsageChange(
          sql,
          id,
          {
            before: { from: '2026-09-01', to: '2026-09-30' },
            after: { from: '2026-10-01', to: '2026-10-31' },
          },
          NO_FILTERS,
        ),
      );
      const { before: _, after: __, difference_eur, ...reasons } = change;
      t.equal(difference_eur, decimal(of(MONTHS[1]) - of(MONTHS[0])), 'change');
      t.equal(
        Object.values(reasons).reduce((sum, each) => sum + whole(each), 0n),
        whole(difference_eur),
        'its reasons add up',
      );
    }

    // feed
    const fed = new Map<string, bigint>();
    for await (const page of readFeed(db, { after: null, limit: Number.POSITIVE_INFINITY })) {
      for (const row of page) {
        const parts = PARTS.map((part) => whole(row[`cost_${part}`] as string));
        fed.set(
          row.request_id,
          parts.reduce((sum, each) => sum + each),
        );
      }
    }
    t.same(
      [...fed].map(([id, cost]) => `${id} ${cost}`).sort(),
      rows.map(({ id, cost }) => `${id} ${cost}`).sort(),
      'feed',
    );

    // single requests
    for (const row of rows.slice(0, 50)) {
      const found = await read((sql) => findRequest(sql, row.id, row.company));
      t.equal(found?.rate, row.rate);
      const isTold = row.isListed || row.rate !== null;
      const charged = row.isListed
        ? row.charged
        : row.charged.map(({ price, ...each }) => ({ ...each, price: text(price) }));
      t.strictSame(found?.charged, isTold ? charged : null, 'what a request was charged');
    }

    t.same((await read(verifyLedger)).differences, []);
    t.match(await read((sql) => verifySeals(sql)), { rows: ROWS, unsealed: 0, total: 0 });
    t.match(await read(verifyStatements), { total: 0 });
  },
);
