import t from 'tap';
import { judge } from '../faults/judge.ts';
import { startLoad } from '../faults/load.ts';
import { faultWorld } from '../faults/world.ts';
import { WAYS } from '../support/gateway.ts';
import { freePort } from '../support/port.ts';
import { until } from '../support/until.ts';

for (const FAST_HTTP of WAYS) {
  const name = `several processes serve one port, join and leave, FAST_HTTP=${FAST_HTTP}`;
  t.test(name, { skip: process.platform !== 'linux' && 'Linux only' }, async (t) => {
    const world = await faultWorld(t);
    const PORT = String(await freePort());
    const env = { PORT, REUSE_PORT: 'on', FAST_HTTP };
    const [first, second] = await Promise.all([world.gateway(env), world.gateway(env)]);
    t.equal(first.url, second.url);
    const writers = async (since: Date): Promise<number> =>
      (await world.sql`select distinct writer from ledger_seals where sealed_at > ${since}`).length;

    const load = startLoad({ urls: () => [first.url], key: world.key, workers: 24, restMs: 20 });
    await until(async () => (await writers(new Date(0))) === 2, 'both processes book calls');
    first.signal('SIGTERM');
    t.equal(await first.exited, 0);
    const stopped = Date.now();
    await load.more(50, 'after the stop', ({ at }) => at > stopped);
    const journal = await load.stop();
    t.same(
      journal.filter(({ at, status, complete }) => at > stopped && !(status === 200 && complete)),
      [],
      'when one stops, the other serves on',
    );
    // the kernel resets connections that waited for the stopped process to accept them
    const failed = journal.filter(({ status, complete }) => status !== 200 || !complete);
    t.same(
      failed.filter(({ status, error }) => status !== 0 || error !== 'read ECONNRESET'),
      [],
      `${failed.length} of ${journal.length} requests met the process that was closing`,
    );

    const third = await world.gateway({ ...env, FAST_HTTP: 'on' });
    t.equal(third.url, second.url, 'a process can join while another serves');
    await t.rejects(
      world.gateway({ PORT }),
      { message: /EADDRINUSE/ },
      'one that does not share cannot',
    );
    for (const gateway of [second, third]) gateway.signal('SIGTERM');
    t.same(await Promise.all([second.exited, third.exited]), [0, 0]);
    const booked = { missing: [], duplicates: 0, wrong: [], unverified: 0 };
    t.match(await judge(world.sql, journal, world.upstreamJournal()), booked);
  });
}
