import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Moment } from '../../src/domain/price.ts';
import type { RateTexts } from '../../src/domain/pricing/rates.ts';
import { refuse } from '../../src/operations/frame/refused.ts';
import { setPrices } from '../../src/operations/price.ts';
import { newToken, send } from '../admin/api/tokens.ts';
import { startOffice } from '../admin/people.ts';
import { tollgate as run } from '../support/cli.ts';

/** Rates, which hold in place of a price under conditions: set, refused and shown by commands, files and HTTP. */

const office = await startOffice(t);
const { sql, databaseUrl } = office;
const token = await newToken(office);
const folder = t.testdir({});
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: databaseUrl } });
const http = (method: string, path: string, body?: object, by = token) =>
  send(office, by, [method, path], body);
let files = 0;
function fileOf(content: unknown): string {
  const path = join(folder, `${++files}.json`);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}
const LONG = { over: 272_000, input: '0.0050', output: '0.0225' };
const NIGHT = { hours: '22:00-06:00 Europe/Berlin', input: '0.001', output: '0.008' };
const STORED = { over: 272_000, input: '0.005', output: '0.0225' };
const NEW = ['--upstream', 'internal', '--kind', 'chat', '--eu-hosted', 'true'];
const BASE = ['--input-price', '0.0025', '--output-price', '0.015'];
const create = (slug: string, ...more: string[]) =>
  tollgate('model', 'create', '--slug', slug, ...NEW, ...BASE, ...more);
const ratesOf = async (slug: string) =>
  (await sql`select rates from models where slug = ${slug}`)[0]?.rates;

t.test('commands: set, shown, from a date, ended, and never left behind', async (t) => {
  const made = await create('rated', '--rates', fileOf([LONG]));
  t.match(made, { code: 0, out: /rates +over 272000 0\.005 and 0\.0225\n/ });
  t.same(await ratesOf('rated'), [STORED]);
  t.match((await tollgate('model', 'list')).out, /RATES/);
  const forgotten = await tollgate('model', 'set', 'rated', '--input-price', '0.003');
  t.match(forgotten, { code: 1, err: /--rates must be given with the prices: .*or none/ });
  t.match(await tollgate('model', 'set', 'rated', '--input-price', '0.0025'), { code: 0 });
  t.match(await tollgate('model', 'set', 'rated', '--upstream', 'other'), { code: 0 });
  const part = await tollgate(
    'model',
    'set',
    'rated',
    '--cache-read-price',
    '0.0002',
    '--rates',
    fileOf([LONG]),
  );
  t.match(part, { code: 1, err: /--rates, rate 1, cache_read must be there/ });
  const whole = fileOf([{ ...LONG, cache_read: 'none' }]);
  t.match(
    await tollgate('model', 'set', 'rated', '--cache-read-price', '0.0002', '--rates', whole),
    { code: 0 },
  );
  t.same(await ratesOf('rated'), [{ ...STORED, cache_read: null }]);
  const from = ['--from', '2099-01-01'];
  t.match(await tollgate('model', 'set', 'rated', '--input-price', '0.003', ...from), {
    code: 1,
    err: /--rates must be given/,
  });
  const scheduled = ['--cache-read-price', 'none', '--rates', fileOf([NIGHT]), ...from];
  t.match(await tollgate('model', 'set', 'rated', ...scheduled), {
    code: 0,
    out: /rates +22:00-06:00 Europe\/Berlin 0\.001 and 0\.008/,
  });
  t.match((await tollgate('model', 'price', 'rated')).out, /22:00-06:00/);
  t.match(await tollgate('model', 'set', 'rated', '--input-price', '0.003', '--rates', 'none'), {
    code: 0,
  });
  t.equal(await ratesOf('rated'), null);
  for (const [content, says] of [
    ['[', /is not JSON/],
    [[{ over: 5, input: '1' }], /--rates, rate 1, output is required|--rates.*output/],
    [[{ over: 5, input: 1, output: '1' }], /rate 1, input must be/],
    [[{ ...LONG, hours: '25:00-26:00 UTC' }], /rate 1, hours must be/],
  ] as const)
    t.match(await tollgate('model', 'set', 'rated', '--rates', fileOf(content)), {
      code: 1,
      err: says,
    });
});

t.test('what is wrong with rates is told with its place', async (t) => {
  const prices = { cost_eur_per_1k_input: '1', cost_eur_per_1k_output: '2' };
  const model = { slug: 'wrong', upstream_model: 'x', kind: 'chat', eu_hosted: true, ...prices };
  const two = (rate: object) => ({ input: '1', output: '1', ...rate });
  const priority = two({ tier: 'priority' });
  for (const [rates, pointer, detail] of [
    [[priority, two({ hours: '01:00-02:00 UTC' })], '#/rates/1/hours', /could hold at once/],
    [[two({ hours: '01:00-02:00 Mars/Base' })], '#/rates/0/hours', /windows of the week/],
    [[two({ tier: 'default' })], '#/rates/0/tier', /base price/],
    [[two({})], '#/rates/0/over', /a rate without a condition/],
    [[priority, priority], '#/rates/1/tier', /could hold at once/],
  ] as const)
    t.match(await http('POST', '/models', { ...model, rates }), {
      status: 409,
      body: { errors: [{ pointer, detail }] },
    });
  const form = await http('POST', '/models', { ...model, rates: [two({ over: 0 })] });
  t.match(form, { status: 400, body: { errors: [{ pointer: '#/rates/0/over' }] } });
});

t.test('HTTP: models, prices to come, cost prices, and what a company sees', async (t) => {
  const [{ id: company }] = await sql<[{ id: string }]>`
    insert into companies (name, price_factor) values ('Rated', 0.5) returning id`;
  const prices = { cost_eur_per_1k_input: '1', cost_eur_per_1k_output: '2' };
  const rates = [{ tier: 'priority', input: '2', output: '4', reasoning: 'none' }];
  const stored = [{ ...rates[0], reasoning: null }];
  const model = { slug: 'posted', upstream_model: 'x', kind: 'chat', eu_hosted: true, ...prices };
  const made = await http('POST', '/models', { ...model, rates });
  t.match(made, { status: 201, body: { rates: stored } });
  const path = `/models/${made.body.id}`;
  t.match(await http('PATCH', path, { cost_eur_per_1k_input: '3' }), {
    status: 409,
    body: { errors: [{ pointer: '#/rates' }] },
  });
  t.match(await http('PATCH', path, { cost_eur_per_1k_reasoning: '3', rates }), { status: 200 });
  t.match(await http('PATCH', path, { cost_eur_per_1k_audio_input: '3' }), { status: 409 });
  const next = { valid_from: '2099-01-01', input: '5' };
  t.match(await http('POST', `${path}/prices`, next), { status: 409 });
  t.match(await http('POST', `${path}/prices`, { ...next, rates }), {
    status: 201,
    body: { rates: stored, input: '5' },
  });
  const cost = { valid_from: '2026-01-01', input: '0.5', output: '1' };
  t.match(await http('POST', `${path}/cost-prices`, { ...cost, rates }), {
    status: 201,
    body: { rates: stored },
  });
  t.match(await http('POST', `${path}/cost-prices`, { ...cost, input: '0.6' }), { status: 409 });
  t.match(await http('POST', `${path}/cost-prices`, { ...cost, input: '0.6', rates: null }), {
    status: 201,
    body: { rates: null },
  });
  const owner = await newToken(office, { company_id: company });
  const { body } = await http('GET', `/companies/${company}/models?limit=200`, undefined, owner);
  if (body.data === undefined) throw new Error(JSON.stringify(office.logged.slice(-4)));
  const seen = body.data.find(({ slug }: { slug: string }) => slug === 'posted');
  t.match(seen, {
    cost_eur_per_1k_input: '0.5',
    rates: [{ tier: 'priority', input: '1', output: '2', reasoning: null }],
    coming: [{ input: '2.5', rates: [{ tier: 'priority', input: '1', output: '2' }] }],
  });
});

t.test('a file: applied once, exported, and refused where it leaves rates behind', async (t) => {
  const file = (more: string) =>
    tollgate(
      'apply',
      fileOf(`models:
  - slug: filed
    upstream_model: x
    kind: chat
    eu_hosted: true
    cost_eur_per_1k_output: "0.015"
${more}`),
    );
  const rates = '    rates: [{ over: 272000, input: "0.005", output: "0.0225" }]\n';
  const input = (price: string) => `    cost_eur_per_1k_input: "${price}"\n`;
  t.match(await file(input('0.0025') + rates), { code: 0, out: /\+ model filed/ });
  t.match((await file(input('0.0025') + rates)).out, /Nothing to change/);
  t.match((await file(input('0.00250'))).out, /Nothing to change/);
  t.match(await file(input('0.003')), {
    code: 1,
    err: /models\[0\]\.rates must be given with the prices/,
  });
  const tie =
    '    rates: [{ tier: a, input: "1", output: "1" }, { tier: a, input: "1", output: "1" }]\n';
  t.match(await file(input('0.0025') + tie), { code: 1, err: /models\[0\]\.rates\[1\]\.tier/ });
  const dated = `    prices:
      - valid_from: 2099-01-01
        input: "0.003"
        output: "0.015"
`;
  t.match(await file(input('0.0025') + dated), {
    code: 1,
    err: /prices\[0\]\.rates must be given/,
  });
  const whole = `${dated}        rates: [{ tier: priority, input: "0.006", output: "0.03" }]\n`;
  const costs = `    cost_prices: [{ valid_from: 2026-01-01, input: "0.001", output: "0.01", rates: [{ tier: priority, input: "0.002", output: "0.02" }] }]\n`;
  t.match(await file(input('0.0025') + whole + costs), {
    code: 0,
    out: /none -> 0\.003 and 0\.015; priority 0\.006 and 0\.03/,
  });
  t.match((await file(input('0.0025') + whole + costs)).out, /Nothing to change/);
  t.match(await file(`${input('0.0025')}    rates: null\n`), {
    code: 0,
    out: /rates: over 272000 0\.005 and 0\.0225 -> none/,
  });
  const { out } = await tollgate('export-config');
  t.match(out, /slug: filed[\s\S]*?tier: priority/);
});

t.test('one operation sets prices and rates, now or from a date', async (t) => {
  await create('set');
  const caller = { judge: refuse };
  const name = { slug: 'set', company_id: null };
  const set = (prices: object, rates: RateTexts[] | null | undefined, from: Moment | null) =>
    setPrices(sql as never, caller, name, prices, rates, from);
  await set(
    { input: '1', output: '2', cache_read: '0.1' },
    [{ ...LONG, cache_read: 'none' }],
    null,
  );
  t.same(await ratesOf('set'), [{ ...STORED, cache_read: null }]);
  await t.rejects(set({ input: '2' }, undefined, null), {
    kind: 'conflict',
    mistakes: [{ pointer: '#/rates' }],
  } as never);
  const at = new Date('2099-01-01T00:00:00Z');
  await t.rejects(set({}, [STORED], { at }), {
    mistakes: [{ pointer: '#/rates/0/cache_read' }],
  } as never);
  t.match(await set({}, null, { at }), { input: '1', rates: null });
});
