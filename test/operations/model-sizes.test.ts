import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { newToken, send } from '../admin/api/tokens.ts';
import { signedIn, startOffice } from '../admin/people.ts';
import { tollgate as run } from '../support/cli.ts';
import { ask } from '../support/client.ts';
import { until } from '../support/until.ts';
import { scriptedUpstream } from '../support/upstream.ts';

/** How much a model takes and generates, which its operator may tell or not, at all faces. */

const office = await startOffice(t);
const { sql, databaseUrl, customer } = office;
const operator = await signedIn(office, 'operator');
const token = await newToken(office);
const folder = t.testdir({});
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: databaseUrl } });
const http = (method: string, path: string, body?: object) =>
  send(office, token, [method, path], body);

async function fromFile(name: string, text: string, ...command: string[]) {
  const path = join(folder, name);
  writeFileSync(path, text);
  return tollgate(...command, path);
}

async function sizesOf(slug: string) {
  const [row] =
    await sql`select id, context_length as context, max_output_tokens as output from models where slug = ${slug}`;
  return { id: row?.id as string, sizes: [row?.context, row?.output] };
}

const NEW =
  '--upstream internal/x --kind chat --eu-hosted true --input-price 1 --output-price 2'.split(' ');
const prices = { cost_eur_per_1k_input: '1', cost_eur_per_1k_output: '2' };
const HTTP_NEW = { upstream_model: 'x', kind: 'chat', eu_hosted: true, ...prices };

t.test('commands: given, changed, taken away with none, and left as they are', async (t) => {
  const sizes = ['--context-length', '131072', '--max-output-tokens', '8192'];
  const made = await tollgate('model', 'create', '--slug', 'told', ...NEW, ...sizes);
  t.match(made.out, /context length +131072\n +max output tokens +8192\n/);
  t.notMatch(
    (await tollgate('model', 'create', '--slug', 'bare', ...NEW)).out,
    /131072|context length +\d|output tokens +\d/,
  );
  t.same((await sizesOf('bare')).sizes, [null, null]);
  const set = (...more: string[]) => tollgate('model', 'set', 'told', ...more);
  t.match((await set('--input-price', '3', '--json')).json, {
    context_length: 131_072,
    max_output_tokens: 8192,
  });
  t.match((await set('--context-length', 'none', '--json')).json, {
    context_length: null,
    max_output_tokens: 8192,
  });
  t.match((await set('--context-length', '4096', '--json')).json, { context_length: 4096 });
  for (const wrong of ['0', '-1', '1.5', 'x', '1000000001']) {
    t.match(
      await set('--max-output-tokens', wrong),
      { code: 64, err: /--max-output-tokens must be/ },
      wrong,
    );
  }
});

t.test(
  'GET /models tells them where they are set, and is as before where they are not',
  async (t) => {
    const { key } = customer;
    const entry = async (slug: string) => (await ask(`${office.url}/models/${slug}`, { key })).text;
    const plain = (slug: string) =>
      `\\{"id":"${slug}","object":"model","created":\\d+,"owned_by":"tollgate"`;
    await until(async () => /8192/.test(await entry('told')), 'the gateway knows the model');
    t.match(
      await entry('told'),
      new RegExp(`^${plain('told')},"context_length":4096,"max_output_tokens":8192\\}$`),
    );
    t.match(await entry('bare'), new RegExp(`^${plain('bare')}\\}$`));
    const { text } = await ask(`${office.url}/models`, { key });
    t.match(
      text,
      new RegExp(
        `${plain('bare')}\\}.*${plain('told')},"context_length":4096,"max_output_tokens":8192\\}`,
      ),
    );
    await sql`update models set context_length = null where slug = 'told'`;
    await until(
      async () => !/context/.test(await entry('told')),
      'what any program changes is told',
    );
    t.match(await entry('told'), new RegExp(`^${plain('told')},"max_output_tokens":8192\\}$`));
  },
);

t.test('a strict budget reserves the most output where a call sets no limit', async (t) => {
  for (const [slug, most] of [
    ['large', 501],
    ['small', 100],
    ['untold', null],
  ] as const) {
    await office.model(slug, { upstream: 'internal-demo-chat', input: '1', output: '2' });
    await sql`update models set max_output_tokens = ${most} where slug = ${slug}`;
  }
  const told = async (slug: string) =>
    (await customer.ask(`/models/${slug}`)).json.max_output_tokens;
  await until(
    async () => (await told('large')) === 501 && (await told('small')) === 100,
    'the gateway knows the sizes',
  );
  const messages = [{ role: 'user', content: 'Hi' }];
  const calls = {
    '/chat/completions': { messages },
    '/responses': { input: 'Hi' },
    '/completions': { prompt: 'Hi' },
  };
  for (const [path, body] of Object.entries(calls)) {
    const strict = await office.newCustomer({ budget: '1' }); // 500 tokens of an answer
    await sql`update companies set budget_mode = 'strict' where id = ${strict.company}`;
    const post = async (model: string, more: object = {}) =>
      (await strict.ask(path, { body: { model, ...body, ...more } })).status;
    await until(async () => (await post('large')) === 402, `${path}: more than is left`);
    t.equal(await post('small'), 200, path);
    t.equal(
      await post('small', path === '/responses' ? {} : { n: 6 }),
      path === '/responses' ? 200 : 402,
      path,
    );
    const limit = path === '/responses' ? 'max_output_tokens' : 'max_tokens';
    t.equal(await post('large', { [limit]: 10 }), 200, `${path}: its own limit counts`);
    t.equal(await post('untold'), 200, `${path}: no bound is known`);
  }
});

t.test('a run that sets no limit reserves the most output of its model', async (t) => {
  const strict = await office.newCustomer({ budget: '1' });
  await sql`update companies set budget_mode = 'strict' where id = ${strict.company}`;
  const assistant = await office.assistant(strict.company, { prompt: '' });
  const messages = [{ role: 'user', content: 'Hi' }];
  const status = async (model_slug: string, more = {}) =>
    (await strict.run(assistant, { messages, model_slug, ...more })).status;
  await until(async () => (await status('large')) === 402, 'more than is left');
  t.equal(await status('large', { max_tokens: 10 }), 200);
  t.equal(await status('small'), 200);
});

t.test('HTTP, a file of apply and its export, a CSV, and the pages', async (t) => {
  const made = await http('POST', '/models', { slug: 'http', ...HTTP_NEW, context_length: 8192 });
  t.match(made, { status: 201, body: { context_length: 8192, max_output_tokens: null } });
  const path = `/models/${made.body.id}`;
  t.match((await http('PATCH', path, { max_output_tokens: 100, context_length: null })).body, {
    context_length: null,
    max_output_tokens: 100,
  });
  for (const wrong of [0, 1.5, '100', 1e10])
    t.equal((await http('PATCH', path, { context_length: wrong })).status, 400);
  const { body: listed } = await http('GET', `/companies/${customer.company}/models?limit=200`);
  t.match(
    listed.data.find(({ slug }: { slug: string }) => slug === 'http'),
    { max_output_tokens: 100 },
  );

  const file = (more: string) =>
    fromFile('wanted.yml', `models:\n  - slug: http\n${more}`, 'apply');
  t.match((await file('    context_length: 4096\n')).out, /context_length: none -> 4096/);
  t.match(await file('    context_length: 4096\n'), { code: 0, out: 'Nothing to change.\n' });
  t.match(
    (await tollgate('export-config')).out,
    /slug: http\n(?: +.*\n)*? +context_length: 4096\n +max_output_tokens: 100\n/,
  );

  t.equal(
    (
      await tollgate(
        'model',
        'set',
        'http',
        '--context-length',
        'none',
        '--max-output-tokens',
        '200',
      )
    ).code,
    0,
  );
  t.same((await sizesOf('http')).sizes, [null, 200]);

  const { id } = await sizesOf('http');
  const page = (await operator.get(`/models/${id}`)).text;
  t.match(page, /name="context_length" [^>]*value=""/);
  t.match(page, /name="max_output_tokens" [^>]*value="200"/);
  const fields = {
    upstream: 'x',
    kind: 'chat',
    eu_hosted: 'true',
    input: '1000',
    output: '2000',
    unit: '1M',
  };
  const changed = await operator.post(`/models/${id}`, {
    ...fields,
    context_length: '32768',
    max_output_tokens: '',
  });
  t.equal(changed.status, 303);
  t.same((await sizesOf('http')).sizes, [32_768, null]);
});

t.test('model offered tells what the router tells', async (t) => {
  const router = await scriptedUpstream(t);
  const env = { DATABASE_URL: databaseUrl, UPSTREAM_URL: router.url };
  const offered = (...argv: string[]) => run(['model', 'offered', ...argv], { env });
  router.answerJson({ data: [{ id: 'a', max_model_len: 32_768 }, { id: 'b' }] });
  t.match((await offered('--json')).json, [
    { upstream: 'a', slugs: [], context_length: 32_768 },
    { upstream: 'b' },
  ]);
  t.match(
    (await offered()).out,
    /^UPSTREAM +OFFERED AS +CONTEXT +MOST OUTPUT\na +- +32768 +-\nb +- +- +-\n/,
  );
  router.answerJson({ data: [{ id: 'b' }] });
  t.match((await offered()).out, /^UPSTREAM +OFFERED AS\nb +-\n/);
});
