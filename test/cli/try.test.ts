import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { CHILD_ENV } from '../support/child.ts';
import { ROOT, tollgate } from '../support/cli.ts';
import { freePort } from '../support/port.ts';
import { emptyDatabase, testDatabase } from '../support/postgres.ts';

/** Answers of an upstream by path; a path that is not here is 404, as the list of prices is everywhere but at LiteLLM. */
type Answers = Readonly<Record<string, unknown>>;

const COMPLETION = {
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello!' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 },
};
const LITELLM = {
  '/v1/models': { object: 'list', data: [{ id: 'embedder' }, { id: 'gpt-x' }] },
  '/v1/model/info': {
    data: [
      {
        model_name: 'gpt-x',
        litellm_params: { model: 'azure/gpt-x', region_name: 'eu' },
        model_info: { mode: 'chat', input_cost_per_token: 2.5e-6, output_cost_per_token: 1e-5 },
      },
      { model_name: 'embedder', model_info: { mode: 'embedding', input_cost_per_token: 1e-7 } },
    ],
  },
  '/v1/chat/completions': COMPLETION,
};
/** As llama.cpp's server answers, whose list of models is open to everybody. */
const LLAMA = {
  '/v1/models': {
    models: [{ name: '/models/q.gguf', model: '/models/q.gguf' }],
    object: 'list',
    data: [{ id: '/models/q.gguf', object: 'model', owned_by: 'llamacpp', meta: { n_vocab: 32 } }],
  },
  '/v1/chat/completions': COMPLETION,
};
/** As api.openai.com answers. */
const PROVIDER = {
  '/v1/models': {
    object: 'list',
    data: ['text-embedding-3-small', 'whisper-1', 'gpt-4o-mini', 'gpt-4o'].map((id) => {
      return { id, object: 'model', created: 1_715_367_049, owned_by: 'system' };
    }),
  },
  '/v1/chat/completions': COMPLETION,
};

/** Starts an upstream. @param key what it asks for; @param open paths that it answers without the key */
async function upstream(t: Test, answers: Answers, key?: string, open: readonly string[] = []) {
  const server = createServer((request, response) => {
    const { url = '', headers } = request;
    const isRefused =
      key !== undefined && !open.includes(url) && headers.authorization !== `Bearer ${key}`;
    request.resume().on('end', () => {
      const found = isRefused ? { error: { message: 'Invalid API Key' } } : answers[url];
      response.writeHead(isRefused ? 401 : found === undefined ? 404 : 200, {
        'content-type': 'application/json',
      });
      response.end(JSON.stringify(found ?? { error: { message: 'File Not Found' } }));
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Runs `try` until it has told its first call, does something, and stops it as Ctrl-C does. */
async function tried(
  t: Test,
  env: Record<string, string>,
  args: readonly string[],
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers freely
  use: (told: any) => Promise<void> = async () => {},
) {
  const main = fileURLToPath(new URL('src/main.ts', ROOT));
  const child = spawn(process.execPath, [main, 'try', '--json', ...args], {
    env: { ...CHILD_ENV, PORT: '0', ADMIN_PORT: '0', SPOOL_DIR: '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const errors = text(child.stderr);
  const ended = once(child, 'exit');
  let out = '';
  for await (const piece of child.stdout.setEncoding('utf8')) {
    out += piece;
    if (!out.includes('\n')) continue;
    await use(JSON.parse(out));
    child.kill('SIGINT');
    break;
  }
  const [code] = await ended;
  return { code, err: await errors, told: out === '' ? null : JSON.parse(out) };
}

t.test(
  'LiteLLM: one command makes a call with the price and the region that it tells',
  async (t) => {
    const { url: DATABASE_URL } = await testDatabase(t);
    const address = await upstream(t, LITELLM);
    const args = ['--upstream', address, '--usd-rate', '0.5'];
    const first = await tried(t, { DATABASE_URL }, args, async ({ base_url, key, admin_url }) => {
      const again = await fetch(`${base_url}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: '{"model":"chat","messages":[{"role":"user","content":"Hello"}]}',
      });
      t.match([again.status, again.headers.get('x-cost-eur')], [200, '0.0000275']);
      t.equal((await fetch(`${admin_url}/livez`)).status, 200);
      await again.arrayBuffer();
    });
    t.match(first, {
      code: 0,
      told: {
        is_new: true,
        key: /^svc_/,
        login: { email: 'operator@localhost' },
        model: {
          slug: 'chat',
          upstream_model: 'gpt-x',
          eu_hosted: true,
          input: '0.00125',
          output: '0.005',
        },
        call: { status: 200, cost_eur: '0.0000275', page: /\/requests\/[0-9a-f-]{36}$/ },
      },
    });
    const second = await tried(t, { DATABASE_URL, UPSTREAM_URL: `${address}/v1` }, []);
    t.match(second, {
      code: 0,
      told: { is_new: false, login: null, model: { input: '0.00125' }, call: { status: 200 } },
    });
    t.not(second.told.key, first.told.key);
  },
);

t.test(
  'a provider: the first model for chat, at the prices that are given, outside the EU',
  async (t) => {
    const { url: DATABASE_URL } = await testDatabase(t);
    const env = {
      DATABASE_URL,
      UPSTREAM_URL: await upstream(t, PROVIDER, 'sk-1'),
      UPSTREAM_API_KEY: 'sk-1',
    };
    const prices = ['--input-price', '0.0001', '--output-price', '0'];
    t.match(await tried(t, env, [...prices, '--eu-hosted', 'false']), {
      code: 0,
      told: {
        model: { upstream_model: 'gpt-4o-mini', eu_hosted: false },
        call: { cost_eur: '0.000001' },
      },
    });
  },
);

t.test(
  'an upstream that lists its models and refuses the call is told with what to do',
  async (t) => {
    const { url: DATABASE_URL } = await testDatabase(t);
    const env = { DATABASE_URL, UPSTREAM_URL: await upstream(t, LLAMA, 'secret', ['/v1/models']) };
    const given = ['--input-price', '1', '--output-price', '1', '--eu-hosted', 'true'];
    const { code, err, told } = await tried(t, env, given);
    t.match({ code, told }, { code: 1, told: null });
    const last = JSON.parse(err.trim().split('\n').at(-1) as string);
    t.match(last.error, {
      kind: 'failed',
      message: /^the first call was answered 50\d\. .*What to do: /,
    });
  },
);

t.test('what cannot be tried is refused with what to do, and nothing is set up', async (t) => {
  const { url, db } = await testDatabase(t);
  const [litellm, llama, provider, none] = await Promise.all([
    upstream(t, LITELLM),
    upstream(t, LLAMA),
    upstream(t, PROVIDER, 'sk-1'),
    upstream(t, { '/v1/models': { object: 'list', data: [] } }),
  ]);
  const at = (address: string, ...more: string[]) => ['--upstream', address, ...more];
  const prices = ['--input-price', '1', '--output-price', '1'];
  const cases: [string[], 1 | 64, RegExp][] = [
    [[], 64, /set UPSTREAM_URL to the address/],
    [at('nonsense'), 64, /^tollgate: UPSTREAM_URL: must be/],
    [at(`http://127.0.0.1:${await freePort()}`), 1, /Nothing listens at/],
    [at(provider), 1, /refuses the key .* Set UPSTREAM_API_KEY/],
    [at(none), 1, /offers no model yet/],
    [at(litellm), 64, /give --usd-rate/],
    [at(litellm, '--usd-rate', '0'), 64, /--usd-rate must be/],
    [at(litellm, '--model', 'gtp-x'), 64, /--model must be .*did you mean "gpt-x"\?/],
    [at(llama), 64, /give --input-price and --output-price/],
    [at(llama, '--input-price', '1'), 64, /go together/],
    [at(llama, '--input-price', '0', '--output-price', '0.00'), 64, /above 0/],
    [at(llama, ...prices), 64, /give --eu-hosted true or false/],
  ];
  for (const [args, code, message] of cases) {
    const ran = await tollgate(['try', ...args], { env: { DATABASE_URL: url } });
    t.match(ran, { code, out: '', err: message }, args.join(' '));
  }
  const bare = { DATABASE_URL: (await emptyDatabase(t)).url };
  const unmigrated = await tollgate(['try', ...at(llama, ...prices)], { env: bare });
  t.match(unmigrated, { code: 1, err: /run "tollgate migrate"/ }, 'it migrates nobody’s database');
  const count = () => db.run(60_000, (sql) => sql`select from companies`);
  t.equal((await count()).length, 0);
  await tollgate(['company', 'create', '--name', 'Acme'], { env: { DATABASE_URL: url } });
  const others = await tollgate(['try', ...at(llama, ...prices)], { env: { DATABASE_URL: url } });
  t.match(others, { code: 1, err: /has companies or models of its own/ });
  const trial = () => db.run(60_000, (sql) => sql`update companies set name = 'Trial'`);
  await trial();
  const named = ['company', 'create', '--name', 'Other'];
  await tollgate(named, { env: { DATABASE_URL: url } });
  const one = await tollgate(['try', ...at(llama, ...prices)], { env: { DATABASE_URL: url } });
  t.match(one, { code: 1, err: /has companies or models of its own/ }, 'whatever its name is');
});

t.test('in a terminal it asks until an answer is right', async (t) => {
  const { url } = await testDatabase(t);
  const address = await upstream(t, PROVIDER);
  const answers = [address, 'gpt-5o', 'gpt-4o', 'x', '0.0025', '0.01', 'perhaps'];
  const { code, err } = await tollgate(['try'], {
    env: { DATABASE_URL: url },
    columns: 80,
    stdin: `${answers.join('\n')}\n`,
  });
  t.equal(code, 64, 'the last answer is absent');
  t.match(err, /^Address .*: The upstream has:\n {2}gpt-4o-mini\n {2}gpt-4o\n/m);
  t.match(err, /Model \[gpt-4o-mini\]: It must be .*did you mean "gpt-4o"\?/);
  t.match(
    err,
    /input.*: It must be EUR per 1000 tokens.*output.*: .*run in the EU\? .*: It must be yes or no/s,
  );
});
