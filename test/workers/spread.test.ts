import t from 'tap';
import { Spread } from '../../src/workers/spread.ts';

class Counter {
  readonly taken: number[] = [];
  closed = 0;
  get load(): number {
    return this.taken.length - this.closed;
  }
  give(connection: number): void {
    this.taken.push(connection);
  }
}

function offer(spread: Spread<number>, count: number): void {
  for (let n = 0; n < count; n++) spread.offer(n);
}

t.test('connections are spread evenly, and takers that have as many take turns', async (t) => {
  const spread = new Spread<number>();
  const takers = [new Counter(), new Counter(), new Counter()];
  for (const taker of takers) spread.add(taker);
  offer(spread, 6);
  t.same(
    takers.map(({ taken }) => taken),
    [
      [0, 3],
      [1, 4],
      [2, 5],
    ],
  );
});

t.test(
  'a replaced taker gets as many as the others have, and those of the one that left',
  async (t) => {
    const spread = new Spread<number>();
    const [old, other, fresh] = [new Counter(), new Counter(), new Counter()];
    spread.add(old);
    spread.add(other);
    offer(spread, 100);
    spread.add(fresh);
    spread.remove(old);
    offer(spread, 50); // the clients of the old one come again
    t.same([old.load, other.load, fresh.load], [50, 50, 50]);
  },
);

t.test('a taker whose connections end gets more', async (t) => {
  const spread = new Spread<number>();
  const [quick, slow] = [new Counter(), new Counter()];
  spread.add(quick);
  spread.add(slow);
  for (let n = 0; n < 100; n++) {
    spread.offer(n);
    quick.closed = quick.taken.length;
  }
  t.ok(quick.taken.length > 90, `${quick.taken.length} of 100`);
});

t.test('connections wait while there is no taker', async (t) => {
  const spread = new Spread<number>();
  offer(spread, 3);
  t.equal(spread.waiting, 3);
  const taker = new Counter();
  spread.add(taker);
  t.same([taker.taken, spread.waiting, spread.takers], [[0, 1, 2], 0, 1]);
  spread.remove(taker);
  spread.offer(3);
  t.same(spread.clear(), [3]);
  t.equal(spread.waiting, 0);
});
