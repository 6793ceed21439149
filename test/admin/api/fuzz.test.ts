import fc from 'fast-check';
import t from 'tap';
import type { ObjectSchema, Schema } from '../../../src/domain/settings/schema.ts';
import type { Operation } from '../../../src/operations/frame/row.ts';
import { paramsOf } from '../../../src/operations/frame/row.ts';
import { OPERATIONS } from '../../../src/operations/list.ts';
import { newRequestId } from '../../../src/runtime/request-id.ts';
import { tollgate } from '../../support/cli.ts';
import { fuzzRuns } from '../../support/fuzz.ts';
import { sendsNothing, startOffice } from '../people.ts';
import { newToken, send } from './tokens.ts';

/**
 * Random bodies, queries and ids for every operation, by tokens of operators and of a company. FUZZ_RUNS sets how many
 * for each operation, FUZZ_SEED which.
 */

const RUNS = Math.min(fuzzRuns(5), 1000);
const SEED = Number(process.env.FUZZ_SEED ?? 1);
const NIL = '00000000-0000-0000-0000-000000000000';
/** What a token may send in a burst. */
const BURST = 90;

/** Texts that pass most patterns, and many that mean nothing. */
// biome-ignore format: a table
const TEXTS = [
  '', ' ', 'x', 'brand-chat', 'a@b.example', '250', '0', '0.0000000000001', '999999999999.999999999999999', '-1', '1e3',
  '2027-01-31T18:00:00Z', '2027-02-30T00:00:00Z', '2027-13-45T99:99:99Z', '1000-01-01T00:00:00+99:99', '2999-12-31T23:59:60Z',
  '2027-01-31', '2027-02-30', '2026-11', '10.0.0.0/8', '10.0.0.1/8', '999.9.9.9/99', '::/0', '1:2:3/129', ':::', '....',
  '\u0000', '\ud800', '\u202e', "'; drop table companies --", '__proto__', 'x'.repeat(5000), '🙂'.repeat(150), 'é'.repeat(200),
  'operator', 'owner', 'chat', 'standard',
];
/** Texts of the right form at the edges of what can be stored or computed: each is tried in each place that has room for it. */
const EDGES = [
  'ffffffff-ffff-7fff-bfff-ffffffffffff',
  NIL,
  '1000-01-01T00:00:00+23:59',
  '2999-12-31T23:59:59-23:59',
  '1000-01-01',
  '2999-12-31',
  '1000-01',
  '2999-12',
];
// biome-ignore format: a table
const VALUES = [
  null, true, false, 0, -1, 1, 0.5, 2 ** 31, 2 ** 53, 1e300, -0,
  [], [null], [[]], {}, { a: 1 }, ['chat'], ['chat', 'chat'], ['10.0.0.0/8'], ['999.9.9.9/99'], ['brand-chat'], ['\u0000'],
];

const office = await startOffice(t, {}, sendsNothing); // or events that were replayed would change between two looks
const { sql } = office;
const { company } = office.customer;
const { company: closed } = await office.newCustomer();
const { company: other } = await office.newCustomer();
await sql`update companies set closed_at = now() where id = ${closed}`;
/** Tables by the parameter of a path that names one of their rows. */
const TABLES: Readonly<Record<string, string>> = {
  key: 'api_keys',
  model: 'models',
  user: 'users',
  group: 'oidc_groups',
  assistant: 'assistants',
  invitation: 'invitations',
  price: 'model_prices',
  cost: 'model_cost_prices',
  token: 'admin_tokens',
};
let kinds: Record<string, string[]> = {};
let ids: string[] = [];
/** Of an operator and of the company. */
let tokens: (readonly [string, string])[] = [];
let asked = 0;

/** Makes things of each kind, for the operation before may have removed them, and reads their ids. */
async function makeThings(): Promise<void> {
  await sql`update companies set closed_at = null where id in (${company}, ${other})`;
  for (const owner of [company, other]) {
    const name = newRequestId();
    await sql`insert into assistants (company_id, name, system_prompt) values (${owner}, ${name}, 'Sum up.')`;
    await sql`insert into api_keys (company_id, name, digest, prefix, scopes)
      values (${owner}, ${name}, sha256(${name}::bytea), 'sk-aaaaa', '{chat}')`;
    await sql`insert into users (company_id, email, role) values (${owner}, ${`${name}@some.example`}, 'member')`;
    await sql`insert into oidc_groups (company_id, name, role) values (${owner}, ${name}, 'member')`;
    await sql`insert into users (company_id, email, role, oidc_group) values (${owner}, ${`${name}@group.example`}, 'member', ${name})`;
    await sql`insert into invitations (company_id, email, role, digest, expires_at)
      values (${owner}, ${`${name}@new.example`}, 'member', sha256(${name}::bytea), now() + interval '7 days')`;
    await sql`insert into admin_tokens (name, company_id, digest, access) values ('old', ${owner}, sha256(${name}::bytea), 'read')`;
    await sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values (${name}, ${owner}, 'internal-x', 'chat', true, 1, 2)`;
    await sql`insert into model_prices (slug, company_id, valid_from, input, output)
      values (${name}, ${owner}, now() + interval '1 year', 1, 2)`;
    await sql`insert into model_cost_prices (slug, company_id, valid_from, input, output) values (${name}, ${owner}, '2026-01-01', 1, 2)`;
  }
  kinds = { request: [newRequestId()] };
  for (const [param, table] of Object.entries(TABLES)) {
    const only = table === 'admin_tokens' ? sql`where name = 'old'` : sql``;
    const rows = await sql<
      { id: string }[]
    >`select id from ${sql(table)} ${only} order by created_at desc limit 4`;
    kinds[param] = rows.map(({ id }) => id);
  }
  ids = Object.values(kinds).flat();
  const pairs = Array.from({ length: Math.ceil(RUNS / BURST) + 1 }, async () => {
    return [await newToken(office), await newToken(office, { company_id: company })] as const;
  });
  tokens = await Promise.all(pairs);
  asked = 0;
}

/** A token that may still send: each has an allowance of its own. */
function tokenOf(isOperator: boolean): string {
  const [operators, companys] = tokens[
    Math.floor(asked++ / BURST) % tokens.length
  ] as (typeof tokens)[number];
  return isOperator ? operators : companys;
}

/** A value for a schema: often a right one, or else any. */
function valueFor(schema: Schema): fc.Arbitrary<unknown> {
  const {
    type,
    enum: values,
    items,
    properties,
  } = schema as {
    type?: string | readonly string[];
    enum?: readonly unknown[];
    items?: Schema;
    properties?: ObjectSchema['properties'];
  };
  const any = fc.oneof(fc.constantFrom<unknown>(...VALUES), fc.constantFrom<unknown>(...TEXTS));
  const types = [type ?? []].flat();
  const right: fc.Arbitrary<unknown>[] = [];
  if (values !== undefined) right.push(fc.constantFrom(...values));
  else if (types.includes('string')) right.push(textOf(schema));
  if (types.includes('integer')) right.push(fc.constantFrom(1, 5, 86_400));
  if (types.includes('number')) right.push(fc.constantFrom(0, 0.5, 2));
  if (types.includes('boolean')) right.push(fc.boolean());
  if (types.includes('array') && items !== undefined)
    right.push(fc.array(valueFor(items), { minLength: 1, maxLength: 3 }));
  if (types.includes('object') && properties !== undefined)
    right.push(objectOf(schema as ObjectSchema));
  return fc.oneof(
    { weight: 40, arbitrary: right.length === 0 ? any : fc.oneof(...right) },
    { weight: 1, arbitrary: any },
  );
}

/** A text of the form that the schema's pattern asks for, where there is one. */
function textOf({ pattern }: Schema): fc.Arbitrary<unknown> {
  const all = [...TEXTS, ...EDGES, ...ids];
  const fit = all.filter((text) =>
    new RegExp((pattern as string | undefined) ?? '', 'u').test(text),
  );
  return fc.constantFrom(...(fit.length === 0 ? all : fit)) as fc.Arbitrary<unknown>;
}

/** Members that no object has. */
const SURPLUS: readonly object[] = [{ surplus: 1 }, JSON.parse('{"__proto__": 1, "toString": 2}')];

function objectOf({ properties, required }: ObjectSchema): fc.Arbitrary<object> {
  const members = Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, valueFor(schema)]),
  );
  const known = fc.record<Record<string, unknown>, string>(members, {
    requiredKeys: [...((required ?? []) as string[])],
  });
  const more = fc.oneof(
    { weight: 12, arbitrary: fc.constant({}) },
    { weight: 1, arbitrary: fc.constantFrom(...SURPLUS) },
  );
  return fc.tuple(known, more).map(([one, two]) => ({ ...one, ...two }));
}

interface Attempt {
  readonly path: string;
  readonly body: object | undefined;
  readonly headers: Record<string, string>;
}

function attemptOf({ path, body, query, method }: Operation): fc.Arbitrary<Attempt> {
  const companies = fc.constantFrom(company, company, company, closed, other);
  const any = fc.oneof(fc.constantFrom(...ids), fc.uuid());
  const params = fc.tuple(
    ...paramsOf(path).map((name) => {
      if (name === 'company') return companies;
      return fc.oneof(
        { weight: 6, arbitrary: fc.constantFrom(...(kinds[name] ?? ids)) },
        { weight: 1, arbitrary: any },
      );
    }),
  );
  const search = query === undefined ? fc.constant({}) : objectOf(query);
  const sent =
    body === undefined
      ? fc.constant(undefined)
      : fc.oneof({ weight: 12, arbitrary: objectOf(body) }, fc.constantFrom<object>([], [1]));
  const headers = fc.constantFrom<Record<string, string>>(
    {},
    {},
    { 'if-match': '"none"' },
    { 'if-match': '*' },
    { 'idempotency-key': 'fuzz' },
    { 'idempotency-key': '' },
  );
  return fc.tuple(params, search, sent, headers).map(([values, asked, json, more]) => {
    const names = paramsOf(path);
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => String(values[names.indexOf(name)]));
    const text = Object.entries(asked)
      .map(([name, value]) => `${encodeURIComponent(name)}=${encodable(value)}`)
      .join('&');
    return {
      path: `${filled}${text === '' ? '' : `?${text}`}`,
      body: json,
      headers: method === 'get' ? {} : more,
    };
  });
}

/** What a query needs beside one member. */
const NEEDED: Readonly<Record<string, string>> = {
  month: '2026-10',
  at: '2026-10-01',
  from: '2026-10-01T00:00:00Z',
  to: '2026-10-02T00:00:00Z',
};

/** Addresses of an operation that reads, with each edge at each place of the path and the query that has room for it. */
function edgesOf({ path, query, method }: Operation): string[] {
  if (method !== 'get') return [];
  const filled = (
    params: Readonly<Record<string, string>>,
    search: Readonly<Record<string, string>>,
  ): string => {
    const known = path.replaceAll(
      /\{(\w+)\}/g,
      (_, name) => params[name] ?? kinds[name]?.[0] ?? company,
    );
    return `${known}?${new URLSearchParams(search)}`;
  };
  const needed = Object.fromEntries(
    ((query?.required ?? []) as string[]).map((name) => [name, NEEDED[name] as string]),
  );
  const inPath = paramsOf(path).flatMap((name) =>
    EDGES.slice(0, 2).map((id) => filled({ [name]: id }, needed)),
  );
  const inQuery = Object.entries(query?.properties ?? {}).flatMap(([name, { pattern }]) => {
    const fit =
      pattern === undefined
        ? []
        : EDGES.filter((edge) => new RegExp(pattern as string, 'u').test(edge));
    return fit.map((edge) => filled({}, { ...needed, [name]: edge }));
  });
  return [...inPath, ...inQuery];
}

function encodable(value: unknown): string {
  return encodeURIComponent(String(value).toWellFormed());
}

/** All that operations may change. */
async function state(): Promise<string> {
  const tables = [
    'companies',
    'models',
    'model_prices',
    'model_cost_prices',
    'assistants',
    'users',
    'oidc_groups',
    'invitations',
    'idempotent_answers',
  ];
  const text = [
    `select 'audit_log' as of, count(*) || ' ' || max(id) as t from audit_log`, // its rows stay as they were written
    ...tables.map((table) => `select '${table}' as of, t::text from ${table} t`),
    ...['api_keys', 'admin_tokens'].map(
      (table) => `select '${table}', (to_jsonb(t) - 'last_used_at')::text from ${table} t`,
    ),
  ].join(' union all ');
  const [{ digest }] = await sql.unsafe<[{ digest: string }]>(
    `select md5(string_agg(of || t, '' order by of || t)) as digest from (${text}) as all_rows`,
  );
  return digest;
}

const SAID = [200, 201, 204, 400, 403, 404, 409, 412, 422];
for (const operation of OPERATIONS) {
  t.test(
    `${operation.id}: whatever is sent, it is done whole or refused with a problem, and a refusal changes nothing`,
    async (t) => {
      await makeThings();
      for (const path of edgesOf(operation)) {
        const { status } = await send(office, tokenOf(true), ['GET', path]);
        if (!SAID.includes(status)) t.fail(`${status} for ${path}`);
      }
      let before = await state();
      await fc
        .assert(
          fc.asyncProperty(attemptOf(operation), fc.boolean(), async (attempt, isOperator) => {
            const { path, body: sent, headers: more } = attempt;
            const route = [operation.method.toUpperCase(), path] as const;
            const { status, body, headers } = await send(
              office,
              tokenOf(isOperator),
              route,
              sent,
              more,
            );
            if (!SAID.includes(status)) throw new Error(`${status} ${JSON.stringify(body)}`);
            const after = await state();
            if (status >= 400 && after !== before)
              throw new Error(`refused with ${status}, and changed something`);
            before = after;
            if (status < 400) return;
            if (!headers.get('content-type')?.startsWith('application/problem+json'))
              throw new Error('not a problem');
            if (body.detail === undefined) throw new Error('no detail');
          }),
          { numRuns: RUNS, seed: SEED },
        )
        .catch((error: Error) =>
          t.fail(`${(error.cause as Error | undefined)?.message}: ${error.message}`),
        );
      t.pass('all answered');
    },
  );
}

for (const operation of OPERATIONS) {
  const { body: schema, id, path, method } = operation;
  if (schema === undefined) continue;
  t.test(`${id}: every member that is wrong is named at once`, async (t) => {
    const names = Object.keys(schema.properties);
    const wrong = {
      ...Object.fromEntries(names.map((name) => [name, { no: 'value' }])),
      surplus: 1,
    };
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => (name === 'company' ? company : NIL));
    const { status, body } = await send(
      office,
      tokenOf(true),
      [method.toUpperCase(), filled],
      wrong,
    );
    t.equal(status, 400);
    // of a member that is an object, those within it are named
    const told = new Set(
      body.errors.map(({ pointer }: { pointer: string }) => pointer.split('/', 2).join('/')),
    );
    t.same([...told].sort(), [...names, 'surplus'].map((name) => `#/${name}`).sort());
  });
}

t.test(
  'all that was made so is exported as a file, and applying it would change nothing',
  async (t) => {
    const env = { DATABASE_URL: office.databaseUrl };
    const { out: stdin } = await tollgate(['export-config'], { env });
    t.match(await tollgate(['apply', '-', '--dry-run'], { env, stdin }), {
      code: 0,
      out: 'Nothing to change.\n',
      err: '',
    });
  },
);
