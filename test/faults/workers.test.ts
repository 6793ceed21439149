import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { WAYS } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { type GatewayProcess, metric } from './gateway.ts';
import { judge, unbooked } from './judge.ts';
import { type Journalled, type Load, startLoad } from './load.ts';
import { note } from './results.ts';
import { type FaultWorld, faultWorld, LONG } from './world.ts';

/** `serve --workers N`: one of its processes is killed, all are replaced or stopped, under load. */

const KILLS = LONG ? 20 : 2; // of each worker once at least
const REPLACEMENTS = LONG ? 20 : 2; // of workers that were themselves replacements, at least once

const BOOKED = { missing: [], duplicates: 0, wrong: [], unverified: 0 };
const ok = ({ status }: Journalled): boolean => status === 200;
const failed = (journal: readonly Journalled[]) =>
  journal.filter(({ status, complete }) => status !== 200 || !complete);

/** The processes of the workers, from their command lines. */
function workersOf({ pid }: GatewayProcess): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  return children
    .filter((child) => child !== '' && /worker-main/.test(commandOf(child)))
    .map(Number);
}

/** Empty: it has ended. */
function commandOf(pid: string | number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

const skip = process.platform !== 'linux' && 'reads /proc';

const prlimit = spawnSync('prlimit', ['--version']).status === 0;

/** Resolves once a metric of a gateway has a value. */
const shows = (gateway: GatewayProcess, name: string, value: number) =>
  until(
    () => metric(gateway, name),
    `${name} is ${value}`,
    (now) => now === value,
  );

const ended = (pids: readonly number[]) =>
  until(() => pids.map(commandOf).join('') === '', 'the workers have ended');

const twoWorkers = (world: FaultWorld, env = {}) =>
  world.gateway({ WORKERS: '2', LOG_LEVEL: 'info', ...env });

t.test('two workers that run through all of this', { skip }, async (t) => {
  const world = await faultWorld(t);
  const gateway = await twoWorkers(world);
  const strict = await world.newCompany({ budget: '0.5', mode: 'strict' });
  const all: Journalled[] = [];

  await t.test('budgets and limits hold over all workers', async (t) => {
    const limited = await world.newCompany();
    await world.sql`update companies set requests_per_minute = 40 where id = ${limited.company}`;
    await world.model('after-the-limit', 'internal-chat');
    await world.served(gateway, 'after-the-limit');
    const asking = (key: string, workers: number, more: object) =>
      startLoad({ urls: () => [gateway.url], key, workers, kinds: ['plain'], restMs: 5, more });
    const budget = asking(strict.key, 8, { max_tokens: 50 });
    const limit = asking(limited.key, 8, {});
    await budget.more(20, 'the budget is used up', ({ status }) => status === 402);
    await limit.more(20, 'the limit is reached', ({ status }) => status === 429);
    const [, limitJournal] = await Promise.all([budget.stop(), limit.stop()]);
    const served = limitJournal.filter(ok).length;
    t.ok(served <= 40 && served > 30, `${served} of 40 requests`);
    const perWorker = await Promise.all(
      [1, 2].map((worker) =>
        metric(
          gateway,
          `tollgate_worker_requests_total\\{worker="${worker}",endpoint="chat.completions",status="200"\\}`,
        ),
      ),
    );
    t.ok(
      perWorker.every((count) => count > 0),
      'by both workers',
    );
    const all = await metric(
      gateway,
      'tollgate_requests_total\\{endpoint="chat.completions",status="200"\\}',
    );
    t.equal(all, (perWorker[0] as number) + (perWorker[1] as number), 'the sum is that of both');
  });

  await t.test('a worker whose event loop does not turn shows in /livez', async (t) => {
    const livez = async () => {
      const answer = await fetch(`${gateway.adminUrl}/livez`);
      return `${answer.status} ${await answer.text()}`;
    };
    t.equal(await livez(), '200 ok\n');
    const [, second] = workersOf(gateway) as [number, number];
    process.kill(second, 'SIGSTOP');
    await until(livez, 'it is seen', (answer) =>
      /^503 worker [12] does not answer\n$/.test(answer),
    );
    process.kill(second, 'SIGCONT');
    await until(livez, 'it is well again', (answer) => answer === '200 ok\n');
  });

  const name = 'a worker without free descriptors is given connections again later';
  await t.test(name, { skip: !prlimit && 'no prlimit' }, async (t) => {
    const workers = workersOf(gateway);
    const limit = (pid: number, files: number) =>
      spawnSync('prlimit', [`--pid=${pid}`, `--nofile=${files}:`]).status;
    for (const pid of workers) t.equal(limit(pid, 1), 0);
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
      .on('error', () => {})
      .resume();
    await new Promise((resolve) => socket.on('close', resolve)); // its connection could not be received
    for (const pid of workers) limit(pid, 4096);
    const served = () =>
      Promise.all(
        [1, 2].map((worker) =>
          metric(gateway, `tollgate_worker_added_seconds_count\\{worker="${worker}"\\}`),
        ),
      );
    const before = await served();
    const load = startLoad({
      urls: () => [gateway.url],
      key: world.key,
      workers: 4,
      kinds: ['plain'],
    });
    await load.more(40, 'after that', ok);
    const clients = await load.stop();
    t.same(failed(clients), []);
    for (const [n, count] of (await served()).entries())
      t.ok(count > (before[n] as number), `by worker ${n + 1}`);
  });

  await t.test(
    'workers that are killed are replaced, and a sibling books what they left',
    async (t) => {
      const load = startLoad({ urls: () => [gateway.url], key: world.key, workers: 16 });
      for (let n = 1; n <= KILLS; n++) {
        await load.more(20 + Math.floor(Math.random() * 80), 'before the kill', ok);
        process.kill(workersOf(gateway)[n % 2] as number, 'SIGKILL');
        await shows(gateway, 'tollgate_worker_restarts_total', n);
        await shows(gateway, 'tollgate_workers', 2); // take connections
      }
      await load.more(50, 'after the last kill', ok);
      const clients = await load.stop();
      // records of the dead are booked while the others run
      await until(async () => (await unbooked(world.sql, clients)) === 0, 'all is booked');
      await until(() => readdirSync(world.spoolDir).length <= 2, 'the spools of the dead are gone');
      const verdict = await judge(world.sql, clients, world.upstreamJournal());
      t.match(verdict, BOOKED);
      t.ok(verdict.complete > KILLS * 20, `${verdict.complete} answers were complete`);
      note(
        'What the client saw complete is in the ledger once',
        `kill -9 of one of two workers under load, ${KILLS} times`,
        `${verdict.complete} complete answers, ${verdict.missing.length} missing, ${verdict.duplicates} duplicates, ${verdict.unverified} differences between rows, counters and seals`,
      );
    },
  );

  const full =
    'a supervisor without free descriptors keeps its workers, and replaces one that died later';
  await t.test(full, { skip: !prlimit && 'no prlimit' }, async (t) => {
    const limit = (files: number) =>
      spawnSync('prlimit', [`--pid=${gateway.pid}`, `--nofile=${files}:`]).status;
    const logged = (text: string) => until(() => gateway.log.join('').includes(text), text);
    t.equal(limit(1), 0);
    gateway.signal('SIGHUP');
    await logged('a worker was not replaced');
    process.kill(workersOf(gateway)[0] as number, 'SIGKILL');
    await logged('a worker cannot start');
    t.equal(limit(4096), 0);
    await shows(gateway, 'tollgate_workers', 2);
  });

  await t.test('SIGHUP replaces them and breaks no request', async (t) => {
    all.push(...(await replaceAll(t, world, gateway, REPLACEMENTS, 'on')));
  });

  await t.test(
    'a second SIGTERM ends all processes at once, and nothing that was booked is lost',
    async (t) => {
      await world.model('endless', 'internal-chat!events-9000!pace-100');
      await world.served(gateway, 'endless');
      const load = streams(gateway, world, 'endless', 4);
      await shows(gateway, 'tollgate_open_streams', 4);
      const workers = workersOf(gateway);
      const stopped = load.stop();
      gateway.signal('SIGTERM');
      await until(() => gateway.log.join('').includes('draining'), 'it drains');
      gateway.signal('SIGTERM');
      t.equal(await gateway.exited, 1);
      await ended(workers);
      await stopped;
      const next = await world.gateway();
      next.signal('SIGTERM');
      t.equal(await next.exited, 0, 'the next start books what they left');
      t.match(await judge(world.sql, all, world.upstreamJournal()), BOOKED);
    },
  );

  const [{ spent = '' } = {}] = await world.sql<{ spent: string }[]>`
    select api_cost_eur::text as spent from monthly_spend where company_id = ${strict.company}`;
  t.ok(Number(spent) > 0 && Number(spent) <= 0.5, `${spent} of 0.5 EUR`);
});

t.test(
  'without the fast path SIGHUP breaks no request either, and signals to all let them finish',
  { skip: skip || (!WAYS.includes('off') && 'the fast path alone is tried') },
  async (t) => {
    const world = await faultWorld(t);
    const gateway = await twoWorkers(world, { FAST_HTTP: 'off' });
    const clients = [...(await replaceAll(t, world, gateway, 1, 'off'))];
    const { stopped, workers } = await streaming(world, gateway);
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'])
      for (const pid of workers) process.kill(pid, signal);
    gateway.signal('SIGTERM');
    t.equal(await gateway.exited, 0);
    const streamed = await stopped;
    t.same(failed(streamed), []);
    t.match(await judge(world.sql, [...clients, ...streamed], world.upstreamJournal()), BOOKED);
    t.same(world.spoolFiles(), []);
  },
);

t.test('without their supervisor workers finish their requests and end', { skip }, async (t) => {
  const world = await faultWorld(t);
  const gateway = await twoWorkers(world);
  const { stopped, workers } = await streaming(world, gateway);
  gateway.signal('SIGKILL');
  const clients = await stopped;
  await ended(workers);
  t.same(failed(clients), []);
  t.match(await judge(world.sql, clients, world.upstreamJournal()), BOOKED);
  t.same(world.spoolFiles(), []);
});

/** Replaces both workers again and again under load. @returns the journal of the load */
async function replaceAll(
  t: Test,
  world: FaultWorld,
  gateway: GatewayProcess,
  rounds: number,
  fastHttp: string,
) {
  const replaced = () => gateway.log.join('').split('all workers were replaced').length - 1;
  const before = workersOf(gateway);
  const load = startLoad({ urls: () => [gateway.url], key: world.key, workers: 16 });
  await load.more(50, 'before the first round', ok);
  for (let round = 1; round <= rounds; round++) {
    gateway.signal('SIGHUP');
    await until(() => replaced() === round, `round ${round} of replacements`);
  }
  await load.more(50, 'after the last round', ok);
  const clients = await load.stop();
  t.same(failed(clients), [], `${clients.length} requests`);
  const after = workersOf(gateway);
  t.equal(after.length, 2);
  t.notOk(
    after.some((pid) => before.includes(pid)),
    'by other processes',
  );
  note(
    'Workers are replaced without a trace',
    `${rounds} times both of two workers replaced by SIGHUP under load, FAST_HTTP=${fastHttp}`,
    `${clients.length} requests, 0 failed, refused or reset`,
  );
  return clients;
}

/** Eight open streams, each of a second or more, that will be the last. */
async function streaming(world: FaultWorld, gateway: GatewayProcess) {
  await world.model('long', 'internal-chat!events-60!pace-20');
  await world.served(gateway, 'long');
  const load = streams(gateway, world, 'long', 8);
  await shows(gateway, 'tollgate_open_streams', 8);
  return { stopped: load.stop(), workers: workersOf(gateway) };
}

function streams(
  gateway: GatewayProcess,
  world: FaultWorld,
  chatModel: string,
  workers: number,
): Load {
  return startLoad({
    urls: () => [gateway.url],
    key: world.key,
    workers,
    kinds: ['stream'],
    chatModel,
  });
}
