import { readFileSync } from 'node:fs';
import t from 'tap';
import { TOKEN_DETAILS } from '../../../src/domain/usage.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { costFormula } from '../../../src/store/statement/cost.ts';
import {
  API_SPEND,
  DAY,
  rowsOf,
  SOURCES,
  SUMS,
  type Sums,
} from '../../../src/store/statement/sums.ts';
import { testDatabase } from '../../support/postgres.ts';

/** Verification and triggers say the same: what a trigger does is compared with what src/store/statement/sums.ts says, word by word. */

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);

/** The functions that write tables of sums, and what a batch adds to the ledger in each. */
const FUNCTIONS = ['count_api_usage', 'book_upstream_costs', 'move_chat_cost'];
const ALL: readonly Sums[] = [API_SPEND, ...Object.values(SUMS)];

/** SQL without comments, and without what only makes it readable. */
const plain = (text: string) =>
  text
    .replaceAll(/--.*$/gm, '')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ ?([(),=+]) ?/g, '$1');

/** What a trigger does for the rows of a batch. `order by` and what follows the sums are the trigger's own. */
function statementsOf(sums: Sums): { insert: string; update: string } {
  const { table, by, figures, part, untold = [] } = sums;
  const key = part === undefined ? by : `${by}, ${part[0]}`;
  const from = sums.from === 'calls' ? 'added' : sums.from;
  const rows = rowsOf(sums, from).replace(
    `select ${by}`,
    `select ${part === undefined ? by : `${by}, ${part[1]}`}`,
  );
  const moved = Object.keys(figures).map((name) => {
    const sum = `s.${name} + excluded.${name}`;
    return `${name} = ${untold.includes(name) ? `coalesce(${sum}, s.${name}, excluded.${name})` : sum}`;
  });
  return {
    insert: plain(`insert into ${table} as s (${key}, ${Object.keys(figures).join(', ')}) ${rows}`),
    update: plain(`on conflict (${key}) do update set ${moved.join(', ')}`),
  };
}

t.test('a trigger moves each table by the sums that verify compares it with', async (t) => {
  const rows = await run(
    (sql) => sql<{ name: string; body: string }[]>`
      select proname as name, prosrc as body from pg_proc
      where pronamespace = current_schema()::regnamespace and prosrc ~ 'insert into (usage_(?!marks)|monthly_spend|upstream_cost_monthly)'`,
  );
  t.same(rows.map(({ name }) => name).sort(), [...FUNCTIONS].sort(), 'nothing else writes them');
  const bodies = new Map(rows.map(({ name, body }) => [name, plain(body)]));
  const counting = FUNCTIONS.slice(0, 2).map((name) => bodies.get(name) as string);
  for (const sums of ALL) {
    const { insert, update } = statementsOf(sums);
    const body = counting.find((text) => text.includes(`insert into ${sums.table} as `)) ?? '';
    const [, rest = ''] = body.split(insert);
    t.ok(body.includes(insert), `${sums.table} has the sums of its rows`, { wanted: insert });
    const moves = rest.replace(/^ order by (?:(?! on conflict).)*/, '').trimStart();
    t.ok(
      moves.startsWith(update) && /^[;) ,]/.test(moves.slice(update.length)),
      `${sums.table} moves by them`,
      {
        wanted: update,
      },
    );
  }
  const statements = counting.flatMap((text) =>
    [...text.matchAll(/insert into (\w+)/g)].map(([, table]) => table),
  );
  const others = ['late_usage', 'ledger_feed', 'spend_changes', 'upstream_costs'];
  t.same(statements.sort(), [...ALL.map(({ table }) => table), ...others].sort(), 'once each');
  const sources = {
    // whatever any table groups by, and sums of what each call has
    cells:
      plain(`select *, day - billing_month + 1 as number from (select company_id, billing_month, ${DAY} as day, model_slug, api_key_id,
      endpoint, usage_source, outcome, cost_center, count(*) as requests, sum(prompt_tokens) as prompt_tokens,
      sum(completion_tokens) as completion_tokens, sum(cost_eur) as cost_eur, count(coalesce(${TOKEN_DETAILS.join(', ')})) as told,
      count(end_user_id) as named from added group by 1, 2, 3, 4, 5, 6, 7, 8, 9) as alike`),
    told: plain(SOURCES.told('added')).slice(1, -1),
    named: plain(SOURCES.named('added')).slice(1, -1),
  };
  for (const [source, wanted] of Object.entries(sources)) {
    t.ok(
      counting.some((body) => body.includes(`(${wanted})`)),
      `${source} are those that verify groups`,
      { wanted },
    );
  }
});

t.test(
  'a table of sums has the columns that are added up, and one row for what tells them apart',
  async (t) => {
    for (const { table, by, figures, part } of ALL) {
      const [row] = await run(
        (sql) => sql<{ key: string[]; columns: string[] }[]>`
        select (select array_agg(attname::text order by array_position(i.indkey::smallint[], attnum)) from pg_attribute a
            where a.attrelid = i.indrelid and attnum = any(i.indkey)) as key,
          (select array_agg(attname::text) from pg_attribute a where a.attrelid = i.indrelid and attnum > 0 and not attisdropped) as columns
        from pg_index i where i.indrelid = ${table}::regclass and i.indisprimary`,
      );
      const key = [...by.split(', '), ...(part === undefined ? [] : [part[0]])];
      t.same(row?.key, key, table);
      const more = table === 'monthly_spend' ? ['chat_cost_eur', 'statement'] : [];
      t.same(
        [...(row?.columns ?? [])].sort(),
        [...key, ...Object.keys(figures), ...more].sort(),
        table,
      );
    }
  },
);

t.test('the check of a cost is the sum of its parts that reports add up', async (t) => {
  const schema = readFileSync(new URL('../../../sql/schema/ledger.sql', import.meta.url), 'utf8');
  const formula = costFormula((part) => `price_${part}`);
  t.ok(plain(schema).includes(plain(`else cost_eur = ${formula} end`)), formula);
});

t.test('the short forms of the checks refuse what the rules refuse one by one', async (t) => {
  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
  t.comment(`SEED=${seed}`);
  const ofCompletion = ['reasoning_tokens', 'audio_completion_tokens', 'image_completion_tokens'];
  const most = (column: string) => {
    if (column === 'search_units') return '1000000000000';
    return ofCompletion.includes(column) ? 'completion_tokens' : 'prompt_tokens';
  };
  const rules = {
    api_usage_details_check: TOKEN_DETAILS.map(
      (name) => `${name} >= 0 and ${name} <= ${most(name)}`,
    ),
    cost_is_exact: [`cost_eur = ${costFormula((part) => `price_${part}`)}`],
  };
  const rarely = (value: string, otherwise = 'null') =>
    `case when random() < 0.3 then ${value} else ${otherwise} end`;
  const count = `(random() * 12)::bigint - 1`;
  for (const [name, rule] of Object.entries(rules)) {
    const [row] = await run(async (sql) => {
      const [{ check }] = await sql<[{ check: string }]>`
        select pg_get_expr(conbin, conrelid) as check from pg_constraint
        where conname = ${name} and conrelid = 'api_usage'::regclass`;
      await sql`select setseed(${(seed % 1000) / 1000}::float8)`;
      return sql.unsafe<{ differ: number; held: number; refused: number }[]>(`
        with calls as materialized (
          select 10::bigint as prompt_tokens, 10::bigint as completion_tokens, null::jsonb as parts, 0.5 as price_input, 0.25 as price_output,
            ${rarely('round(random()::numeric, 1)')} as price_cache_read, ${rarely('round(random()::numeric, 1)')} as price_cache_write,
            ${TOKEN_DETAILS.map((each) => `${rarely(rarely('1000000000001', count))} as ${each}`).join(', ')}
          from generate_series(1, 20000)
        ),
        costed as (
          select *, ${rarely(
            '0.0075',
            costFormula((part) => `price_${part}`),
          )} as cost_eur from calls
        ),
        checked as (
          select (${check}) is not false as holds, (${rule.join(' and ')}) is not false as should from costed
        )
        select count(*) filter (where holds <> should)::integer as differ, count(*) filter (where holds)::integer as held,
          count(*) filter (where not holds)::integer as refused from checked`);
    });
    t.equal(row?.differ, 0, name);
    t.ok((row?.held ?? 0) > 100 && (row?.refused ?? 0) > 100, 'both come about', { row });
  }
});
