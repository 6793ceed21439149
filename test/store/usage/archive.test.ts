import { execFileSync } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { snapshot } from '../../../src/store/connection/tenant-role.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { SQL_DIRECTORY } from '../../../src/store/schema/files.ts';
import { archiveCompany } from '../../../src/store/usage/archive.ts';
import { ARCHIVED, NOT_ARCHIVED } from '../../../src/store/usage/archived-tables.ts';
import type { Write } from '../../../src/store/usage/export.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests } from '../../support/requests.ts';
import { addStatementRows } from '../../support/statement.ts';
import { addUsage } from '../../support/usage.ts';

const { db } = await testDatabase(t);
const MS = 60_000;
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);

async function settle(name: string): Promise<{ id: string; name: string }> {
  const [{ id }] = await run(
    (sql) => sql<[{ id: string }]>`
    insert into companies (name, monthly_budget_eur) values (${name}, 12.50) returning id`,
  );
  const mark = name.toLowerCase();
  await run(
    (sql) =>
      sql`insert into users (email, company_id, role, password_hash) values (${`ann@${mark}.example`}, ${id}, 'owner', 'hash-of-ann')`,
  );
  await run(
    (sql) =>
      sql`insert into api_keys (company_id, name, digest, prefix, scopes) values (${id}, ${`${name} key`}, ${randomBytes(32)}, 'svc_aaaa', '{chat}')`,
  );
  await run(
    (sql) =>
      sql`insert into oidc_groups (name, company_id, role) values (${`${mark} owners`}, ${id}, 'owner')`,
  );
  await run(
    (sql) =>
      sql`insert into invitations (company_id, email, role, digest, expires_at) values (${id}, ${`new@${mark}.example`}, 'member', ${randomBytes(32)}, now())`,
  );
  await run(
    (sql) =>
      sql`insert into alert_receivers (company_id, email, percents, forecast) values (${id}, ${`books@${mark}.example`}, '{50}', true)`,
  );
  await run(
    (sql) =>
      sql`insert into cost_center_budgets (company_id, name, monthly_budget_eur) values (${id}, ${`${mark} marketing`}, 5)`,
  );
  await run(
    (sql) => sql`insert into end_users (company_id, name) values (${id}, ${`${mark} person`})`,
  );
  await run(
    (sql) =>
      sql`insert into admin_tokens (company_id, name, digest, access) values (${id}, ${`${name} token`}, ${randomBytes(32)}, 'read')`,
  );
  // all that a line of JSON could stumble over
  const prompt = `${name} says:\n\t"quoted" \\ back\\slash \u0001\u0002 ü 🙂 , ; '`;
  await run(
    (sql) =>
      sql`insert into assistants (company_id, name, system_prompt) values (${id}, ${`${name} helper`}, ${prompt})`,
  );
  await run(
    (
      sql,
    ) => sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    values ('own', ${id}, 'internal/own', 'chat', true, 0.000000000001, 2)`,
  );
  await run(
    (sql) =>
      sql`insert into chat_usage (company_id, cost_eur) values (${id}, 1.000000000000000001)`,
  );
  await addRequests(trailStore(db), [{ company: id, status: 502, reason: 'internal words' }]);
  await run(
    (sql) =>
      sql`insert into budget_alerts (company_id, billing_month, threshold, budget_eur, spent_eur) values (${id}, '2026-11-01', '50', 10, 5)`,
  );
  await run(
    (sql) => sql`insert into end_user_alerts values (${id}, '2026-11-01', ${randomUUID()}, 100)`,
  );
  await run(
    (sql) =>
      sql`insert into unusual_days (company_id, day, measure, subject, about, value, usual, superseded) values (${id}, '2026-11-01', 'spend', 'company', '', 81, 1, true)`,
  );
  await run((sql) => addStatementRows(sql, id));
  const record = {
    billing_month: '2026-11-01',
    request_id: randomUUID(),
    company_id: id,
    api_key_id: randomUUID(),
    model_slug: 'own',
  };
  const rest = {
    upstream_model: 'internal/own',
    endpoint: 'embeddings',
    prompt_tokens: 1,
    completion_tokens: 0,
    cost_eur: '0.000000000000001',
  };
  const how = {
    price_input: '0.000000000001',
    price_output: '2',
    usage_source: 'upstream',
    outcome: 'completed',
    occurred_at: '2026-11-15T12:00:00.123456Z',
  };
  await run(
    (sql) =>
      sql`select book_usage(${randomUUID()}, ${JSON.stringify([{ ...record, ...rest, ...how }])}::text::json)`,
  );
  await run((sql) =>
    addUsage(sql, [{ company: id, month: '2026-10-01', upstream: 'internal/fast' }]),
  );
  return { id, name };
}

const acme = await settle('Acme');
await settle('Borg');

/** Writes an archive and unpacks it with the tools everybody has. */
async function unpacked(
  t: Test,
  internal: boolean,
  onPiece: () => Promise<unknown> = async () => {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-archive-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const pieces: Buffer[] = [];
  const write: Write = async (piece) => {
    await onPiece();
    pieces.push(Buffer.from(piece));
    return true;
  };
  const manifest = await snapshot(db, acme.id, MS, (sql) =>
    archiveCompany(sql, { company: acme, internal }, write),
  );
  writeFileSync(join(folder, 'archive.tar.gz'), Buffer.concat(pieces));
  execFileSync('sh', ['-c', 'gunzip archive.tar.gz && tar xf archive.tar'], { cwd: folder });
  const text = (name: string) => readFileSync(join(folder, `company-${acme.id}`, name), 'utf8');
  // biome-ignore lint/suspicious/noExplicitAny: tests look into rows freely
  const rows = (table: string): any[] =>
    text(`${table}.jsonl`)
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  const all = manifest.files.map(({ name }) => text(name)).join('');
  return { manifest, text, rows, all };
}

t.test(
  'every table and column of a company is in the archive, or is left out for a reason',
  async (t) => {
    const tables = await run(
      (sql) => sql<{ name: string; columns: string[] }[]>`
    select c.relname as name, array_agg(a.attname::text order by attnum) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and a.attnum > 0 and not a.attisdropped group by c.oid`,
    );
    const known = new Map(ARCHIVED.map((spec) => [spec.table, spec]));
    for (const { name, columns } of tables) {
      const spec = known.get(name);
      if (spec === undefined) {
        t.ok(
          !columns.includes('company_id') || name in NOT_ARCHIVED,
          `${name} is a line of ARCHIVED or of NOT_ARCHIVED`,
        );
        continue;
      }
      t.same(
        [...spec.columns, ...(spec.internal ?? []), ...Object.keys(spec.without ?? {})].sort(),
        columns.sort(),
        name,
      );
    }
    t.same(
      [...known.keys(), ...Object.keys(NOT_ARCHIVED)].filter((name) =>
        tables.every((table) => table.name !== name),
      ),
      [],
    );
  },
);

t.test(
  'an archive is a tar of JSON lines with a manifest that tells rows and digests',
  async (t) => {
    const { manifest, text, rows } = await unpacked(t, false);
    t.same(JSON.parse(text('manifest.json')), manifest);
    t.match(manifest, {
      format: 'tollgate company archive',
      version: 1,
      company: acme,
      internal: false,
      billing_timezone: 'UTC',
    });
    for (const { name, rows: count, bytes, sha256 } of manifest.files) {
      t.equal(text(name).split('\n').length - 1, count, name);
      t.equal(Buffer.byteLength(text(name)), bytes);
      t.equal(createHash('sha256').update(text(name)).digest('hex'), sha256);
      t.ok(count > 0, `${name} has rows`);
    }
    const [assistant] = rows('assistants');
    const [stored] = await run(
      (sql) => sql`select system_prompt from assistants where company_id = ${acme.id}`,
    );
    t.equal(assistant.system_prompt, stored?.system_prompt);
    t.match(rows('companies'), [
      { id: acme.id, name: 'Acme', monthly_budget_eur: '12.5', closed_at: null },
    ]);
    t.equal(rows('chat_usage')[0].cost_eur, '1.000000000000000001', 'exact');
    t.same(
      rows('api_usage').map((row) => [row.cost_eur, row.occurred_at]),
      [
        ['0', '2026-10-15T12:00:00+00:00'],
        ['0.000000000000001', '2026-11-15T12:00:00.123456+00:00'],
      ],
      'all months, oldest first',
    );
  },
);

t.test(
  'an archive for the company has no internal names, no secrets and nothing of another company',
  async (t) => {
    const { all, manifest } = await unpacked(t, false);
    t.match(all, 'ann@acme.example');
    t.notMatch(all, /internal\//);
    t.notMatch(all, /hash-of-ann|\\\\x[0-9a-f]{64}/);
    t.notMatch(all, /borg/i);
    t.match(manifest.left_out, {
      'models.upstream_model': 'internal to the operator of this service',
      'api_keys.digest': /^a secret/,
    });
  },
);

t.test(
  "an operator's archive has the internal names, and the digest that the seal of each row holds",
  async (t) => {
    const { all, rows } = await unpacked(t, true);
    t.match(all, 'internal/own');
    t.notMatch(all, /hash-of-ann|borg/i);
    const [row] = rows('api_usage').slice(-1);
    const seals = await run(
      (sql) =>
        sql`select encode(row_digests, 'hex') as digests from ledger_seals where ${row.request_id}::uuid = any(request_ids)`,
    );
    t.same([...seals], [{ digests: row.digest }]);
  },
);

t.test(
  'PRIVACY.md tells how the digest of a row is made: with a cost centre, prices of cached input, and an end user',
  async (t) => {
    const row = { company: acme.id, prompt: 3, input: '0.10', center: 'Mark"eting ü' };
    const cached = { ...row, cached: 2, cacheRead: '0.010' };
    await run((sql) =>
      addUsage(sql, [
        row,
        cached,
        { ...cached, center: '', cacheWrite: '0' },
        { ...row, endUser: randomUUID() },
      ]),
    );
    const privacy = readFileSync(join(SQL_DIRECTORY, 'PRIVACY.md'), 'utf8');
    const [, always = '', sometimes = ''] =
      /SHA-256 of the JSON array of (.*?) and the time in seconds(, and, .*?)?[,;] as Postgres prints/.exec(
        privacy,
      ) ?? [];
    const named = (text: string) => [...text.matchAll(/`(\w+)`/g)].map(([, name]) => name);
    const members = [...named(always), 'extract(epoch from occurred_at)'];
    const [, ofCache = ''] =
      /With a price of cached input the last members are (.*?)\. /.exec(privacy) ?? [];
    const [, ofPerson = ''] =
      /With an end user the last members are the same and (.*?)\. /.exec(privacy) ?? [];
    const { rows } = await unpacked(t, true);
    for (const { request_id, cost_center, price_cache_read, end_user_id, digest } of rows(
      'api_usage',
    )) {
      const label = cost_center === '' ? [] : named(sometimes);
      const priced = price_cache_read === null ? label : named(ofCache);
      const last = end_user_id === null ? priced : [...named(ofCache), ...named(ofPerson)];
      const array = `json_build_array(${[...members, ...last]})::text`;
      const [made] = await run(
        (
          sql,
        ) => sql`select encode(substr(sha256(convert_to(${sql.unsafe(array)}, 'UTF8')), 1, 16), 'hex') as digest
        from api_usage where request_id = ${request_id}`,
      );
      t.equal(made?.digest, digest, `cost centre "${cost_center}"`);
    }
    t.equal(rows('api_usage').length, 6);
  },
);

t.test('all files are of one instant, whatever is written meanwhile', async (t) => {
  const { rows } = await unpacked(t, false, () =>
    run((sql) => addUsage(sql, [{ company: acme.id, prompt: 1 }])),
  );
  const daily: { requests: number }[] = rows('usage_daily');
  t.equal(
    rows('api_usage').length,
    daily.reduce((sum, { requests }) => sum + requests, 0),
  );
});

t.test('more than the buffers hold arrives whole, with a slow reader too', async (t) => {
  await run(
    (sql) => sql`insert into assistants (company_id, name, system_prompt)
    select ${acme.id}, 'big', string_agg(md5(random()::text), '') from generate_series(1, 40) as n, generate_series(1, 10000) group by n`,
  );
  const { rows, manifest } = await unpacked(
    t,
    false,
    () => new Promise((resolve) => setImmediate(resolve)),
  );
  t.equal(rows('assistants').length, 41);
  t.ok(
    (manifest.files.find(({ name }) => name === 'assistants.jsonl')?.bytes as number) > 12_000_000,
  );
});

t.test('a reader that leaves ends it, and the next one is served', async (t) => {
  let pieces = 0;
  const leave: Write = async () => ++pieces < 3;
  await t.rejects(
    snapshot(db, acme.id, MS, (sql) =>
      archiveCompany(sql, { company: acme, internal: false }, leave),
    ),
    { message: /the reader left/ },
  );
  const broken: Write = async () => {
    throw new Error('disk full');
  };
  await t.rejects(
    snapshot(db, acme.id, MS, (sql) =>
      archiveCompany(sql, { company: acme, internal: false }, broken),
    ),
  );
  t.ok((await unpacked(t, false)).manifest.files.length > 5);
});
