import t, { type Test } from 'tap';
import { Overload } from '../../src/gateway/overload.ts';

const LIMITS = { maxRequests: 100, maxDelayMs: 200, maxMemoryBytes: 1000 };

function start(t: Test): Overload {
  const overload = new Overload(LIMITS);
  t.teardown(() => overload.close());
  return overload;
}

/** How many of a hundred requests get in, one after the other. */
function entering(overload: Overload): number {
  let entered = 0;
  for (let n = 0; n < 100; n++) {
    if (!overload.enter()) continue;
    overload.leave();
    entered++;
  }
  return entered;
}

t.test('so many at once and no more', async (t) => {
  const overload = start(t);
  for (let n = 0; n < 100; n++) t.ok(overload.enter());
  t.notOk(overload.enter());
  overload.leave();
  t.ok(overload.enter());
  t.match(overload, { inFlight: 100, refused: 1 });
});

t.test('too much memory in use refuses all until it is free', async (t) => {
  const overload = start(t);
  overload.observe(0, 1001, 0);
  t.equal(entering(overload), 0);
  overload.observe(0, 999, 0);
  t.equal(entering(overload), 100);
  overload.observe(0, 0, 0.95);
  t.equal(entering(overload), 0, 'the heap as well');
});

t.test('a long event-loop delay refuses more and more, a short one lets all in again within 5 s', async (t) => {
  const overload = start(t);
  overload.observe(300, 0, 0);
  t.equal(entering(overload), 100, 'one pause is no overload');
  const shares: number[] = [];
  for (let n = 0; n < 30; n++) {
    overload.observe(500, 0, 0);
    shares.push(entering(overload));
  }
  t.same(
    shares,
    shares.toSorted((a, b) => b - a),
    'step by step',
  );
  t.ok((shares.at(-1) as number) < 10);
  t.ok((shares.at(-1) as number) > 0, 'some always get in');
  let samples = 0;
  while (entering(overload) < 100) {
    overload.observe(1, 0, 0);
    samples++;
  }
  t.ok(samples <= 50, `${samples} samples of 100 ms`);
});
