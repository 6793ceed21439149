import { execFileSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { WORKERS } from '../../support/distributed.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage, type SomeUsage } from '../../support/usage.ts';

const { db, url } = await testDatabase(t);
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: url } });
const newCompany = async (name: string): Promise<string> =>
  (await tollgate('company', 'create', '--name', name, '--json')).json.id;
const add = (...rows: SomeUsage[]) => db.run(60_000, (sql) => addUsage(sql, rows));
const key = randomUUID();
const company = await newCompany('Acme');
const month = ['--company', company, '--month', '2026-10'];
await db.run(
  10_000,
  (sql) => sql`insert into api_keys (id, company_id, name, digest, prefix, scopes)
    values (${key}, ${company}, 'Website', sha256('x'), 'svc_abcd', '{chat}')`,
);
await add(
  { company, month: '2026-10-01', key, prompt: 1000, input: '0.000000000001', center: '=sales' },
  {
    company,
    month: '2026-10-01',
    key,
    model: 'slow',
    prompt: 1,
    completion: 2,
    input: '0.1',
    output: '0.2',
  },
);

t.test('an open month is shown as a preview, and showing it closes nothing', async (t) => {
  const { code, out } = await tollgate('statement', ...month);
  t.equal(code, 0);
  t.match(out, /^PREVIEW of 2026-10: the month is not closed/);
  t.match(out, /EUR with corrections\s+0\.000500000001/);
  t.match(out, /Website \(svc_abcd…\) +2 +1001 +2 +0\.000500000001/);
  t.match(out, /COST CENTRE .*\n\(none\) +1 +1 +2 /);
  t.match((await tollgate('statement', ...month, '--json')).json, {
    number: null,
    closed_at: null,
    total_eur: '0.000500000001',
  });
  t.match(
    (await tollgate('statement', ...month, '--csv')).out,
    /^statement,kind,month,.*\npreview,month,2026-10,fast,/,
  );
  t.match(
    (await tollgate('statement', 'list', '--company', company)).out,
    /no statements.*without a statement: 2026-10/s,
  );
  t.match((await tollgate('statement', 'list', '--company', company, '--json')).json, {
    statements: [],
    open_months: ['2026-10'],
  });
});

t.test(
  'a closed month is printed in the same bytes each time, whatever keys are called',
  async (t) => {
    const closed = await tollgate('statement', 'close', ...month, '--json');
    t.match({ code: closed.code, err: closed.err }, { code: 0, err: '' });
    await db.run(60_000, (sql) => sql`update api_keys set name = 'Renamed' where id = ${key}`);
    const again = await tollgate('statement', 'close', ...month, '--json');
    const shown = await tollgate('statement', ...month, '--json');
    t.equal(again.out, closed.out);
    t.equal(shown.out, closed.out);
    const [row] = (await tollgate('statement', 'list', '--company', company, '--json')).json
      .statements;
    t.equal(
      createHash('sha256').update(closed.out).digest('hex'),
      row.digest,
      'as sha256sum computes it',
    );
    t.match(closed.json, {
      number: 1,
      previous: null,
      total_eur: '0.000500000001',
      lines: [{ key }, { key }],
    });
    const text = (await tollgate('statement', ...month)).out;
    t.match(text, /^Statement 1: 2026-10\n/);
    t.match(text, row.digest);
    t.match(text, /Renamed \(svc_abcd…\)/);
    const csv = (await tollgate('statement', ...month, '--csv')).out;
    t.match(
      csv,
      new RegExp(`\n1,month,2026-10,fast,${key},Renamed,'=sales,1,1000,0,0\\.000000000001\n`),
    );
    t.notMatch(text + csv + closed.out, 'internal/fast', 'no internal model names');
  },
);

t.test(
  'a month is closed for all companies, with progress; a second run has nothing to do',
  async (t) => {
    const others = [await newCompany('B'), await newCompany('C')].sort();
    const idle = await newCompany('Idle');
    await add(
      ...others.map((company) => ({ company, month: '2026-10-01', prompt: 1, input: '1' })),
    );
    await add({ company, month: '2026-10-01', request: idle, prompt: 1, input: '1' });
    const all = ['statement', 'close', '--all-companies', '--month', '2026-10'];
    const { code, err, json } = await tollgate(...all, '--json');
    t.equal(code, 0);
    t.same(json, {
      month: '2026-10',
      closed: others.map((company_id) => ({ company_id, number: 1 })),
      refused: [],
    });
    t.match(err, /tollgate: 2 of 2 companies closed/);
    t.match(await tollgate(...all), {
      code: 0,
      out: /All calls of 2026-10 are on statements already/,
    });

    const september = await tollgate(
      'statement',
      'close',
      '--all-companies',
      '--month',
      '2026-09',
      '--json',
    );
    t.same(september.json.closed, [], 'the late call is of a later month');
    await add({ company, month: '2026-09-01', prompt: 0 });
    await tollgate('statement', 'close', '--company', company, '--month', '2026-09');
    const list = (await tollgate('statement', 'list', '--company', company)).out;
    t.match(list, / 2 +2026-09 +1 +0 +1 +0\.001 /);
    t.match(list, /1 call, 0\.001 EUR: on statement 2/);
    t.match(
      (await tollgate('statement', '--company', company, '--month', '2026-09')).out,
      /2026-10, statement 1 +1 .*0\.001 +[0-9a-f-]{36}/,
    );
    t.match(await tollgate('ledger', 'verify'), {
      code: 0,
      out: /Every statement is proven by its rows; rows: 6, statements: 4/,
    });
  },
);

t.test('wrong usage and what cannot be closed', async (t) => {
  t.match(await tollgate('statement', 'close', '--month', '2026-10'), {
    code: 64,
    err: /either --company or --all-companies/,
  });
  t.match(await tollgate('statement', 'close', ...month, '--all-companies'), { code: 64 });
  t.match(await tollgate('statement', ...month, '--csv', '--json'), {
    code: 64,
    err: /exclude each other/,
  });
  t.match(await tollgate('statement', 'close', '--company', company, '--month', '2999-01'), {
    code: 1,
    err: /2999-01 is not over yet in UTC/,
  });
  t.match(await tollgate('statement', 'close', '--company', randomUUID(), '--month', '2026-09'), {
    code: 1,
    err: /no company/,
  });
  await db.run(
    10_000,
    (sql) =>
      sql`insert into gateways (id, name, version, backlog, oldest_at) values (${randomUUID()}, 'gw-1', '1', 7, '2026-08-31T23:00:00Z')`,
  );
  await add({ company, month: '2026-08-01', prompt: 1, input: '0' });
  const waiting = ['statement', 'close', '--company', company, '--month', '2026-08'];
  t.match(await tollgate(...waiting), {
    code: 1,
    out: '',
    err: /may still be on their way from gw-1 .*7 records waiting/,
  });
  t.match(await tollgate(...waiting, '--anyway', '--json'), {
    code: 0,
    json: { number: 3, requests: 1, total_eur: '0' },
  });
});

t.test('a month before which others are open is refused, with what to close first', async (t) => {
  const id = await newCompany('Backlog');
  for (const month of ['2026-05-01', '2026-03-01', '2026-04-01']) await add({ company: id, month });
  const close = (month: string) => [
    'statement',
    'close',
    '--company',
    id,
    '--month',
    month,
    '--anyway',
  ];
  t.match(await tollgate(...close('2026-05')), {
    code: 1,
    out: '',
    err: /2026-03 and 2026-04 are still open .* beginning with 2026-03; then 2026-05\./,
  });
  t.match(
    await tollgate('statement', 'close', '--all-companies', '--month', '2026-05', '--anyway'),
    {
      code: 1,
      out: /Backlog.*2026-03 and 2026-04 are still open/s,
    },
  );
  for (const month of ['2026-03', '2026-04', '2026-05'])
    t.match(await tollgate(...close(month)), { code: 0 });
});

t.test(
  'an erased company keeps its statements, which are proven, and its last months can be closed',
  async (t) => {
    const before = (await tollgate('statement', ...month, '--json')).out;
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-'));
    t.teardown(() => rmSync(folder, { recursive: true }));
    await tollgate('company', 'close', company);
    t.equal(
      (await tollgate('company', 'export', company, '--to', join(folder, 'acme.tar.gz'))).code,
      0,
    );
    t.equal((await tollgate('company', 'erase', company, '--yes', 'Acme')).code, 0);
    t.equal((await tollgate('statement', ...month, '--json')).out, before);
    t.match(
      (await tollgate('statement', ...month)).out,
      /company +company-[0-9a-f]{8} .*key-[0-9a-f]{8} \(svc_abcd…\)/s,
    );
    await add(
      { company, month: '2026-10-01', prompt: 9, input: '1' },
      { company, month: '2026-07-01', prompt: 0 },
    );
    const last = ['--company', company, '--month', '2026-07'];
    t.match(await tollgate('statement', 'close', ...last, '--anyway', '--json'), {
      code: 0,
      json: { total_eur: '0.009' },
    });
    t.match(await tollgate('ledger', 'verify'), {
      code: 0,
      out: /Every statement is proven by its rows; rows: 12,/,
    });
  },
);

t.test(
  'a month of the ledger that was taken away is missed, and proven when it is back',
  async (t) => {
    const [part] = await db.run(
      10_000,
      (sql) => sql<{ name: string; bound: string }[]>`
      select c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bound from pg_class c
      where c.oid = 'api_usage_2026_10'::regclass`,
    );
    await db.run(60_000, (sql) =>
      sql.unsafe(`alter table api_usage detach partition ${part?.name}`),
    );
    const { code, json } = await tollgate('ledger', 'verify', '--json');
    t.equal(code, 1);
    const missing = json.statements.findings.filter(
      ({ what }: { what: string }) => what === 'row missing',
    );
    t.equal(missing.length, 6);
    await db.run(60_000, (sql) =>
      sql.unsafe(`alter table api_usage attach partition ${part?.name} ${part?.bound}`),
    );
    t.equal((await tollgate('ledger', 'verify')).code, 0);
  },
);

const notHere = WORKERS.length > 0 && 'triggers of workers cannot be switched off from here';
t.test(
  'verify names a row that entered a closed month behind the triggers',
  { skip: notHere },
  async (t) => {
    const hidden = randomUUID();
    await db.run(60_000, (sql) =>
      sql.unsafe(`begin; set local session_replication_role = replica;
      insert into api_usage select billing_month, '${hidden}', company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
        completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at from api_usage limit 1; commit`),
    );
    const { code, out, json } = await tollgate('ledger', 'verify', '--json');
    t.equal(code, 1);
    t.match(json.statements.findings, [
      { what: 'row added', number: null, month: '2026-10', request_id: hidden },
    ]);
    t.match(
      (await tollgate('ledger', 'verify')).out,
      new RegExp(`row added +${'[0-9a-f-]{36}'} +- +2026-10 +${hidden}`),
    );
    t.ok(out);
  },
);

t.test('closing a month of all companies names them', async (t) => {
  const id = await newCompany('Möwe');
  await add({ company: id, month: '2026-07-01', prompt: 1, input: '1' });
  const { out } = await tollgate('statement', 'close', '--all-companies', '--month', '2026-07');
  t.match(out, new RegExp(`^COMPANY +STATEMENT +ID\n(.*\n)*Möwe +1 +${id}\n`));
});

t.test(
  'the calls of a company that was removed come on statements too, and can be read',
  async (t) => {
    const id = await newCompany('Gone');
    await add({ company: id, month: '2026-06-01', prompt: 1000, input: '5' });
    await db.run(60_000, (sql) => sql`delete from companies where id = ${id}`);
    const june = ['--company', id, '--month', '2026-06'];
    t.match(await tollgate('statement', ...june), {
      code: 0,
      out: new RegExp(`PREVIEW.* company +a removed company \\(${id}\\)`, 's'),
    });
    t.match(
      (await tollgate('statement', 'list', '--company', id)).out,
      'without a statement: 2026-06.',
    );
    const { out } = await tollgate('statement', 'close', '--all-companies', '--month', '2026-06');
    t.match(out, new RegExp(`a removed company +1 +${id}\n`));
    t.match(await tollgate('statement', 'close', ...june, '--json'), {
      code: 0,
      json: { number: 1, total_eur: '5' },
    });
    t.match(await tollgate('ledger', 'export', ...june, '--json'), {
      json: [{ company_id: id, cost_eur: '5' }],
    });
    const { out: found, err } = await tollgate('ledger', 'verify');
    t.notMatch(found + err, id, 'nothing is wrong with its ledger');
    for (const command of [['statement'], ['statement', 'close'], ['ledger', 'export']]) {
      const unknown = await tollgate(...command, '--company', randomUUID(), '--month', '2026-06');
      t.match(unknown, { code: 1, err: /There is no company/ });
    }
  },
);

t.test(
  'a company whose ledger lacks rows is named, and keeps no other one from its statement',
  async (t) => {
    const ids = [
      await newCompany('Whole'),
      await newCompany('Lacking'),
      await newCompany('Also whole'),
    ];
    for (const company of ids) await add({ company, month: '2026-05-01', prompt: 1, input: '1' });
    const lacking = ids[1] as string;
    const count = (requests: number) =>
      db.run(
        10_000,
        (sql) => sql`update monthly_spend set requests = ${requests} where company_id = ${lacking}`,
      );
    await count(2);
    const close = (...more: string[]) =>
      tollgate('statement', 'close', '--all-companies', '--month', '2026-05', ...more);
    const { code, out } = await close();
    t.equal(code, 1);
    t.match(
      out,
      new RegExp(
        `^Lacking +${lacking} +The ledger rows of 2026-05 are not those that were booked`,
        'm',
      ),
    );
    for (const id of ids) t.equal(new RegExp(`whole +1 +${id}$`, 'mi').test(out), id !== lacking);
    t.match(await close('--json'), {
      code: 1,
      json: { closed: [], refused: [{ company_id: lacking, reason: String }] },
    });
    await count(1);
    t.match(await close('--json'), {
      code: 0,
      json: { closed: [{ company_id: lacking, number: 1 }], refused: [] },
    });
  },
);

t.test(
  'one command has a month: what is to do, all statements, and the files of all',
  async (t) => {
    const [rounded, tiny] = [await newCompany('Ähre/Söhne'), await newCompany('=Tiny')];
    await add({ company: rounded, month: '2024-03-01', prompt: 1000, input: '1.004999999999' });
    await add({ company: rounded, month: '2024-03-01', prompt: 1000, input: '0.000000000001' });
    await add({ company: tiny, month: '2024-03-01', prompt: 3, input: '0', model: 'gift' });
    await add({ company: tiny, month: '2024-02-01', prompt: 3, input: '1' });
    const asked = ['statement', 'month', '--month', '2024-03'];
    const open = await tollgate(...asked);
    t.match(open, {
      code: 0,
      out: /^Month-end of 2024-03\n.*EUR of all statements +1\.005\n +EUR of the month before +0\.003\n/s,
    });
    t.match(
      open.out,
      /- 2024-02 is open for 1 company: close it first\.\n- The calls of gift had tokens/,
    );
    t.match(
      open.out,
      /Ähre\/Söhne +open +2 +0 +1\.005 +1\.01 /,
      'half a cent is rounded up, once for all lines',
    );
    t.match(await tollgate(...asked, '--anyway'), { code: 64, err: /--anyway needs --close/ });
    const refused = await tollgate(...asked, '--close', '--json');
    t.equal(refused.code, 1);
    t.match(refused.json, {
      refused: [{ company_id: tiny, reason: /2024-02 is still open/ }],
      sums: { closed: 1 },
    });
    await tollgate('statement', 'month', '--month', '2024-02', '--close');
    const { json } = await tollgate(...asked, '--close', '--json');
    t.match(json, {
      month: '2024-03',
      before_eur: '0.003',
      refused: [],
      sums: { companies: 2, closed: 2, total_eur: '1.005' },
    });
    t.match(json.companies, [
      { company_name: '=Tiny', number: 2, total_eur: '0', amount_eur: '0.00' },
      { company_name: 'Ähre/Söhne', number: 1, total_eur: '1.005', amount_eur: '1.01' },
    ]);
    t.match(
      (await tollgate(...asked, '--csv')).out,
      new RegExp(
        `\n2024-03,${rounded},Ähre/Söhne,,,1,[^,]*,2,1\\.005,0,1\\.005,1\\.01,[0-9a-f]{64},,\n$`,
      ),
    );
    await db.run(
      10_000,
      (sql) =>
        sql`insert into users (email, company_id, role, password_hash) values ('own@tiny.example', ${tiny}, 'owner', 'x')`,
    );
    t.equal((await tollgate(...asked, '--mail', '--json')).json.mailed, 1);
    t.equal((await tollgate(...asked, '--mail', '--json')).json.mailed, 0, 'once to each person');
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-'));
    t.teardown(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'march.tar.gz');
    t.equal((await tollgate(...asked, '--archive', file)).code, 0);
    execFileSync('tar', ['-xzf', file, '-C', folder]);
    const inside = join(folder, 'statements-2024-03');
    const name = `Ähre Söhne ${rounded.slice(0, 8)} statement-1-2024-03`;
    t.same(readdirSync(inside).sort(), [
      `=Tiny ${tiny.slice(0, 8)} statement-2-2024-03.csv`,
      `=Tiny ${tiny.slice(0, 8)} statement-2-2024-03.json`,
      'statements-2024-03.csv',
      `${name}.csv`,
      `${name}.json`,
    ]);
    const document = await tollgate(
      'statement',
      '--company',
      rounded,
      '--month',
      '2024-03',
      '--json',
    );
    t.equal(readFileSync(join(inside, `${name}.json`), 'utf8'), document.out, 'as it was sealed');
    t.match(await tollgate(...asked, '--archive', file), { code: 1, err: /exist/ });
  },
);
