import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { speak } from '../../edge/raw.ts';
import { type Answer, ask } from '../../support/client.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import {
  CHAT,
  type Customer,
  customerWith,
  EMBED,
  OVERSEAS,
  startWorld,
  visible,
} from '../../support/world.ts';

/** What a key may do less than its company (contract section 5). */
interface Narrowed {
  readonly models?: readonly string[] | null;
  readonly budget?: string | null;
  readonly networks?: readonly string[] | null;
}

const digest = (key: string): Buffer => createHash('sha256').update(key).digest();

async function narrow(
  gateway: TestGateway,
  key: string,
  { models = null, budget = null, networks = null }: Narrowed,
) {
  await gateway.sql`
    update api_keys set allowed_model_slugs = ${models as string[] | null}, monthly_budget_eur = ${budget},
      allowed_cidrs = ${networks as string[] | null}::cidr[] where digest = ${digest(key)}`;
}

/** Another key of a customer's company. */
async function keyOf(
  gateway: TestGateway,
  { company }: Pick<Customer, 'company'>,
  narrowed: Narrowed,
): Promise<Customer> {
  const key = await gateway.key(company);
  await narrow(gateway, key, narrowed);
  return customerWith(gateway.url, company, key);
}

/** All that a client can tell two answers apart by. */
const told = (answer: Answer): string =>
  `${answer.status}\n${visible(answer)}`
    .replaceAll(/^(date|(?:x-)?request-id): .*\n/gm, '')
    .replaceAll(/"request_id":"[^"]*"/g, '');

const NOBODY = 'brand-nobody';
const world = await startWorld(t);
const { customer } = world;
const assistant = await world.assistant(customer.company, { model: OVERSEAS });
const other = await world.assistant(customer.company);
const messages = [{ role: 'user', content: 'Hello there' }];
const CALLS: Readonly<Record<string, (caller: Customer, model: string) => Promise<Answer>>> = {
  chat: (caller, model) => caller.chat({ model }),
  stream: (caller, model) => caller.chat({ model, stream: true }),
  embeddings: (caller, model) => caller.embed({ model }),
  responses: (caller, model) => caller.ask('/responses', { body: { model, input: 'Hello' } }),
  messages: (caller, model) =>
    caller.ask('/messages', { body: { model, max_tokens: 5, messages } }),
  counting: (caller, model) => caller.ask('/messages/count_tokens', { body: { model, messages } }),
  run: (caller, model) => caller.run(other, { model_slug: model }),
  entry: (caller, model) => caller.ask(`/models/${model}`),
};
const slugsOf = async (caller: Customer): Promise<string[]> =>
  (await caller.ask('/models')).json.data.map(({ id }: { id: string }) => id);

t.test(
  'a key lists and calls only its models; others look like models that do not exist',
  async (t) => {
    const key = await keyOf(world, customer, { models: [CHAT, 'not-a-model'] });
    t.same(await slugsOf(key), [CHAT]);
    t.same((await key.ask(`/models/${CHAT}`)).json.id, CHAT);
    for (const [name, call] of Object.entries(CALLS)) {
      const nobody = told(await call(key, NOBODY));
      t.match(nobody, /^404\n/, name);
      for (const slug of [EMBED, OVERSEAS]) {
        t.equal(
          told(await call(key, slug)).replaceAll(slug, NOBODY),
          nobody.replace(
            /content-length: \d+/,
            `content-length: ${(await call(key, slug)).headers.get('content-length')}`,
          ),
          `${name} of ${slug}`,
        );
      }
      if (name !== 'embeddings') t.equal((await call(key, CHAT)).status, 200, name);
    }
    t.equal((await customer.embed()).status, 200, 'another key of the company has them');
  },
);

t.test(
  "an assistant whose model is outside a key's is not run, as one whose model is disabled",
  async (t) => {
    const key = await keyOf(world, customer, { models: [CHAT] });
    const closed = await world.newCustomer({ disabled: [OVERSEAS] });
    const theirs = await world.assistant(closed.company, { model: OVERSEAS });
    t.equal(told(await key.run(assistant)), told(await closed.run(theirs)));
    t.equal((await key.run(assistant, { model_slug: CHAT })).status, 200);
  },
);

t.test('a change of the list is in force within a second, and null takes it away', async (t) => {
  const key = await keyOf(world, customer, { models: [EMBED] });
  t.equal((await key.chat()).status, 404);
  await narrow(world, key.key, { models: [CHAT] });
  await until(async () => (await key.chat()).status === 200, 'the chat model is allowed');
  await narrow(world, key.key, {});
  await until(async () => (await slugsOf(key)).length === 2, 'all are allowed');
});

t.test(
  'a key that has reached its own budget gets 402 with words of its own; other keys go on',
  async (t) => {
    const key = await keyOf(world, customer, { budget: '0.00001' });
    t.equal((await key.chat()).status, 200);
    for (const call of ['chat', 'stream', 'responses', 'messages', 'run'] as const) {
      const answer = await (CALLS[call] as (typeof CALLS)[string])(key, CHAT);
      t.equal(answer.status, 402, call);
      t.equal(answer.json.error.type, 'billing_error');
      t.equal(answer.json.error.message, 'This key has reached its monthly budget.');
      t.equal(answer.headers.get('x-should-retry'), 'false');
    }
    const answer = await key.chat();
    t.equal(answer.json.error.code, 'insufficient_quota');
    const now = new Date();
    const next = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1));
    t.equal(answer.headers.get('x-budget-resets-at'), `${next.toISOString().slice(0, 19)}Z`);
    t.equal((await key.ask('/models')).status, 200, 'what costs nothing is not checked');
    t.equal((await customer.chat()).status, 200);

    await narrow(world, key.key, { budget: '100' });
    await until(async () => (await key.chat()).status === 200, 'a raised budget lifts it');
    await narrow(world, key.key, { budget: '0.00001' });
    await until(async () => (await key.chat()).status === 402, 'a lowered one is reached at once');
    await narrow(world, key.key, { budget: '0' });
    await until(async () => (await key.chat()).status === 200, '0 is no budget');
  },
);

t.test(
  "the company's budget is checked first, and its 402 says when it begins anew too",
  async (t) => {
    const owner = await world.newCustomer({ budget: '0.00001' });
    const key = await keyOf(world, owner, { budget: '0.00001' });
    t.equal((await key.chat()).status, 200);
    const answer = await key.chat();
    t.equal(answer.status, 402);
    t.equal(answer.json.error.message, 'The monthly budget of your company has been reached.');
    t.match(answer.headers.get('x-budget-resets-at'), /^\d{4}-\d\d-01T00:00:00Z$/);
  },
);

t.test(
  'a strict company reserves for itself alone: a key goes over its own budget by what is in flight',
  async (t) => {
    const owner = await world.newCustomer({ budget: '100' });
    await world.sql`update companies set budget_mode = 'strict' where id = ${owner.company}`;
    const key = await keyOf(world, owner, { budget: '0.00001' });
    t.equal((await key.chat({ max_tokens: 5 })).status, 200);
    t.equal((await key.chat({ max_tokens: 5 })).status, 402);
    t.equal(
      (await owner.chat({ max_tokens: 5 })).status,
      200,
      'nothing stays reserved for the refused call',
    );
    await world.ledger(owner.company, 2);
    const left = async () =>
      (await world.sql`select from budget_reservations where company_id = ${owner.company}`).length;
    await until(async () => (await left()) === 0, 'no reservation is left');
  },
);

t.test(
  'a busy gateway, which finds the owner of a request first, does not tell these keys apart either',
  async (t) => {
    const busy = await startWorld(t, { MAX_DELAY_MS: '1' });
    const outside = await keyOf(busy, await busy.newCustomer(), { networks: ['10.0.0.0/8'] });
    const refusal = async (key: string): Promise<string> => {
      const body = JSON.stringify({ model: CHAT, messages });
      const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json`;
      const { text } = await speak(busy.url, [
        `${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      ]);
      return text.replaceAll(/date: .*\r\n|(?:x-)?request-id: .*\r\n/gi, '');
    };
    const refused = new Set<string>();
    for (let n = 0; n < 150; n++) {
      for (const key of [outside.key, `svc_${String(n).padStart(32, 'b')}`])
        refused.add(await refusal(key));
    }
    for (const text of refused) if (text.startsWith('HTTP/1.1 503 ')) refused.delete(text); // it may be too busy
    t.equal(refused.size, 1, [...refused].join('\n'));
  },
);

t.test(
  'a key used from outside its networks is answered as an unknown one, byte for byte',
  async (t) => {
    const inside = await keyOf(world, customer, { networks: ['127.0.0.0/8', '2001:db8::/32'] });
    const outside = await keyOf(world, customer, { networks: ['10.0.0.0/8', '::1/128'] });
    const post = (key: string, path = '/v1/chat/completions', more = ''): string => {
      const body = JSON.stringify({ model: CHAT, messages });
      return `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${more}Content-Length: ${body.length}\r\n\r\n${body}`;
    };
    const bytes = async (text: string): Promise<string> =>
      (await speak(world.url, [text])).text.replaceAll(
        /date: .*\r\n|(?:x-)?request-id: .*\r\n|"request_id":"[^"]*"/gi,
        '',
      );
    let strangers = 0;
    const unknown = () => `svc_${String(strangers++).padStart(32, 'a')}`; // looked up in the database, then in memory
    for (const path of ['/v1/chat/completions', '/v1/messages', '/v1/assistants/x/run']) {
      const refused = await bytes(post(outside.key, path));
      t.match(refused, /^HTTP\/1\.1 401 /);
      const stranger = post(unknown(), path);
      for (const time of ['first', 'second'])
        t.equal(refused, await bytes(stranger), `${path}, the ${time} time`);
    }
    const get = (key: string) =>
      `GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    t.equal(await bytes(get(outside.key)), await bytes(get(unknown())));
    t.equal((await inside.chat()).status, 200);
    t.equal(
      (
        await ask(`${world.url}/chat/completions`, {
          key: outside.key,
          headers: { 'x-forwarded-for': '10.0.0.1' },
          body: { model: CHAT, messages },
        })
      ).status,
      401,
      'without proxies nobody may say where it comes from',
    );

    await narrow(world, outside.key, { networks: ['127.0.0.1/32'] });
    await until(async () => (await outside.chat()).status === 200, 'a change is in force');
  },
);

t.test('behind proxies the address is the one that the outermost of them saw', async (t) => {
  const proxied = await startWorld(t, { API_PROXIES: '2' });
  const bound = await keyOf(proxied, proxied.customer, {
    networks: ['192.0.2.0/24', '2001:db8::/32'],
  });
  const from = async (forwarded: string | null): Promise<number> =>
    (
      await ask(`${proxied.url}/models`, {
        key: bound.key,
        headers: forwarded === null ? {} : { 'x-forwarded-for': forwarded },
      })
    ).status;
  for (const [forwarded, status] of [
    ['192.0.2.7, 10.0.0.1', 200],
    ['198.51.100.1, 192.0.2.7, 10.0.0.1', 200],
    ['2001:db8::7, 10.0.0.1', 200],
    ['::ffff:192.0.2.7, 10.0.0.1', 200],
    ['192.0.2.7:4711, 10.0.0.1', 200],
    ['192.0.2.7, 198.51.100.1, 10.0.0.1', 401],
    ['198.51.100.1, 192.0.2.7', 401],
    ['192.0.2.7', 401],
    ['unknown, 10.0.0.1', 401],
    ['', 401],
    [null, 401],
  ] as const) {
    t.equal(await from(forwarded), status, String(forwarded));
  }
  t.equal(
    (await ask(`${proxied.url}/models`, { key: proxied.customer.key })).status,
    200,
    'other keys need no header',
  );

  // one connection of a proxy carries the requests of many: heads that repeat but for the key are not parsed again
  const body = JSON.stringify({ model: CHAT, messages });
  const post = (key: string, first: string): string =>
    `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${first}\r\nX-Forwarded-For: 10.0.0.1\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const statuses = async (...requests: string[]): Promise<string[]> => {
    const { text } = await speak(proxied.url, requests, {
      answers: requests.length,
      quietMs: 2000,
    });
    return [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status as string);
  };
  const { key: free } = proxied.customer;
  const [near, far] = ['192.0.2.7', '198.51.100.1'];
  const many = [
    post(free, near),
    post(free, near),
    post(bound.key, near),
    post(free, near),
    post(bound.key, near),
  ];
  t.same(await statuses(...many), ['200', '200', '200', '200', '200']);
  t.same(await statuses(post(free, far), post(free, far), post(bound.key, far)), [
    '200',
    '200',
    '401',
  ]);
  t.same(await statuses(post(bound.key, near), post(bound.key, near), post(bound.key, far)), [
    '200',
    '200',
    '401',
  ]);
});

t.test(
  'on a Unix socket there is no address: only a forwarded one can be in a network',
  async (t) => {
    for (const [proxies, statuses] of [
      ['0', { '192.0.2.7': 401 }],
      ['1', { '192.0.2.7': 200, '198.51.100.1': 401 }],
    ] as const) {
      const folder = mkdtempSync(join(tmpdir(), 'tollgate-'));
      t.teardown(() => rmSync(folder, { recursive: true, force: true }));
      const socketPath = join(folder, 'api.sock');
      const gateway = await startGateway(t, world.upstream.url, {
        LISTEN_SOCKET: socketPath,
        API_PROXIES: proxies,
      });
      const key = await gateway.key(await gateway.company());
      await narrow(gateway, key, { networks: ['192.0.2.0/24'] });
      for (const [forwarded, status] of Object.entries(statuses)) {
        const headers = { authorization: `Bearer ${key}`, 'x-forwarded-for': forwarded };
        const answered = await new Promise((resolve, reject) => {
          request({ socketPath, path: '/v1/models', headers, agent: false }, (res) =>
            resolve(res.resume().statusCode),
          )
            .on('error', reject)
            .end();
        });
        t.equal(answered, status, `${proxies} proxies, ${forwarded}`);
      }
    }
  },
);

t.test('whatever a key is narrowed to, it may do nothing that its company may not', async (t) => {
  const lists: (readonly string[] | null)[] = [null, [CHAT], [EMBED, OVERSEAS], [NOBODY]];
  const inside = lists.flatMap((models) =>
    ['100', '0.000000000000001'].map((budget) => ({ models, budget, networks: ['127.0.0.0/8'] })),
  );
  const outside = [null, [CHAT]].map((models) => ({ models, networks: ['10.0.0.0/8'] }));
  let allowed = 0;
  for (const settings of [
    {},
    { allowNonEu: true },
    { disabled: [CHAT] },
    { budget: '0.000000000000001' },
  ]) {
    const owner = await world.newCustomer(settings);
    await owner.embed(); // what a budget needs to be reached
    const plain = await outcomes(owner);
    for (const narrowed of [...inside, ...outside]) {
      const key = await keyOf(world, owner, narrowed);
      if (narrowed.models?.includes(EMBED) !== false) await key.embed();
      for (const [what, status] of await outcomes(key)) {
        const before = plain.get(what) as number;
        if (status === 200) allowed++;
        if (status === 200 && before !== 200)
          t.fail(`${JSON.stringify({ ...settings, ...narrowed })} ${what}`);
      }
    }
  }
  t.ok(allowed > 50, `${allowed} calls were allowed`);

  /** The status of each call; a model that is listed counts as 200. */
  async function outcomes(caller: Customer): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    for (const [name, call] of Object.entries(CALLS)) {
      if (name === 'stream') continue;
      for (const slug of [CHAT, EMBED, OVERSEAS, NOBODY])
        found.set(`${name} ${slug}`, (await call(caller, slug)).status);
    }
    return found;
  }
});
