import t from 'tap';
import { Deadlines } from '../../src/gateway/deadlines.ts';
import type { ClientResponse } from '../../src/http/exchange.ts';
import type { Deadline } from '../../src/upstream/failure.ts';

const LIMITS = { connectMs: 1000, firstByteMs: 5000, idleMs: 2000, totalMs: 60_000, stallMs: 3000 };
const TICK = 100;

/** A watch under a clock that this test turns. */
function start() {
  const deadlines = new Deadlines(LIMITS);
  const res = { writableLength: 0, destroyed: 0, destroy: () => void res.destroyed++ };
  const told: Deadline[] = [];
  const watch = deadlines.watch(res as unknown as ClientResponse, (deadline) => told.push(deadline));
  deadlines.close(); // no timer of its own
  let now = 0;
  deadlines.check(now);
  return {
    watch,
    res,
    told,
    pass(ms: number, each = () => {}) {
      for (const end = now + ms; now < end; ) {
        now += TICK;
        each();
        deadlines.check(now);
      }
    },
  };
}

t.test('connecting has its own deadline, told once', async (t) => {
  const { told, pass } = start();
  pass(900);
  t.same(told, []);
  pass(5000);
  t.same(told, ['connect']);
});

t.test('the first byte is awaited from the beginning, whatever goes on', async (t) => {
  const { watch, told, pass } = start();
  pass(500);
  watch.sent();
  pass(4400);
  t.same(told, []);
  pass(100);
  t.same(told, ['first_byte']);
});

t.test('silence counts from the last that was heard', async (t) => {
  const { watch, told, pass } = start();
  watch.sent();
  watch.answered();
  pass(1900);
  watch.active = true;
  pass(2000);
  t.same(told, []);
  pass(200);
  t.same(told, ['idle']);
});

t.test('while the client holds the upstream back its silence does not count', async (t) => {
  const { watch, told, pass } = start();
  watch.sent();
  watch.answered();
  watch.paused = true;
  pass(30_000);
  t.same(told, []);
  watch.paused = false;
  pass(2100);
  t.same(told, ['idle']);
});

t.test('an answer that goes on for ever ends', async (t) => {
  const { watch, told, pass } = start();
  watch.sent();
  watch.answered();
  pass(70_000, () => {
    watch.active = true;
  });
  t.same(told, ['total']);
});

t.test('once settled nothing is told', async (t) => {
  const { watch, told, pass } = start();
  watch.settled();
  pass(100_000);
  t.same(told, []);
});

t.test('a client that takes nothing is cut, one that takes a little is not', async (t) => {
  const slow = start();
  slow.watch.settled();
  slow.res.writableLength = 1_000_000;
  slow.pass(20_000, () => {
    slow.res.writableLength--;
  });
  t.equal(slow.res.destroyed, 0);
  const stalled = start();
  stalled.watch.settled();
  stalled.res.writableLength = 1_000_000;
  stalled.pass(3000);
  t.equal(stalled.res.destroyed, 0);
  stalled.pass(20_000);
  t.equal(stalled.res.destroyed, 1);
});

t.test('more that waits for a client is no progress of his', async (t) => {
  const { watch, res, pass } = start();
  watch.sent();
  watch.answered();
  pass(10_000, () => {
    res.writableLength++;
    watch.active = true;
  });
  t.equal(res.destroyed, 1);
});

t.test('so many answers are awaited though their clients left, and no more', async (t) => {
  const deadlines = new Deadlines(LIMITS);
  deadlines.close();
  const watch = () => deadlines.watch({ writableLength: 0 } as ClientResponse, () => {});
  const abandoned = Array.from({ length: 1000 }, watch);
  t.ok(abandoned.every((each, n) => each.abandon(n < 500 ? 'one' : 'two')));
  t.notOk(watch().abandon('three'));
  abandoned[17]?.close();
  t.notOk(watch().abandon('two'), 'a company has half of them at most');
  t.ok(watch().abandon('three'), 'one has come');
  t.notOk(watch().abandon('three'));
});

t.test('an answer awaited though its client left has the deadlines of all', async (t) => {
  const { watch, told, pass } = start();
  watch.sent();
  t.ok(watch.abandon('one'));
  pass(6000);
  t.same(told, ['first_byte']);
});
