import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { GatewayProcess } from '../faults/gateway.ts';
import { type Load, startLoad } from '../faults/load.ts';
import { note } from '../faults/results.ts';
import { faultWorld, type Life, LONG } from '../faults/world.ts';
import { until } from '../support/until.ts';
import { haproxy, startBalancer } from './balancer.ts';

/** Limits over replicas (contract section 5); what the upstream saw is the truth. */

const PER_MINUTE = LONG ? 600 : 120;
const MINUTES = LONG ? 3 : 0.1;
const TIMES = LONG ? 5 : 20; // as many requests as the limit allows are sent
const AT_ONCE = 8;
const REPLICAS = LONG ? 4 : 2;
const KILLS = LONG ? 20 : 2;

/** One call at the upstream, in milliseconds since the epoch. */
interface Seen {
  readonly model: string;
  readonly at: number;
  endedAt: number;
}

/** An upstream that answers after some milliseconds and remembers when each call came and ended. */
async function watchingUpstream(life: Life): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer(async (req, res) => {
    const { model } = JSON.parse(String(Buffer.concat(await req.toArray()))) as { model: string };
    const one: Seen = { model, at: Date.now(), endedAt: Number.POSITIVE_INFINITY };
    seen.push(one);
    res.on('close', () => {
      one.endedAt = Date.now();
    });
    await sleep(Number(/takes-(\d+)/.exec(model)?.[1] ?? 0));
    const message = { role: 'assistant', content: 'Hello' };
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    res.setHeader('content-type', 'application/json');
    res.end(
      JSON.stringify({ id: 'x', object: 'chat.completion', created: 0, model, choices, usage }),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  life.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, seen };
}

/** Most calls in any minute, and how many a minute on the mean. */
function perMinute(calls: readonly Seen[]): { most: number; mean: number } {
  const times = calls.map(({ at }) => at);
  let most = 0;
  for (let first = 0, last = 0; last < times.length; last++) {
    while ((times[last] as number) - (times[first] as number) >= 60_000) first++;
    most = Math.max(most, last - first + 1);
  }
  const minutes = (Date.now() - (times[0] as number)) / 60_000;
  return { most, mean: Math.round(times.length / Math.max(1, minutes)) };
}

/** Most calls that were open at one instant. */
function mostAtOnce(calls: readonly Seen[]): number {
  const turns = calls.flatMap(({ at, endedAt }) => [
    [at, 1],
    [endedAt, -1],
  ]) as [number, number][];
  // of one millisecond, what ended counts first
  turns.sort(([at, up], [otherAt, otherUp]) => at - otherAt || up - otherUp);
  let open = 0;
  let most = 0;
  for (const [, up] of turns) {
    open += up;
    most = Math.max(most, open);
  }
  return most;
}

const world = await faultWorld(t);
const upstream = await watchingUpstream(t);
await world.model('quick', 'takes-1');
await world.model('slow', 'takes-80');
await world.model('other', 'takes-2');
const start = () => world.gateway({ UPSTREAM_URL: upstream.url });
const gateways = await Promise.all(Array.from({ length: REPLICAS }, start));

async function limited(limits: string): Promise<string> {
  const { company, key } = await world.newCompany();
  await world.sql.unsafe(`update companies set ${limits} where id = '${company}'`);
  return key;
}

const seenOf = (model: string) => upstream.seen.filter((one) => one.model === model);

/** Many times the limit for some minutes. */
async function overload(urls: readonly string[], key: string, chatModel: string): Promise<Load> {
  const workers = 10;
  const restMs = (60_000 * workers) / (TIMES * PER_MINUTE);
  const load = startLoad({ urls: () => urls, key, workers, kinds: ['plain'], chatModel, restMs });
  await load.more(Math.ceil(TIMES * PER_MINUTE * MINUTES), 'of many times the limit');
  await until(() => load.journal.some(({ status }) => status === 429), 'the limit is reached');
  await load.stop();
  return load;
}

t.test(
  'replicas behind HAProxy under many times the limit of requests',
  { skip: haproxy === null && 'no haproxy here' },
  async (t) => {
    const { journal } = await overload(
      [await startBalancer(t, gateways)],
      await limited(`requests_per_minute = ${PER_MINUTE}`),
      'quick',
    );
    t.same([...new Set(journal.map(({ status }) => status))].sort(), [200, 429]);
    t.ok(
      journal
        .filter(({ status }) => status === 429)
        .every(({ retryAfter }) => Number(retryAfter) >= 1),
    );
    const { most, mean } = perMinute(seenOf('takes-1'));
    t.ok(most <= PER_MINUTE * 1.05, `${most} in a minute`);
    t.ok(mean >= PER_MINUTE * 0.9, `${mean} a minute on the mean`);
    note(
      'A limit holds over all replicas',
      `${PER_MINUTE} requests a minute, ${REPLICAS} replicas behind HAProxy, ${TIMES} times as many sent for ${MINUTES} minutes`,
      `in any minute at most ${most}, on the mean ${mean}`,
    );
  },
);

t.test('one replica that gets all the traffic may use the whole limit', async (t) => {
  await overload(
    [(gateways[0] as GatewayProcess).url],
    await limited(`requests_per_minute = ${PER_MINUTE}`),
    'other',
  );
  const { most, mean } = perMinute(seenOf('takes-2'));
  t.ok(most <= PER_MINUTE * 1.05, `${most} in a minute`);
  t.ok(mean >= PER_MINUTE * 0.9, `${mean} a minute on the mean`);
  note(
    'A limit holds over all replicas',
    'the same, all of it to one of them',
    `in any minute at most ${most}, on the mean ${mean}`,
  );
});

t.test('calls at once, while replicas are killed and started again', async (t) => {
  const key = await limited(`max_concurrent = ${AT_ONCE}`);
  const load = startLoad({
    urls: () => gateways.map(({ url }) => url),
    key,
    workers: LONG ? 32 : 16,
    kinds: ['plain'],
    chatModel: 'slow',
    restMs: LONG ? 10 : 25, // a refusal takes no time
  });
  for (let n = 0; n < KILLS; n++) {
    await load.more(60, 'before the kill', ({ status }) => status === 200);
    const killed = n % gateways.length;
    gateways[killed]?.signal('SIGKILL');
    await gateways[killed]?.exited;
    gateways[killed] = await start();
  }
  await load.more(100, 'after the last start', ({ status }) => status === 200);
  await load.stop();
  const most = mostAtOnce(seenOf('takes-80'));
  t.ok(most <= AT_ONCE, `${most} at once`);
  t.equal(most, AT_ONCE, 'all slots were used');
  const statuses = [...new Set(load.journal.map(({ status }) => status))].sort((a, b) => a - b);
  t.same(
    statuses.filter((status) => status !== 0),
    [200, 429],
    'besides those of replicas that were killed',
  );
  note(
    'A limit holds over all replicas',
    `${AT_ONCE} calls at once, ${REPLICAS} replicas, ${KILLS} of them killed under load`,
    `at most ${most} at any instant`,
  );
});
