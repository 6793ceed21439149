import t from 'tap';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { holds, privateServer } from '../../support/postgres.ts';
import { startProxy } from '../../support/proxy.ts';
import { until } from '../../support/until.ts';

const MS = 60_000;

t.test('LISTEN is resumed after every loss of its connection', async (t) => {
  const server = await privateServer(t);
  const proxy = await startProxy(t, server.url);
  const db = openDatabase({ url: server.url });
  const far = openDatabase({ url: proxy.url });
  t.teardown(() => Promise.all([db.close(), far.close()]));
  const events: string[] = [];
  let wake = () => {};
  const note = (event: string) => {
    events.push(event);
    wake();
  };
  const seen = async (count: number) => {
    while (events.length < count) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return events.splice(0);
  };
  const listening = far.listen('odd "name"', {
    onNotice: (payload) => note(payload),
    onReady: () => note('ready'),
    onLost: () => note('lost'),
  });
  const notify = (payload: string) =>
    db.run(MS, (sql) => sql`select pg_notify('odd "name"', ${payload})`);
  t.same(await seen(1), ['ready']);
  await notify('first');
  await notify('second');
  t.same(await seen(2), ['first', 'second']);
  await db.run(
    MS,
    (sql) =>
      sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity where query like 'listen%'`,
  );
  t.same(await seen(2), ['lost', 'ready'], 'its backend was terminated');
  await notify('third');
  t.same(await seen(1), ['third']);
  await proxy.cut();
  t.same(await seen(1), ['lost'], 'the server cannot be reached');
  await proxy.restore();
  t.same(await seen(1), ['ready']);
  await notify('fourth');
  t.same(await seen(1), ['fourth']);
  proxy.freeze();
  t.same(await seen(1), ['lost'], 'nothing moves: the heartbeat notices');
  await proxy.restore();
  t.same(await seen(1), ['ready']);
  listening.close();
  const gone = `not exists (select from pg_stat_activity where query like 'listen%')`;
  await until(() => holds(db, gone), 'the server ends the listening connection');
  await notify('fifth');
  t.same(events, [], 'closed: nothing more is heard');
});
