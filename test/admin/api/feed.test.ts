import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { CHILD_ENV, newFolder } from '../../support/child.ts';
import { addUsage } from '../../support/usage.ts';
import { startOwnOffice } from '../people.ts';
import { newToken } from './tokens.ts';

/** The feed over HTTP, and the programs in .deploy/feed with the libraries that they import. */

const office = await startOwnOffice(t);
const company = office.customer.company;
const readsAll = await newToken(office, { name: 'billing', access: 'read' });
// of this month: Stripe takes no older ones
const today = new Date().toISOString();
const calls = Array.from({ length: 240 }, (_, n) => ({
  company,
  request: randomUUID(),
  month: `${today.slice(0, 7)}-01`,
  at: today,
  prompt: n,
  input: '0.1',
}));
await addUsage(office.sql as never, calls);
const ids = calls.map(({ request }) => request).sort();

async function newCompany(name: string): Promise<string> {
  const [row] = await office.sql<[{ id: string }]>`
    insert into companies (name) values (${name}) returning id`;
  return row.id;
}

async function feed(query = '', token = readsAll) {
  const answer = await fetch(`${office.adminUrl}/api/v1/usage-feed${query}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  const body = await answer.text();
  const lines = answer.status === 200 ? body.split('\n').slice(0, -1) : [];
  return {
    status: answer.status,
    type: answer.headers.get('content-type'),
    body,
    rows: lines.map((line) => JSON.parse(line)),
  };
}

t.test(
  'calls of all companies as lines of JSON, behind a cursor, for operators’ tokens alone',
  async (t) => {
    const all = await feed();
    t.match(all, { status: 200, type: 'application/x-ndjson' });
    t.same(all.rows.map(({ request_id }) => request_id).sort(), ids);
    t.notMatch(all.body, /upstream_model|internal/);
    const first = await feed('?limit=100');
    t.equal(first.rows.length, 100);
    const rest = await feed(`?after=${first.rows.at(-1).cursor}`);
    t.same([...first.rows, ...rest.rows], all.rows);
    t.match(await feed(`?after=${rest.rows.at(-1).cursor}`), { status: 200, body: '' });
    for (const [query, pointer] of [
      ['?after=x', '?after'],
      ['?after=1-1-1-00000000', '?after'],
      ['?limit=0', '?limit'],
      ['?limit=10001', '?limit'],
      ['?cursor=1', '?cursor'],
    ] as const) {
      const refused = await feed(query);
      t.equal(refused.status, 400, query);
      t.match(JSON.parse(refused.body).errors, [{ pointer }]);
    }
    t.equal(
      (await feed('', await newToken(office, { name: 'theirs', company_id: company }))).status,
      403,
    );
    t.equal((await feed('', 'none')).status, 401);
  },
);

interface Receiver {
  readonly environment: string;
  /** The ids in the body of a request. */
  idsIn(body: string): string[];
  /** The answer where one is known already; null: it is dropped without a word. */
  readonly refusal: { readonly status: number; body(id: string): object } | null;
}

const parsed = (body: string) => JSON.parse(body);
const RECEIVERS: Readonly<Record<string, Receiver>> = {
  lago: {
    environment: 'LAGO',
    idsIn: (body) => [parsed(body).event.transaction_id],
    refusal: {
      status: 422,
      body: () => ({
        status: 422,
        error: 'Unprocessable Entity',
        code: 'validation_errors',
        error_details: { transaction_id: ['value_already_exist'] },
      }),
    },
  },
  openmeter: {
    environment: 'OPENMETER',
    idsIn: (body) => parsed(body).map(({ id }: { id: string }) => id),
    refusal: null,
  },
  stripe: {
    environment: 'STRIPE',
    idsIn: (body) => [new URLSearchParams(body).get('identifier') as string],
    refusal: {
      status: 400,
      body: (id) => ({
        error: {
          type: 'invalid_request_error',
          message: `An event already exists with identifier ${id}.`,
        },
      }),
    },
  },
};

/** Takes events once, and calls `onCall` before it answers each request. */
async function startReceiver(
  t: Test,
  { idsIn, refusal }: Receiver,
  onCall: (accepted: number) => void,
) {
  const accepted: string[] = [];
  let again = 0;
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const told = idsIn(await text(request));
    const known = told.filter((id) => accepted.includes(id));
    again += known.length;
    accepted.push(...told.filter((id) => !known.includes(id)));
    onCall(accepted.length);
    response.setHeader('content-type', 'application/json');
    if (refusal !== null && known.length > 0)
      response.writeHead(refusal.status).end(JSON.stringify(refusal.body(known[0] as string)));
    else response.end(JSON.stringify({ event: {} }));
  };
  const server = createServer((request, response) => void answer(request, response)).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  t.teardown(() => server.close());
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    accepted,
    again: () => again,
  };
}

const PROGRAMS = new URL('../../../.deploy/feed/', import.meta.url);

/** A folder with the programs of the manual. @param environment of the receiver's variables, such as "STRIPE" */
function newPrograms(t: Test, environment: string, receiverUrl: string) {
  const folder = newFolder(t);
  symlinkSync(
    fileURLToPath(new URL('../../../node_modules', import.meta.url)),
    `${folder}/node_modules`,
  );
  cpSync(PROGRAMS, folder, { recursive: true });
  const start = (...args: string[]) => {
    const child = spawn(process.execPath, args, {
      cwd: folder,
      env: {
        ...CHILD_ENV,
        TOLLGATE_URL: office.adminUrl,
        TOLLGATE_TOKEN: readsAll,
        [`${environment}_URL`]: receiverUrl,
        [`${environment}_KEY`]: 'sk_test',
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = (async () => {
      const said = text(child.stderr);
      const [code, signal] = await once(child, 'exit');
      return { code, signal, said: await said };
    })();
    return { ended, kill: () => void child.kill('SIGKILL') };
  };
  return { folder, start };
}

for (const [name, receiver] of Object.entries(RECEIVERS)) {
  t.test(`the program for ${name}, killed in the middle, brings each call once`, async (t) => {
    let kill = (): void => {};
    let kills = 0;
    const stub = await startReceiver(t, receiver, (accepted) => {
      if (accepted < 90 + 60 * kills || kills === 2) return;
      kills++;
      kill();
    });
    const { folder, start } = newPrograms(t, receiver.environment, stub.url);
    writeFileSync(`${folder}/customers.json`, JSON.stringify({ [company]: 'cus_1' }));
    const run = () => {
      const program = start(`${name}.mjs`);
      kill = program.kill;
      return program.ended;
    };
    t.match(await run(), { signal: 'SIGKILL' });
    t.match(await run(), { signal: 'SIGKILL' });
    t.same(await run(), { code: 0, signal: null, said: '' });
    t.same([...stub.accepted].sort(), ids);
    t.ok(stub.again() > 0, `${stub.again()} calls came again and were refused`);
    t.same(await run(), { code: 0, signal: null, said: '' }, 'then there is nothing to do');
    t.equal(stub.accepted.length, ids.length);
  });
}

t.test('what Stripe refuses for one company bills another one once, on any day', async (t) => {
  const [gone, unlisted] = [await newCompany('Gone'), await newCompany('Unlisted')];
  const of = (company: string) =>
    Array.from({ length: 30 }, () => ({ ...calls[0], company, request: randomUUID(), prompt: 1 }));
  const [goneCalls, unlistedCalls] = [of(gone), of(unlisted)];
  await addUsage(
    office.sql as never,
    goneCalls.flatMap((each, n) => [each, unlistedCalls[n] as typeof each]),
  );
  const billed = new Map<string, string[]>();
  let known = new Set<string>(); // identifiers of a day
  let deleted: string | null = 'cus_gone';
  let failsAt = Number.POSITIVE_INFINITY; // the call of the first company from which on Stripe fails
  const server = createServer(async (request, response) => {
    const form = new URLSearchParams(await text(request));
    const [id, customer] = ['identifier', 'payload[stripe_customer_id]'].map((name) =>
      form.get(name),
    ) as [string, string];
    const refuse = (status: number, type: string, message: string) =>
      response.writeHead(status).end(JSON.stringify({ error: { type, message } }));
    response.setHeader('content-type', 'application/json');
    if (customer === deleted)
      return refuse(404, 'invalid_request_error', `No such customer: '${customer}'`);
    if (customer === 'cus_1' && (billed.get(customer)?.length ?? 0) >= failsAt)
      return refuse(500, 'api_error', 'An unknown error occurred');
    if (known.has(id))
      return refuse(400, 'invalid_request_error', `An event already exists with identifier ${id}.`);
    known.add(id);
    billed.set(customer, [...(billed.get(customer) ?? []), id]);
    response.end(JSON.stringify({ object: 'billing.meter_event' }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { folder, start } = newPrograms(t, 'STRIPE', url);
  const customers = { [company]: 'cus_1', [gone]: 'cus_gone' };
  writeFileSync(`${folder}/customers.json`, JSON.stringify(customers));
  const nextDay = (...args: string[]) => {
    known = new Set();
    return start('stripe.mjs', ...args).ended;
  };
  const refused = (file: string) =>
    readFileSync(`${folder}/${file}`, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { request_id: string; refusal: string });
  const idsOf = (rows: readonly { request: string }[]) => rows.map(({ request }) => request).sort();

  failsAt = 17;
  t.match(await nextDay(), { code: 1, said: /An unknown error occurred/ });
  t.match(await nextDay(), { code: 1 });
  failsAt = Number.POSITIVE_INFINITY;
  t.match(await nextDay(), { code: 0, said: /No such customer.*\n/ });
  t.same(await nextDay(), { code: 0, signal: null, said: '' });
  t.same([...billed.keys()], ['cus_1']);
  t.same(billed.get('cus_1')?.sort(), ids, 'each call once, whatever day it is');
  const reasons = Map.groupBy(refused('refused.ndjson'), ({ refusal }) => refusal);
  t.same(
    [...reasons].map(([reason, rows]) => [reason, rows.map((row) => row.request_id).sort()]).sort(),
    [
      ["No such customer: 'cus_gone'", idsOf(goneCalls)],
      ['customers.json has no such company', idsOf(unlistedCalls)],
    ],
  );

  deleted = null;
  const complete = { ...customers, [unlisted]: 'cus_unlisted' };
  writeFileSync(`${folder}/customers.json`, JSON.stringify(complete));
  renameSync(`${folder}/refused.ndjson`, `${folder}/again.ndjson`);
  t.same(await nextDay('again.ndjson'), { code: 0, signal: null, said: '' });
  t.same(billed.get('cus_gone')?.sort(), idsOf(goneCalls));
  t.same(billed.get('cus_unlisted')?.sort(), idsOf(unlistedCalls));
  t.equal(billed.get('cus_1')?.length, ids.length);
});
