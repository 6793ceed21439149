import { setImmediate as tick } from 'node:timers/promises';
import t from 'tap';
import { Busy, Semaphore } from '../../../src/admin/process/semaphore.ts';
import { attemptThrottles, changeThrottle, Throttle } from '../../../src/admin/process/throttle.ts';

/** Limits of sign-in attempts. */

t.test('a throttle closes after its failures and opens when the window ends', async (t) => {
  let now = 1_000_000;
  const throttle = new Throttle({ most: 2, windowMs: 60_000 }, () => now);
  t.equal(throttle.closedFor('a'), 0);
  throttle.attempt('a');
  throttle.attempt('a');
  t.equal(throttle.closedFor('a'), 60);
  t.equal(throttle.closedFor('b'), 0, 'others are not concerned');
  now += 59_001;
  t.equal(throttle.closedFor('a'), 1);
  now += 999;
  t.equal(throttle.closedFor('a'), 0);
  throttle.attempt('a');
  t.equal(throttle.closedFor('a'), 0, 'a new window counts from one');
});

t.test('a clock that is set back keeps nobody out for longer than a window', async (t) => {
  let now = 1_000_000_000;
  const throttle = new Throttle({ most: 1, windowMs: 60_000 }, () => now);
  throttle.attempt('a');
  t.equal(throttle.closedFor('a'), 60);
  now -= 86_400_000;
  t.equal(throttle.closedFor('a'), 0);
  throttle.attempt('a');
  t.equal(throttle.closedFor('a'), 60);
});

t.test('a success is no failure', async (t) => {
  const throttle = new Throttle({ most: 1, windowMs: 60_000 }, () => 0);
  for (let i = 0; i < 5; i++) {
    t.equal(throttle.closedFor('a'), 0);
    throttle.attempt('a');
    throttle.forgive('a');
  }
});

t.test(
  'a stranger who has a whole block of IPv6 networks locks nobody out elsewhere',
  async (t) => {
    const attempts = attemptThrottles(() => 0);
    const guess = (address: string): number => {
      const attempt = attempts(address, 'olga@tollgate.example');
      const seconds = attempt.closedFor();
      if (seconds === 0) attempt.count();
      return seconds;
    };
    let guesses = 0;
    for (let i = 0; i < 200; i++) if (guess(`2001:db8:7:${i.toString(16)}`) === 0) guesses++;
    t.equal(guesses, 30);
    t.equal(guess('2001:db8:8:1'), 0);
    for (let i = 0; i < 60; i++)
      t.equal(guess(`::ffff:198.51.100.${i}`), 0, 'addresses of IPv4 have no block');
  },
);

t.test('small changes count too, for an hour, and what is kept of them', async (t) => {
  let now = 0;
  const limit = changeThrottle(() => now);
  let changes = 0;
  for (; limit.begin('a', 100) === 0; changes++) limit.end('a', 100, 2148);
  t.equal(changes, Math.ceil(2 ** 25 / 2148));
  t.equal(limit.begin('a', 0), 3600);
  t.equal(limit.begin('b', 0), 0);
  limit.end('b', 0, 2 ** 25);
  t.equal(limit.begin('b', 0), 3600);
  t.equal(limit.begin(null, 2 ** 30), 0);
  limit.end(null, 0, 2 ** 30);
  t.equal(limit.begin(null, 0), 0, 'an operator');
  now += 3_600_000;
  t.equal(limit.begin('a', 0), 0);
});

t.test('a member is limited alone, to less, and takes nothing from the company', async (t) => {
  const limit = changeThrottle(() => 0);
  let changes = 0;
  for (; limit.begin('a', 100, 'mila') === 0; changes++) limit.end('a', 100, 2148, 'mila');
  t.equal(changes, Math.ceil(2 ** 20 / 2148));
  t.equal(limit.begin('a', 2 ** 25 - 4096), 0, 'its owners have all of theirs');
  t.equal(limit.begin('a', 0, 'mona'), 0);
  limit.end('a', 0, 2 ** 20, 'mona');
  t.equal(limit.begin('a', 0, 'mona'), 3600);
});

t.test(
  'a semaphore runs so many tasks, queues so many more in order, and refuses the rest',
  async (t) => {
    const semaphore = new Semaphore({ permits: 1, queue: 2 });
    const gates = [0, 1, 2].map(() => Promise.withResolvers<void>());
    const begun: number[] = [];
    const runs = gates.map(({ promise }, i) =>
      semaphore.run(`${i}`, async () => {
        begun.push(i);
        await promise;
      }),
    );
    await t.rejects(
      semaphore.run('who', async () => t.fail('never run')),
      Busy,
    );
    t.same(begun, [0]);
    gates[0]?.resolve();
    await runs[0];
    await tick();
    t.same(begun, [0, 1]);
    gates[1]?.reject(new Error('broke'));
    await t.rejects(runs[1] as Promise<void>, /broke/, 'a failure gives the permit back');
    await tick();
    t.same(begun, [0, 1, 2]);
    gates[2]?.resolve();
    await runs[2];
    t.equal(await semaphore.run('who', async () => 'free again'), 'free again');
  },
);

t.test(
  'one company gets half of the permits and of the queue, the next one half of the rest, and so on',
  async (t) => {
    const semaphore = new Semaphore({ permits: 4, queue: 4 });
    const releases = [await semaphore.acquire('greedy'), await semaphore.acquire('greedy')];
    const begun: string[] = [];
    const wait = (who: string) =>
      semaphore.acquire(who).then((release) => [begun.push(who), releases.push(release)]);
    const waiting = [wait('greedy'), wait('greedy')];
    await t.rejects(semaphore.acquire('greedy'), Busy, 'its part of the queue is full');
    await Promise.all([wait('one'), wait('other')]);
    t.same(begun, ['one', 'other'], 'the others do not wait behind it');
    releases.pop()?.();
    await tick();
    t.same(begun, ['one', 'other'], 'what others leave is not for it while it has its part');
    releases.shift()?.();
    releases.shift()?.();
    await Promise.all(waiting);
    for (const release of releases) release();
    const exports = new Semaphore({ permits: 3, queue: 0 });
    await exports.acquire('greedy');
    await exports.acquire('greedy');
    await t.rejects(exports.acquire('greedy'), Busy);
    await exports.acquire('other');
    const trials = new Semaphore({ permits: 16, queue: 0 });
    for (const [who, share] of Object.entries({ a: 8, b: 4, c: 2, d: 1, e: 1 })) {
      for (let held = 0; held < share; held++) await trials.acquire(who);
      await t.rejects(trials.acquire(who), Busy, `${who} has ${share}`);
    }
  },
);

t.test(
  'whoever waits with fewest tasks is next, and many who wait leave a place to another',
  async (t) => {
    const semaphore = new Semaphore({ permits: 1, queue: 16 });
    const begun: string[] = [];
    const refused = new Map<string, number>();
    const gate = Promise.withResolvers<void>();
    const ask = (who: string) =>
      semaphore
        .run(who, async () => {
          begun.push(who);
          await gate.promise;
        })
        .catch(() => refused.set(who, (refused.get(who) ?? 0) + 1));
    const asked = ['a', 'b', 'c'].flatMap((who) => Array.from({ length: 20 }, () => ask(who)));
    asked.push(ask('late'));
    gate.resolve();
    await Promise.all(asked);
    t.same(
      Object.fromEntries(refused),
      { a: 11, b: 16, c: 18 },
      'each may fill half of what is free',
    );
    t.same(begun.slice(0, 2), ['a', 'late']);
    t.equal(begun.length, 1 + 8 + 4 + 2 + 1);
    t.same(begun.slice(2, 6), ['c', 'c', 'b', 'b']);
  },
);
