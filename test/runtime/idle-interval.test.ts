import { once } from 'node:events';
import t from 'tap';
import { Overload } from '../../src/gateway/request/overload.ts';
import { IdleInterval } from '../../src/runtime/idle-interval.ts';
import { until } from '../support/until.ts';

t.test('it ticks from being woken until ten ticks in a row found nothing to do', async (t) => {
  let ticks = 0;
  let rests = 0;
  let busy = true;
  const ticker = new IdleInterval(
    1,
    () => {
      ticks++;
      return busy;
    },
    () => rests++,
  );
  t.teardown(() => ticker.rest());
  t.ok(ticker.resting, 'not before');
  ticker.wake();
  ticker.wake();
  t.notOk(ticker.resting);
  await until(() => ticks >= 30, '30 ticks');
  t.notOk(ticker.resting, 'busy all the while');
  busy = false;
  const before = ticks;
  await until(() => ticker.resting, 'it rests');
  t.equal(ticks - before, 10);
  let others = 0;
  const other = new IdleInterval(1, () => ++others > 0);
  other.wake();
  await until(() => others >= 20, '20 ticks of another');
  other.rest();
  t.equal(ticks - before, 10, 'none at rest');
  ticker.wake();
  await until(() => ticker.resting, 'it rests');
  t.equal(ticks - before, 20, 'and again');
  t.equal(rests, 2);
  ticker.rest();
  t.equal(rests, 2, 'it rests once');
});

t.test('it keeps no process alive', async (t) => {
  const code = `
    const { IdleInterval } = await import(${JSON.stringify(new URL('../../src/runtime/idle-interval.ts', import.meta.url).href)});
    new IdleInterval(10, () => true).wake();
  `;
  const { spawn } = await import('node:child_process');
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: 'inherit' });
  t.same(await once(child, 'exit'), [0, null]);
});

t.test('a gateway that was overloaded goes on sampling until all may enter again', async (t) => {
  const overload = new Overload({
    maxRequests: 10,
    maxDelayMs: 200,
    maxMemoryBytes: Number.POSITIVE_INFINITY,
  });
  t.teardown(() => overload.close());
  const enters = (): boolean => {
    const load = overload.enter('one');
    if (load !== null) overload.leave(load);
    return load !== null;
  };
  for (let sample = 0; sample < 10; sample++) {
    for (let n = 0; n < 1000; n++) enters();
    overload.observe(1000, 0, 0);
  }
  const mayEnter = (): boolean => {
    for (let n = 0; n < 1000; n++) if (!enters()) return false;
    return true;
  };
  t.notOk(mayEnter());
  t.ok(await until(mayEnter, 'all may enter'), 'by its own samples');
});
