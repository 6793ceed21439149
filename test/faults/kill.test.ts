import t from 'tap';
import { judge } from './judge.ts';
import { type Journalled, startLoad } from './load.ts';
import { note } from './results.ts';
import { countAll, faultWorld, LONG } from './world.ts';

const KILLS = LONG ? 50 : 3;

t.test(
  'what the client saw complete is in the ledger once, whenever the process is killed',
  async (t) => {
    const world = await faultWorld(t);
    await countAll(world);
    let gateway = await world.gateway();
    const load = startLoad({ urls: () => [gateway.url], key: world.key, workers: 16 });
    for (let n = 0; n < KILLS; n++) {
      await load.more(
        20 + Math.floor(Math.random() * 80),
        'before the kill',
        ({ status }) => status === 200,
      );
      gateway.signal('SIGKILL');
      t.equal(await gateway.exited, null);
      gateway = await world.gateway();
    }
    await load.more(50, 'after the last restart', ({ status }) => status === 200);
    const clients: Journalled[] = await load.stop();
    gateway.signal('SIGTERM');
    t.equal(await gateway.exited, 0);

    const verdict = await judge(world.sql, clients, world.upstreamJournal());
    t.ok(verdict.complete > KILLS * 20, `${verdict.complete} answers were complete`);
    t.same(verdict.missing, [], 'no complete answer is missing');
    t.equal(verdict.duplicates, 0, 'none is there twice');
    t.same(verdict.wrong, [], 'rows say what the upstream said, at the price of their rate');
    t.ok(verdict.prices >= 4, `${verdict.prices} prices: the base price and rates`);
    t.equal(verdict.unverified, 0, 'counters and seals agree with the rows');
    t.same(world.spoolFiles(), [], 'the spool is empty');
    note(
      'What the client saw complete is in the ledger once',
      `kill -9 at a random instant under load, ${KILLS} times`,
      `${verdict.complete} complete answers, ${verdict.missing.length} missing, ${verdict.duplicates} duplicates, ${verdict.unverified} differences between rows, counters and seals`,
    );
  },
);
