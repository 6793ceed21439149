import t from 'tap';
import { judge } from './judge.ts';
import { startLoad } from './load.ts';
import { note } from './results.ts';
import { faultWorld, LONG } from './world.ts';

const STOPS = LONG ? 20 : 3;
t.setTimeout(LONG ? 600_000 : 60_000);

t.test('SIGTERM under load loses nothing and cuts nothing', async (t) => {
  const world = await faultWorld(t);
  const journal = [];
  for (let n = 0; n < STOPS; n++) {
    const gateway = await world.gateway();
    const load = startLoad({ urls: () => [gateway.url], key: world.key, workers: 16 });
    await load.more(20 + Math.floor(Math.random() * 60), 'before the stop');
    gateway.signal('SIGTERM');
    t.equal(await gateway.exited, 0, 'exit code');
    t.same(world.spoolFiles(), [], 'the spool is empty');
    journal.push(...(await load.stop()));
  }
  const cut = journal.filter(({ status, complete }) => status === 200 && !complete);
  const verdict = await judge(world.sql, journal, world.upstreamJournal());
  t.ok(verdict.complete > STOPS * 20, `${verdict.complete} answers were complete`);
  t.same(cut, [], 'every answer that began was finished');
  t.same(verdict.missing, []);
  t.equal(verdict.duplicates, 0);
  t.same(verdict.wrong, []);
  t.equal(verdict.unverified, 0);
  note(
    2,
    'Stop loses nothing',
    `SIGTERM under load, ${STOPS} times`,
    `${verdict.complete} complete answers, ${verdict.missing.length} missing, ${cut.length} cut, exit 0 and an empty spool each time`,
  );
});
