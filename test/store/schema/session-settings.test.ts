import t, { type Test } from 'tap';
import { type Database, openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { testDatabase } from '../../support/postgres.ts';

/** What is in the database, and what gateways are told, depends on no setting of the session that makes a change. */

const MS = 60_000;

/** Settings that a session, a role or a database may have, and that change how Postgres reads or prints. */
const OTHERS: readonly (readonly [name: string, value: string])[] = [
  ['bytea_output', 'escape'],
  ['standard_conforming_strings', 'off'],
  ['backslash_quote', 'off'],
  ['datestyle', 'SQL, DMY'],
  ['datestyle', 'German'],
  ['intervalstyle', 'sql_standard'],
  ['intervalstyle', 'iso_8601'],
  ['timezone', 'Pacific/Apia'],
  ['timezone', 'America/St_Johns'],
  ['extra_float_digits', '-15'],
  ['transform_null_equals', 'on'],
  ['array_nulls', 'off'],
  ['quote_all_identifiers', 'on'],
  ['xmlbinary', 'hex'],
  ['search_path', 'pg_catalog'],
];

/** Functions that read and print no text, or are not called for others. All other ones are pinned. */
const FREE = [
  ...[
    'audit_actor',
    'utc_text',
    'new_pseudonym',
    'is_distributed',
    'is_operator',
    'is_visible',
    'enter_company',
    'spend_horizon',
  ],
  ...[
    'company_budget',
    'company_daily_budget',
    'company_allows_non_eu',
    'fits_budget',
    'note_end_user_erasure',
  ],
  ...['usage_digest', 'seal_digest', 'seal_checkpoint_digest', 'ledger_move_digest'],
  ...['price_parts', 'part_units', 'part_price', 'parts_cost'],
  'refuse_change',
];

t.test('every function has its own settings, or is known to need none', async (t) => {
  const { db } = await testDatabase(t);
  const functions = await db.run(
    MS,
    (sql) => sql<{ name: string; config: string[] | null }[]>`
      select proname as name, proconfig as config from pg_proc where pronamespace = 'public'::regnamespace order by 1`,
  );
  t.ok(functions.length > 60, 'there are many');
  const names = [...new Set(OTHERS.map(([name]) => name))].filter(
    (name) => !['backslash_quote', 'xmlbinary'].includes(name),
  );
  for (const { name, config } of functions) {
    const set = (config ?? []).map((each) => each.split('=')[0]?.toLowerCase());
    if (!FREE.includes(name))
      t.strictSame(
        names.filter((each) => !set.includes(each)),
        [],
        name,
      );
  }
  t.strictSame(
    FREE.filter((name) => !functions.some((each) => each.name === name)),
    [],
    'no name is left of a function that is gone',
  );
});

t.test(
  'a change by plain SQL leaves the same rows and tells the same, whatever its session is set to',
  async (t) => {
    const { url: plainUrl, db: plain } = await testDatabase(t);
    await changeAll(t, plainUrl, []);
    const expected = await traces(plain);
    t.match(expected.changes, [['company', COMPANY]], 'the company was announced');
    t.ok(
      expected.changes.filter(([kind, subject]) => kind === 'key' && subject === DIGEST).length > 2,
      'and the key',
    );
    for (const settings of [
      ...OTHERS.map((each) => [each]),
      OTHERS.filter(([, value]) => value !== 'German'),
    ]) {
      const { url, db } = await testDatabase(t);
      await changeAll(t, url, settings);
      t.strictSame(await traces(db), expected, settings.map((each) => each.join(' = ')).join(', '));
    }
  },
);

const COMPANY = '11111111-1111-4111-8111-111111111111';
const KEY = '22222222-2222-4222-8222-222222222222';
const WRITER = '33333333-3333-4333-8333-333333333333';
const CALL = '44444444-4444-4444-8444-444444444444';
/** Has bytes of letters, of a backslash and of none. */
const DIGEST = '5c78415c5c27222000ff80c3a9616263646566676869000102030405060708ff';

/** Changes of every kind by another program, in a session with these settings. */
async function changeAll(
  t: Test,
  url: string,
  settings: readonly (readonly [string, string])[],
): Promise<void> {
  const db = openDatabase({ url, maxConnections: 1 });
  t.teardown(() => db.close());
  await db.run(MS, async (sql) => {
    for (const [name, value] of settings) await sql`select set_config(${name}, ${value}, false)`;
    for (const statement of STATEMENTS) await sql.unsafe(statement);
  });
}

const RECORD = {
  billing_month: '2026-05-01',
  request_id: CALL,
  company_id: COMPANY,
  api_key_id: KEY,
  model_slug: 'fast',
  upstream_model: 'internal-name',
  endpoint: 'chat.completions',
  prompt_tokens: 3,
  completion_tokens: 4,
  cost_eur: '0.011',
  price_input: '1',
  price_output: '2',
  usage_source: 'upstream',
  outcome: 'completed',
  occurred_at: '2026-05-03T04:05:06.789Z',
  cost_center: '',
};

const STATEMENTS = [
  `insert into public.companies (id, name, monthly_budget_eur, disabled_model_slugs) values ('${COMPANY}', 'ACME', 12.34, '{"a b"}')`,
  `insert into public.api_keys (id, company_id, name, digest, prefix, scopes, created_at, expires_at)
    values ('${KEY}', '${COMPANY}', 'n', decode('${DIGEST}', 'hex'), 'svc_aaaa', '{chat}', '2026-02-03T04:05:06Z', '2027-08-09T10:11:12.345678Z')`,
  `update public.api_keys set revoked_at = '2026-07-06T05:04:03Z', allowed_cidrs = '{10.0.0.0/8}'`,
  `update public.api_keys set revoked_at = null`,
  `insert into public.models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output, created_at)
    values ('fast', 'internal-name', 'chat', true, 1, 2, '2026-02-03T04:05:06Z')`,
  `update public.models set eu_hosted = false`,
  `insert into public.assistants (company_id, name, system_prompt, temperature, visibility) values ('${COMPANY}', 'A', 'Be brief. \u00e9', 0.1, 'company')`,
  `update public.assistants set temperature = 0.30000000000000004`,
  `insert into public.users (email, company_id, role) values ('ann.o''hara@acme.example', '${COMPANY}', 'member')`,
  `insert into public.chat_usage (company_id, cost_eur, occurred_at) values ('${COMPANY}', 1.5, '2026-05-31T23:30:00Z')`,
  `update public.chat_usage set occurred_at = '2026-06-01T00:30:00Z', cost_eur = 2.5`,
  `select * from public.book_usage('${WRITER}', '[${JSON.stringify(RECORD)}]')`,
  `select * from public.checkpoint_seals()`,
  `select public.ensure_api_usage_partitions('2031-01-01', 2)`,
  `select public.mark_usage()`,
  `select public.apply_due_prices()`,
  `insert into public.budget_alerts (company_id, billing_month, threshold, budget_eur, spent_eur, occurred_at)
    values ('${COMPANY}', '2026-05-01', '80', 12.34, 10.5, '2026-05-04T05:06:07Z')`,
  `select public.erase_person('ann.o''hara@acme.example', false)`,
  `delete from public.assistants`,
  `update public.companies set closed_at = '2026-09-08T07:06:05Z'`,
  `select public.erase_company('${COMPANY}', true)`,
];

/** What the changes left: everything but the instants at which they were made, and ids and pseudonyms that are random. */
async function traces(db: Database) {
  const list = async (text: string) => {
    const rows = await db.run(MS, (sql: Sql) =>
      sql.unsafe<{ row: unknown }[]>(`select to_json(t) as row from (${text}) t`),
    );
    return rows.map(({ row }) => row);
  };
  const changes = (await list('select kind, subject from changes order by id')) as {
    kind: string;
    subject: string;
  }[];
  const assistants = new Set<string>();
  for (const { kind, subject } of changes) if (kind === 'assistant') assistants.add(subject);
  t.equal(assistants.size, 1);
  const log = await list(
    'select action, subject, company_id, before, after from audit_log order by id',
  );
  return {
    changes: changes.map(({ kind, subject }) => [
      kind,
      assistants.has(subject) ? 'the assistant' : subject,
    ]),
    log: log.map((entry) => withoutChance(entry)),
    events: (await list('select kind, body from events order by kind, body::text')).map((event) =>
      withoutChance(event),
    ),
    seals: await list(`select number, billing_month, row_count, encode(row_digests, 'hex') as rows,
      encode(digest, 'hex') as digest from ledger_seals order by number`),
    spend: await list(
      'select company_id, billing_month, requests, api_cost_eur, chat_cost_eur from monthly_spend order by 2',
    ),
    days: await list('select day, model_slug, requests from usage_model_days order by day'),
    parts:
      await list(`select c.relname, pg_get_expr(c.relpartbound, c.oid) as bound from pg_inherits i
      join pg_class c on c.oid = i.inhrelid where i.inhparent = 'api_usage'::regclass order by 1`),
  };
}

/** A value with random ids, pseudonyms and the instants of this minute replaced. */
function withoutChance(value: unknown): unknown {
  const fixed = new Set([COMPANY, KEY, WRITER, CALL]);
  const text = JSON.stringify(value)
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, (id) =>
      fixed.has(id) ? id : 'ID',
    )
    .replaceAll(/person-[0-9a-f]{12}/g, 'PERSON')
    .replaceAll(
      new RegExp(`${new Date().getUTCFullYear()}-[\\d-]{5}T[\\d:.]{8,15}\\+00:00`, 'g'),
      (at) => (Math.abs(Date.now() - Date.parse(at)) < 600_000 ? 'NOW' : at),
    );
  return JSON.parse(text);
}
