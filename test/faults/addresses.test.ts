import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { CHILD_ENV, newFolder } from '../support/child.ts';
import { WAYS } from '../support/gateway.ts';
import { freePort } from '../support/port.ts';
import { until } from '../support/until.ts';
import { metric } from './gateway.ts';
import { unbooked } from './judge.ts';
import { type Journalled, startLoad } from './load.ts';
import { note } from './results.ts';
import { faultWorld, LONG } from './world.ts';

/** Two addresses of a router: what becomes of requests while one of them dies, freezes, refuses and comes back. */

const PROGRAM = fileURLToPath(new URL('router-program.ts', import.meta.url));
const REQUESTS = LONG ? 5000 : 0;
const STEP = LONG ? 100 : 40;
const HEALTHY = LONG ? 600 : 40;
const WORKERS = 16;

/** A process that stands for one address. Its journal outlives it. */
class Router {
  readonly #journal: string;
  #port = '';
  #child: ChildProcess | null = null;
  /** From when to when it closed connections, in milliseconds since the epoch: it was killed, or closed its listener. */
  readonly closings: { readonly from: number; readonly to: number }[] = [];
  deaths = 0;

  constructor(journal: string) {
    this.#journal = journal;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/v1`;
  }

  /** The ids of the requests that it read. */
  get ids(): string[] {
    return readFileSync(this.#journal, { encoding: 'utf8', flag: 'a+' }).split('\n').slice(0, -1);
  }

  /** Resolves once it listens. */
  async start(t: Test): Promise<void> {
    this.#port ||= `${await freePort()}`;
    const child = spawn(process.execPath, [PROGRAM, this.#journal, this.#port], {
      env: CHILD_ENV,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.teardown(() => child.kill('SIGKILL'));
    this.#child = child;
    await this.#line();
  }

  async kill(): Promise<void> {
    const from = Date.now();
    const gone = once(this.#child as ChildProcess, 'exit');
    this.signal('SIGKILL');
    await gone;
    this.deaths++;
    this.closings.push({ from, to: Date.now() });
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name);
  }

  /** Refuses connections, or takes them again. Resolves once it does. */
  async turn(): Promise<void> {
    const from = Date.now();
    const line = this.#line();
    this.signal('SIGUSR2');
    await line;
    this.closings.push({ from, to: Date.now() });
  }

  async #line(): Promise<void> {
    await once(this.#child?.stdout as NonNullable<ChildProcess['stdout']>, 'data');
  }
}

for (const FAST_HTTP of WAYS) {
  t.test(`one of two addresses fails in every way, FAST_HTTP=${FAST_HTTP}`, async (t) => {
    const folder = newFolder(t);
    const [a, b] = [new Router(join(folder, 'a')), new Router(join(folder, 'b'))];
    await Promise.all([a.start(t), b.start(t)]);
    const world = await faultWorld(t);
    const gateway = await world.gateway({ UPSTREAM_URL: `${a.url},${b.url}`, FAST_HTTP });
    const isUp = (address: number, up: boolean, what: string): Promise<unknown> =>
      until(
        () => metric(gateway, `tollgate_upstream_address_up\\{address="${address}"\\}`),
        `address ${address} ${what}`,
        (share) => share === Number(up),
      );
    const load = startLoad({
      urls: () => [gateway.url],
      key: world.key,
      workers: WORKERS,
      kinds: ['stream', 'plain'],
    });
    const serves = async (router: Router, what: string): Promise<void> => {
      const { length } = router.ids;
      await until(() => router.ids.length > length, `${what}: it gets requests again`);
      await load.more(HEALTHY, 'with both addresses');
    };
    let frozen = 0;
    /** When no address was there: from the first to the last instant. */
    const outages: { readonly from: number; readonly to: number }[] = [];

    const faults = {
      async killed() {
        await a.kill();
        await load.more(STEP, 'while an address is dead');
        await a.start(t);
        await serves(a, 'restarted');
      },
      async frozen() {
        a.signal('SIGSTOP');
        await isUp(1, false, 'is found frozen');
        const found = Date.now();
        await load.more(
          STEP,
          'while an address is frozen',
          ({ at, status }) => at > found && status === 200,
        );
        a.signal('SIGCONT');
        await isUp(1, true, 'is found thawed');
        frozen += load.journal.filter(({ at, endedAt }) => at <= found && endedAt > found).length;
        await serves(a, 'thawed');
      },
      async 'frozen, then killed'() {
        a.signal('SIGSTOP');
        await isUp(1, false, 'is found frozen');
        await a.kill();
        await load.more(STEP, 'after its death');
        await a.start(t);
        await serves(a, 'restarted');
      },
      async refusing() {
        await a.turn();
        await isUp(1, false, 'refuses');
        await load.more(STEP, 'while an address refuses');
        await a.turn();
        await serves(a, 'listening again');
      },
      async 'all down'() {
        const from = Date.now();
        await Promise.all([a.kill(), b.kill()]);
        await load.more(STEP, 'while no address is there', ({ status }) => status === 503);
        await b.start(t);
        outages.push({ from, to: Date.now() });
        await load.more(STEP, 'when one is back', ({ status }) => status === 200);
        await a.start(t);
        await serves(a, 'restarted');
      },
    };
    await load.more(STEP, 'with both addresses');
    do for (const fault of Object.values(faults)) await fault();
    while (load.journal.length < REQUESTS);
    const clients = await load.stop();
    gateway.signal('SIGTERM');
    t.equal(await gateway.exited, 0);

    const during = (
      spans: readonly { from: number; to: number }[],
      { at, endedAt }: Journalled,
    ): boolean => spans.some(({ from, to }) => at <= to && endedAt >= from);
    const failed = clients.filter(({ status, complete }) => status !== 200 || !complete);
    const unsent = failed.filter(({ status }) => status === 503);
    const lost = failed.filter(({ status }) => status !== 503);
    const servable = [
      ...unsent.filter((one) => !during(outages, one)),
      ...lost.filter((one) => !during([...a.closings, ...b.closings], one)),
    ];
    t.same(
      servable,
      [],
      'nothing failed that could have been served: all others were in flight at a process that closed connections',
    );
    t.ok(
      lost.every(({ status }) => status === 502 || status === 200),
      'what was sent is told as that',
    );
    const ids = [...a.ids, ...b.ids];
    const counts = new Map<string, number>();
    for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
    const twice = [...counts].filter(([, count]) => count > 1);
    t.same(twice, [], 'no request was read twice');
    const read = new Set(ids);
    t.same(
      clients.filter(({ status, requestId }) => status === 200 && !read.has(requestId as string)),
      [],
      'each answer is of a request that a router read',
    );
    t.same(
      unsent.filter(({ requestId }) => read.has(requestId as string)),
      [],
      'none of those that were told as not sent',
    );
    t.ok(unsent.every(({ retryAfter }) => retryAfter !== null));
    t.equal(await unbooked(world.sql, clients), 0, 'all answers are booked');
    const share = (router: Router): string => `${router.ids.length}`;
    t.comment(
      `${clients.length} requests, ${lost.length} lost, ${unsent.length} unsent, ${frozen} waited`,
    );
    note(
      'Of several addresses of a router, one may fail',
      `${a.deaths + b.deaths} deaths, FAST_HTTP=${FAST_HTTP}`,
      `${clients.length} requests, ${servable.length} failed that could have been served, ${twice.length} sent twice; ${lost.length} were in flight where connections were closed, ${unsent.length} got 503 while both were dead, ${frozen} waited for a frozen one; the two read ${share(a)} and ${share(b)}`,
    );
  });
}
