import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { connect } from 'node:net';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Allowance } from '../../../src/admin/process/allowance.ts';
import { PagesProcess, PagesUnavailable } from '../../../src/admin/process/pages-process.ts';
import { until } from '../../support/until.ts';
import { MASTER_KEY } from '../../support/upstream.ts';
import { type Person, signedIn, startOffice, startOwnOffice } from '../people.ts';

/** The pages have a process of their own: what happens in it or to it, no request of the API feels. */

const FIELDS = 520_000; // of a form of 1 MB
process.env.OWN_PAGES = '1'; // before a gateway starts it

const office = await startOffice(t, { DATABASE_CONNECTIONS: '6' });

/** Processes of pages that a process started. */
function pagesOf(parent: number): number[] {
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat=,args='], {
    encoding: 'utf8',
  }).split('\n');
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(
      ([, ppid, stat, ...args]) =>
        Number(ppid) === parent && !stat?.startsWith('Z') && /pages-main/.test(args.join(' ')),
    )
    .map(([pid]) => Number(pid));
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Sends a form without waiting for a slot of the rate limit. */
function post(person: Person, path: string, body: string): Promise<Response> {
  const cookie = [...person.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const headers = {
    cookie,
    origin: person.base,
    'content-type': 'application/x-www-form-urlencoded',
  };
  return fetch(person.base + path, { method: 'POST', redirect: 'manual', headers, body });
}

t.test('a gateway without visitors has no process of pages; its visitors share one', async (t) => {
  for (const path of ['/livez', '/readyz', '/metrics'])
    t.equal((await fetch(office.adminUrl + path)).status, 200);
  t.same(pagesOf(process.pid), []);
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => fetch(`${office.adminUrl}/sign-in`)),
  );
  for (const { status } of answers) t.equal(status, 200);
  t.equal(pagesOf(process.pid).length, 1);
});

t.test('while the pages stand still, the API, health and metrics go on', async (t) => {
  const owner = await signedIn(office, 'owner');
  const csrf = await owner.csrf();
  const [pages] = pagesOf(process.pid) as [number];
  const done: string[] = [];
  process.kill(pages, 'SIGSTOP');
  t.teardown(() => isRunning(pages) && process.kill(pages, 'SIGCONT'));
  const base = `/companies/${office.customer.company}`;
  const waiting = [
    owner.get(`${base}/keys`).then(({ status }) => done.push(`page ${status}`)),
    owner.signIn(office.people.owner, 'wrong').then(({ status }) => done.push(`sign-in ${status}`)),
    post(owner, `${base}/assistants/new`, `csrf=${csrf}${'&a'.repeat(FIELDS)}`).then(
      ({ status }) => {
        done.push(`form ${status}`);
      },
    ),
  ];
  for (let i = 0; i < 50; i++) {
    t.equal((await office.customer.chat()).status, 200);
    for (const path of ['/livez', '/readyz', '/metrics'])
      t.equal((await fetch(office.adminUrl + path)).status, 200);
  }
  t.same(done, [], '200 requests were answered before any page');
  process.kill(pages, 'SIGCONT');
  await Promise.all(waiting);
  t.same(done.sort(), ['form 413', 'page 200', 'sign-in 401']);
});

t.test('with few database connections exports leave one to the pages', async (t) => {
  const ledger = `/companies/${office.customer.company}/ledger.csv`;
  const [operator, owner] = [await signedIn(office, 'operator'), await signedIn(office, 'owner')];
  let exports: ReturnType<typeof owner.get>[] = [];
  await office.sql.begin(async (sql) => {
    await sql`lock table api_usage in access exclusive mode`; // the exports wait for it
    exports = [operator.get(ledger), owner.get(ledger)];
    await until(
      () =>
        office.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      'an export waits',
      ({ length }) => length > 0,
    );
    t.equal((await operator.get('/companies')).status, 200);
    const preview = await operator.get(`/companies/${office.customer.company}/statements/month`);
    t.match([preview.status, preview.text], [503, /The database did not answer in time/]);
  });
  t.same((await Promise.all(exports)).map(({ status }) => status).sort(), [200, 503]);
});

t.test('forms of many fields, long forms and bodies without an end are refused', async (t) => {
  const owner = await signedIn(office, 'owner');
  const csrf = await owner.csrf();
  const base = `/companies/${office.customer.company}`;
  const fields = `csrf=${csrf}${'&a'.repeat(FIELDS)}`;
  for (const path of [`${base}/settings`, `${base}/assistants/new`, '/sign-in']) {
    t.equal((await post(owner, path, fields)).status, 413, path);
  }
  t.equal(
    (await post(owner, `${base}/settings`, `csrf=${csrf}&budget=${'1'.repeat(16_384)}`)).status,
    413,
  );
  t.equal(
    (await post(owner, `${base}/assistants/new`, `csrf=${csrf}&name=${'x'.repeat(1 << 20)}`))
      .status,
    413,
  );
  const prompt = 'Long. '.repeat(100_000);
  const form = { name: 'Long', system_prompt: prompt, visibility: 'company' };
  t.equal(
    (await owner.post(`${base}/assistants/new`, form)).status,
    303,
    'a prompt of 600 kB is stored',
  );
  const endless = new ReadableStream({
    pull: (controller) => controller.enqueue(Buffer.alloc(65_536, 'a')),
  });
  const headers = { origin: office.adminUrl, 'content-type': 'application/x-www-form-urlencoded' };
  const init = { method: 'POST', body: endless, duplex: 'half', headers } as const;
  const refused = await fetch(`${office.adminUrl}/sign-in`, init).then(
    ({ status }) => status,
    () => 413, // the client still wrote when the connection was closed
  );
  t.equal(refused, 413);
  t.equal((await owner.get('/account')).status, 200);
});

t.test('after a crash it is started again, with pauses that double', async (t) => {
  const ask = () => fetch(`${office.adminUrl}/sign-in`);
  for (const pause of [500, 1000]) {
    await until(async () => (await ask()).status === 200, 'a page');
    const [pages] = pagesOf(process.pid) as [number];
    process.kill(pages, 'SIGSTOP');
    const interrupted = ask();
    process.kill(pages, 'SIGKILL');
    t.ok([502, 503].includes((await interrupted).status));
    await until(
      () => office.logged.some((line) => JSON.parse(line).pause_ms === pause),
      `a pause of ${pause} ms`,
    );
    const { status, headers } = await ask();
    t.equal(status, 503);
    t.ok(Number(headers.get('retry-after')) >= 1);
    t.equal((await office.customer.chat()).status, 200);
  }
  await until(async () => (await ask()).status === 200, 'a page');
});

/** One that connects to no database. */
function processOfPages(
  t: Test,
  restMs?: number,
  startMs?: number,
): { pages: PagesProcess; logged: string[] } {
  const logged: string[] = [];
  const log = pino({ level: 'info' }, { write: (line) => void logged.push(line) });
  const settings = {
    secret: 'a secret',
    databaseUrlFile: null,
    databaseUrl: 'postgres://127.0.0.1:1/none',
    databaseConnections: 1,
    billingTimezone: 'UTC',
    logLevel: 'info',
    requestTrailDays: 7,
    upstreamCurrency: 'USD',
    upstreamRate: null,
    keyPrefix: 'svc_',
    ownedBy: 'tollgate',
    router: { urls: ['http://127.0.0.1:1/v1'], apiKey: null, headers: {}, isDemo: false },
    publicUrl: 'http://127.0.0.1:1/v1',
    apiUrl: 'http://127.0.0.1:1/v1',
    apiSocket: null,
    adminUrl: null,
    isSecure: false,
    oidc: null,
    secondFactor: { keys: [], required: null },
    mail: null,
    brand: {
      name: 'Tollgate',
      color: null,
      logo: null,
      style: null,
      support: null,
      imprint: null,
      privacy: null,
      seller: null,
    },
  };
  const pages = new PagesProcess(settings, log, restMs, startMs);
  t.teardown(() => pages.close());
  return { pages, logged };
}

t.test('it ends after a rest, and starts again', async (t) => {
  const { pages, logged } = processOfPages(t, 50);
  for (let i = 0; i < 2; i++) {
    const before = pagesOf(process.pid);
    const { port } = await pages.address();
    const headers = { 'x-tollgate-client': 'a secret 127.0.0.1' };
    const page = await fetch(`http://127.0.0.1:${port}/sign-in`, { headers }).catch(() => null);
    t.ok(page === null || page.status === 200, 'it may rest already');
    await until(() => pagesOf(process.pid).every((pid) => before.includes(pid)), 'its end');
  }
  t.same(logged, [], 'which is no crash');
});

const prlimit = (...args: string[]) =>
  spawnSync('prlimit', [`--pid=${process.pid}`, ...args], { encoding: 'utf8' }).stdout?.trim();

/** Calls a function while this process can open no file. */
function withoutFiles<T>(work: () => T): T {
  const limit = prlimit('--nofile', '--output=SOFT', '--noheadings');
  const opened = [openSync('/dev/null', 'r')];
  prlimit(`--nofile=${(opened[0] as number) + 64}:`);
  try {
    for (;;) opened.push(openSync('/dev/null', 'r'));
  } catch {
    return work();
  } finally {
    for (const file of opened) closeSync(file);
    prlimit(`--nofile=${limit}:`);
  }
}

function withoutNode<T>(work: () => T): T {
  const { execPath } = process;
  process.execPath = '/nonexistent/node';
  try {
    return work();
  } finally {
    process.execPath = execPath;
  }
}

t.test('one that is slow to start goes on, and requests are answered meanwhile', async (t) => {
  const { pages, logged } = processOfPages(t, undefined, 20);
  const ask = () => pages.address().catch((error: unknown) => error);
  t.type(await ask(), PagesUnavailable);
  const started = pagesOf(process.pid);
  await until(ask, 'it is up', (found) => !(found instanceof Error));
  t.same(pagesOf(process.pid), started, 'the same process');
  t.match(logged[0], /"msg":"admin: the process of the pages is slow to start; it goes on"/);
  t.notMatch(logged.join('\n'), /ended unexpectedly/);
  await pages.close();
});

t.test('one that cannot be started is tried again, with pauses', async (t) => {
  const { pages, logged } = processOfPages(t);
  const start = () => pages.address().catch((error: unknown) => error);
  const hasPrlimit = process.platform === 'linux' && prlimit('--version');
  t.type(await (hasPrlimit ? withoutFiles(start) : withoutNode(start)), PagesUnavailable);
  t.match(logged[0], hasPrlimit ? /EMFILE.*"pause_ms":500/ : /ENOENT.*"pause_ms":500/);
  await until(
    () => withoutNode(start),
    'the next try',
    () => logged.length > 1,
  );
  t.match(logged[1], /ENOENT.*"pause_ms":1000/);
  await until(start, 'one that can be started', (found) => !(found instanceof Error));
});

t.test('it answers nobody but its gateway', async (t) => {
  const { pages } = processOfPages(t);
  const { port } = await pages.address();
  for (const secret of ['', 'a wrong secret', 'a', 'b secret']) {
    const headers = { 'x-tollgate-client': `${secret} 127.0.0.1` };
    await t.rejects(fetch(`http://127.0.0.1:${port}/sign-in`, { headers }), secret);
  }
  await pages.close();
  await t.rejects(pages.address(), PagesUnavailable);
});

t.test('it ends with its gateway: SIGTERM while it stands still, and kill -9', async (t) => {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const env = {
      ...process.env,
      PORT: '0',
      ADMIN_PORT: '0',
      DATABASE_URL: office.databaseUrl,
      SPOOL_DIR: '',
      LOG_LEVEL: 'error',
      UPSTREAM_URL: office.upstream.url,
      UPSTREAM_API_KEY: MASTER_KEY,
      DRAIN_SECONDS: '0',
    };
    const gateway = spawn(process.execPath, ['src/main.ts', 'serve', '--json'], {
      env,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    t.teardown(() => gateway.kill('SIGKILL'));
    const [printed] = await once(gateway.stdout, 'data');
    const { admin_url } = JSON.parse(String(printed));
    t.equal((await fetch(`${admin_url}/sign-in`)).status, 200);
    const [pages] = pagesOf(gateway.pid as number) as [number];
    if (signal === 'SIGTERM') process.kill(pages, 'SIGSTOP');
    gateway.kill(signal);
    const [code] = await once(gateway, 'exit');
    t.equal(code, signal === 'SIGTERM' ? 0 : null);
    await until(() => !isRunning(pages), `its end after ${signal}`);
  }
});

t.test('a stranger from the same address takes nothing from a session', async (t) => {
  const office = await startOwnOffice(t);
  const owner = await signedIn(office, 'owner');
  const cookie = `tollgate=${owner.cookies.get('tollgate')}`;
  const ask = (headers: Record<string, string>) =>
    fetch(`${office.adminUrl}/account`, { redirect: 'manual', headers });
  const counts = new Map<number, number>();
  const strangers: Promise<unknown>[] = [];
  for (let i = 0; i < 20; i++) {
    for (let j = 0; j < 20; j++) {
      const madeUp =
        i % 2 === 0 ? {} : { cookie: `tollgate=${String(i * 20 + j).padStart(43, 'x')}` };
      strangers.push(
        ask(madeUp).then(({ status }) => counts.set(status, (counts.get(status) ?? 0) + 1)),
      );
    }
    t.equal((await ask({ cookie })).status, 200);
  }
  await Promise.all(strangers);
  t.ok((counts.get(503) ?? 0) > 100, 'most of the strangers are refused');
  t.ok((counts.get(303) ?? 0) >= 16, 'and some sent to sign in');
});

t.test('an allowance is filled again with time, for each address and session alone', async (t) => {
  let now = 0;
  const allowance = new Allowance(() => now);
  const taken = (address: string, session: string | null) => {
    let count = 0;
    for (
      let release = allowance.take(address, session);
      release !== null;
      release = allowance.take(address, session)
    ) {
      count++;
      release();
    }
    return count;
  };
  t.equal(taken('a', null), 100);
  t.equal(taken('a', 'made up'), 0);
  t.equal(taken('b', null), 100);
  allowance.admit('one');
  t.equal(taken('a', 'one'), 100);
  allowance.admit('one');
  t.equal(taken('a', 'one'), 0, 'it is admitted once');
  now += 1000;
  t.equal(taken('a', null), 20);
  t.equal(taken('a', 'one'), 20);
  now -= 5000;
  t.equal(taken('a', null), 0, 'a clock that is set back');
  const open = Array.from({ length: 17 }, () => allowance.take('c', null));
  t.same(
    open.map((release) => release !== null),
    [...Array(16).fill(true), false],
    'so many at once',
  );
  open[0]?.();
  t.ok(allowance.take('c', null));
});

/** Sends a form as HTTP/1.0, as nginx does unless told otherwise. @returns how the connection ends, after the first bytes */
async function endOfPlainAnswer(person: Person, path: string, fields: Record<string, string>) {
  const body = new URLSearchParams({ csrf: await person.csrf(), ...fields }).toString();
  const cookie = [...person.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const { hostname, port, host } = new URL(person.base);
  const socket = connect(Number(port), hostname);
  const head = [
    `POST ${path} HTTP/1.0`,
    `host: ${host}`,
    `cookie: ${cookie}`,
    `origin: ${person.base}`,
    'content-type: application/x-www-form-urlencoded',
    `content-length: ${body.length}`,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  await once(socket, 'data');
  const ended = new Promise<string>((resolve) => {
    socket.on('end', () => resolve('as a whole answer'));
    socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(String(code)));
  });
  socket.resume();
  return () => ended;
}

t.test('an answer that breaks off does not end like a whole one, in HTTP/1.0 either', async (t) => {
  await office.part(office.customer, 'stalling', 'internal-demo-chat!stall-after-3');
  const owner = await signedIn(office, 'owner');
  const trial = `/companies/${office.customer.company}/playground/stream`;
  const ending = await endOfPlainAnswer(owner, trial, { model: 'stalling', prompt: 'Hello' });
  process.kill(pagesOf(process.pid)[0] as number, 'SIGKILL');
  t.equal(await ending(), 'ECONNRESET');
});
