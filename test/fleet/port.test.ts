import t from 'tap';
import { startLoad } from '../faults/load.ts';
import { freePort } from '../faults/pooler.ts';
import { faultWorld, until } from '../faults/world.ts';

t.setTimeout(60_000);

t.test('several processes on one port', { skip: process.platform !== 'linux' && 'Linux only' }, async (t) => {
  const world = await faultWorld(t);
  const PORT = String(await freePort());
  const env = { PORT, REUSE_PORT: 'on' };
  const [first, second] = await Promise.all([world.gateway(env), world.gateway(env)]);
  t.equal(first.url, second.url);
  const writers = async (since: Date): Promise<number> =>
    (await world.sql`select distinct writer from ledger_seals where sealed_at > ${since}`).length;

  const load = startLoad({ urls: () => [first.url], key: world.key, workers: 24, kinds: ['plain'], restMs: 20 });
  t.ok(await until(async () => (await writers(new Date(0))) === 2), 'both serve');
  first.signal('SIGTERM');
  t.equal(await first.exited, 0);
  const stopped = Date.now();
  await until(() => load.journal.filter(({ at }) => at > stopped).length > 50);
  const journal = await load.stop();
  t.same(
    journal.filter(({ at, status }) => at > stopped && status !== 200),
    [],
    'where one stops, the other goes on',
  );
  // the kernel resets connections it had handed to the one that stopped, before it had taken them
  const failed = journal.filter(({ status }) => status !== 200);
  t.same(
    failed.filter(({ status, error }) => status !== 0 || error !== 'read ECONNRESET'),
    [],
    `${failed.length} of ${journal.length} met one that was just closing`,
  );

  const third = await world.gateway(env);
  t.equal(third.url, second.url, 'a process can join while another serves');
  await t.rejects(world.gateway({ PORT }), { message: /EADDRINUSE/ }, 'one that does not share cannot');
});
