import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { Company } from '../../src/domain/company.ts';
import type { GatewayError } from '../../src/domain/errors.ts';
import type { ApiKey } from '../../src/domain/key.ts';
import type { Limits } from '../../src/domain/limits.ts';
import type { Hold, LimitStore } from '../../src/domain/ports.ts';
import { LeasedLimiter } from '../../src/limits/limiter.ts';
import { limitStore } from '../../src/store/gateway/limits.ts';
import { note } from '../faults/results.ts';
import { LONG } from '../faults/world.ts';
import { testDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';

const { db } = await testDatabase(t);
const real = limitStore(db);
const log = pino({ level: 'silent' });
const KEYS = LONG ? 100_000 : 2000;
const AT_ONCE = 500;

const NONE: Limits = { requestsPerMinute: null, tokensPerMinute: null, maxConcurrent: null };

/** Gateways that share limits, over a database that can be taken away. */
function fleet(t: Test, size: number) {
  const network = { isCut: false, statements: 0, trims: 0 };
  const store: LimitStore = {
    lease(...asked) {
      network.statements++;
      return network.isCut ? Promise.reject(new Error('away')) : real.lease(...asked);
    },
    trim() {
      network.trims++;
      return real.trim();
    },
  };
  const limiters = Array.from({ length: size }, () => new LeasedLimiter(store, randomUUID(), log));
  t.teardown(() => Promise.all(limiters.map((limiter) => limiter.close())));
  return { network, limiters };
}

/** A key without limits of its own, and its company. */
function limited(limits: Partial<Limits>): [ApiKey, Company] {
  const id = randomUUID();
  const key = { id: randomUUID(), companyId: id, limits: null } as unknown as ApiKey;
  return [key, { id, limits: { ...NONE, ...limits } } as Company];
}

/** Sets the clock of the gateways forward, in milliseconds. */
function clock(t: Test): (ms: number) => void {
  const { now } = performance;
  let ahead = 0;
  performance.now = () => now.call(performance) + ahead;
  t.teardown(() => {
    performance.now = now;
  });
  return (ms) => {
    ahead += ms;
  };
}

/** Units of a company that count. */
async function counted([, { id }]: [ApiKey, Company]): Promise<number> {
  const [row] = await db.run(
    5000,
    (sql) => sql<[{ units: number }]>`
      select coalesce(sum(u), 0)::integer as units from limit_windows, unnest(units) as u where subject = ${id}`,
  );
  return row.units;
}

/** Requests one after the other, round and round. @returns what the admitted ones hold */
async function requests(
  limiters: readonly LeasedLimiter[],
  [key, company]: [ApiKey, Company],
  count: number,
) {
  const holds: Hold[] = [];
  const refusals: GatewayError[] = [];
  for (let n = 0; n < count; n++) {
    const limiter = limiters[n % limiters.length] as LeasedLimiter;
    try {
      holds.push((await limiter.enter(key, company)) as Hold);
    } catch (error) {
      refusals.push(error as GatewayError);
    }
  }
  return { holds, refusals };
}

t.test('gateways together let through the limit of requests, not one more', async (t) => {
  const { limiters } = fleet(t, 4);
  const { holds, refusals } = await requests(limiters, limited({ requestsPerMinute: 50 }), 200);
  t.equal(holds.length, 50);
  t.match(refusals[0], { status: 429, retryAfter: /^\d+$/ });
});

t.test('all at once, as one by one', async (t) => {
  const { limiters } = fleet(t, 3);
  const customer = limited({ requestsPerMinute: 40, maxConcurrent: 30 });
  const all = await Promise.all(
    Array.from({ length: 100 }, (_, n) =>
      requests([limiters[n % 3] as LeasedLimiter], customer, 1),
    ),
  );
  t.equal(all.flatMap(({ holds }) => holds).length, 30);
});

t.test('one gateway alone may use all of a limit that others used before', async (t) => {
  const { limiters } = fleet(t, 2);
  const [first, second] = limiters as [LeasedLimiter, LeasedLimiter];
  const customer = limited({ maxConcurrent: 10 });
  const { holds } = await requests([first], customer, 20);
  t.equal(holds.length, 10);
  t.equal((await requests([second], customer, 1)).holds.length, 0);
  for (const hold of holds) hold.end();
  await until(
    async () => (await requests([second], customer, 10)).holds.length > 0,
    'slots come back',
  );
});

t.test('slots of a gateway that is killed are free when its lease ends', async (t) => {
  const customer = limited({ maxConcurrent: 3 });
  const [, { id }] = customer;
  const killed = new LeasedLimiter(real, randomUUID(), log);
  t.equal((await requests([killed], customer, 3)).holds.length, 3);
  const { limiters } = fleet(t, 1);
  t.equal((await requests(limiters, customer, 1)).holds.length, 0);
  await db.run(
    60_000,
    (sql) => sql`update limit_slots set expires_at = now() where subject = ${id}`,
  ); // ten seconds pass
  await until(async () => (await requests(limiters, customer, 1)).holds.length === 1, 'free');
  await killed.close();
});

t.test(
  'with the database away each gateway goes on with its part, and tells what it used',
  async (t) => {
    const { network, limiters } = fleet(t, 2);
    const [first, second] = limiters as [LeasedLimiter, LeasedLimiter];
    const customer = limited({ requestsPerMinute: 100 });
    t.equal((await requests(limiters, customer, 40)).holds.length, 40);
    network.isCut = true;
    const [one, other] = [
      await requests([first], customer, 100),
      await requests([second], customer, 100),
    ];
    const together = one.holds.length + other.holds.length;
    t.ok(
      one.holds.length >= 15 && other.holds.length >= 15,
      `${one.holds.length} and ${other.holds.length} of 60`,
    );
    // what each knows of the other is as old as its last lease
    t.ok(together <= 80, `${together}: 40 were used before`);
    network.isCut = false;
    await until(
      async () => (await counted(customer)) === 40 + together,
      'all that was used is told',
    );
    t.equal((await requests(limiters, customer, 50)).holds.length, Math.max(0, 60 - together));
  },
);

t.test('what is used with the database away counts no longer than a minute', async (t) => {
  const pass = clock(t);
  let isCut = true;
  let failed = 0;
  const store: LimitStore = {
    lease(...asked) {
      if (!isCut) return real.lease(...asked);
      pass(40_000);
      failed++;
      return Promise.reject(new Error('away'));
    },
    trim: () => real.trim(),
  };
  const limiter = new LeasedLimiter(store, randomUUID(), log);
  t.teardown(() => limiter.close());
  const [customer, tokens] = [
    limited({ requestsPerMinute: 60 }),
    limited({ tokensPerMinute: 10_000 }),
  ];
  for (let minute = 0; minute < 3; minute++) {
    t.equal((await requests([limiter], customer, 50)).holds.length, 50);
    const before = failed;
    await until(() => failed >= before + 2, 'more than a minute passes');
  }
  await requests([limiter], customer, 20);
  for (let n = 0; n < 5; n++) {
    const hold = (await limiter.enter(...tokens)) as Hold;
    await hold.reserve(50, 4000);
    hold.settle(100);
  }
  isCut = false;
  await until(async () => (await counted(tokens)) > 0 && (await counted(customer)) > 0, 'told');
  t.equal(await counted(customer), 20);
  t.equal(await counted(tokens), 500, 'what was used, not what was reserved');
});

t.test(
  'what a gateway held while it was suspended counts no longer: it is neither used nor given back',
  async (t) => {
    const pass = clock(t);
    const { setInterval } = globalThis;
    const ticks: (() => void)[] = []; // of the gateways, which tick when they are told
    globalThis.setInterval = ((tick: () => void) => {
      ticks.push(tick);
      return { unref: () => undefined };
    }) as unknown as typeof setInterval;
    t.teardown(() => {
      globalThis.setInterval = setInterval;
    });
    for (const [resumed, first] of [
      ['requests come first', 30],
      ['its timer comes first', 0],
    ] as const) {
      const { limiters } = fleet(t, 2);
      const [suspended, other] = limiters as [LeasedLimiter, LeasedLimiter];
      const customer = limited({ requestsPerMinute: 100 });
      t.equal((await requests([suspended], customer, 20)).holds.length, 20);
      const tick = ticks.at(-1) as () => void;
      pass(300);
      tick();
      await until(async () => (await counted(customer)) > 20, 'units are leased ahead');
      pass(70_000);
      await db.run(
        5000,
        (sql) =>
          sql`update limit_windows set second = second - 70 where subject = ${customer[1].id}`,
      );
      t.equal((await requests([other], customer, 100)).holds.length, 100);
      t.equal((await requests([suspended], customer, first)).holds.length, 0, resumed);
      for (let quiet = 0; quiet < 5; quiet++) {
        pass(300);
        tick();
        await counted(customer);
      }
      await suspended.close(); // with all that it has to give back
      t.equal(await counted(customer), 100, resumed);
    }
  },
);

t.test('slots that a gateway held while it was suspended are not used', async (t) => {
  const pass = clock(t);
  const { limiters } = fleet(t, 2);
  const [suspended, other] = limiters as [LeasedLimiter, LeasedLimiter];
  const customer = limited({ maxConcurrent: 4 });
  const { holds } = await requests([suspended], customer, 4);
  await db.run(
    5000,
    (sql) => sql`update limit_slots set expires_at = now() where subject = ${customer[1].id}`,
  );
  const taken = await requests([other], customer, 4);
  for (const hold of holds) hold.end();
  pass(11_000);
  t.equal(taken.holds.length, 4);
  t.equal((await requests([suspended], customer, 4)).holds.length, 0);
});

t.test('slots with the database away', async (t) => {
  const { network, limiters } = fleet(t, 2);
  const customer = limited({ maxConcurrent: 10 });
  t.equal((await requests(limiters, customer, 4)).holds.length, 4);
  network.isCut = true;
  const { holds } = await requests(limiters, customer, 40);
  t.ok(holds.length >= 4 && holds.length <= 6, `${holds.length} of 6`);
  for (const hold of holds) hold.end();
  t.ok((await requests(limiters, customer, 40)).holds.length >= 4, 'used again');
});

t.test(
  'with the database away a customer that was not heard of before gets an equal part of each gateway',
  async (t) => {
    const { network, limiters } = fleet(t, 2);
    await db.run(60_000, (sql) => sql`delete from limit_owners`); // those of other tests
    await requests(limiters, limited({ requestsPerMinute: 100 }), 4); // by now each knows of the other
    await requests(limiters, limited({ requestsPerMinute: 100 }), 4);
    network.isCut = true;
    const customer = limited({ requestsPerMinute: 100 });
    t.equal((await requests(limiters, customer, 300)).holds.length, 100);
    const slots = limited({ maxConcurrent: 10 });
    t.equal((await requests(limiters, slots, 40)).holds.length, 10);
  },
);

t.test('slots that were taken with the database away are told when it is back', async (t) => {
  const pass = clock(t);
  const { network, limiters } = fleet(t, 2);
  const [first, second] = limiters as [LeasedLimiter, LeasedLimiter];
  await requests(limiters, limited({ requestsPerMinute: 100 }), 4);
  network.isCut = true;
  const customer = limited({ maxConcurrent: 10 });
  const { holds } = await requests([first], customer, 20);
  t.ok(first.isAlone);
  network.isCut = false;
  pass(5000);
  await until(() => !first.isAlone, 'told');
  t.equal(holds.length + (await requests([second], customer, 20)).holds.length, 10);
});

t.test('the tokens of a call count at its end, however long it took', async (t) => {
  const pass = clock(t);
  const { network, limiters } = fleet(t, 1);
  const [limiter] = limiters as [LeasedLimiter];
  const customer = limited({ tokensPerMinute: 10_000 });
  const hold = (await limiter.enter(...customer)) as Hold;
  await hold.reserve(100, null);
  for (let hour = 1; hour <= 4; hour++) {
    pass(3_600_000);
    await requests(limiters, limited({ requestsPerMinute: 10 }), 1); // keeps the gateway awake
    await until(() => network.trims === hour, 'what is long idle is forgotten');
  }
  const before = await counted(customer);
  hold.settle(50_000);
  await until(async () => (await counted(customer)) >= before + 49_000, 'told');
  const next = (await limiter.enter(...customer)) as Hold;
  await t.rejects(async () => next.reserve(100, 100), { code: 'rate_limit_exceeded' });
  next.end();
});

t.test(
  'what a key is refused by its own limits takes nothing from the other keys of its company',
  async (t) => {
    const { limiters } = fleet(t, 1);
    const [limiter] = limiters as [LeasedLimiter];
    const [other, company] = limited({ requestsPerMinute: 20 });
    const key: ApiKey = { ...other, id: randomUUID(), limits: { ...NONE, maxConcurrent: 1 } };
    t.equal((await requests([limiter], [key, company], 1)).holds.length, 1);
    const flood = Promise.all(
      Array.from({ length: 50 }, () => requests([limiter], [key, company], 1)),
    );
    t.equal((await requests([limiter], [other, company], 10)).holds.length, 10);
    const refusals = (await flood).flatMap(({ refusals }) => refusals);
    t.equal(refusals.length, 50);
    for (const { retryAfter, message } of refusals)
      t.match([retryAfter, message], ['1', 'request at once']);
  },
);

t.test('what is left is known for a while without asking the database', async (t) => {
  const { network, limiters } = fleet(t, 1);
  const [limiter] = limiters as [LeasedLimiter];
  const customer = limited({ requestsPerMinute: 10, tokensPerMinute: 1000 });
  for (let n = 0; n < 10; n++) {
    const hold = (await limiter.enter(...customer)) as Hold;
    await hold.reserve(50, 10);
    hold.settle(60);
  }
  await until(async () => (await counted(customer)) > 610, 'units are leased ahead');
  await until(async () => (await counted(customer)) === 610, 'what was leased ahead is back');
  const left = (isFresh: boolean) => limiter.left(...customer, isFresh);
  const told = { requests: { remaining: 0 }, tokens: { remaining: 400 } };
  t.match(await left(false), told);
  await requests(limiters, limited({ maxConcurrent: 1 }), 1); // its renewals show that time passes
  const pass = clock(t);
  for (let round = 0; round < 8; round++) {
    const before = network.statements;
    pass(3500);
    await until(() => network.statements > before, 'renewed');
  }
  t.match(await left(true), told);
  const [refusal] = (await requests(limiters, customer, 1)).refusals;
  t.match(refusal?.headers?.join(' '), 'x-ratelimit-remaining-tokens 400');
});

t.test('a refusal tells what is left of all limits, whichever gateway used them', async (t) => {
  const { limiters } = fleet(t, 2);
  const [first, second] = limiters as [LeasedLimiter, LeasedLimiter];
  const customer = limited({ requestsPerMinute: 3, tokensPerMinute: 1000 });
  for (let n = 0; n < 3; n++) {
    const hold = (await first.enter(...customer)) as Hold;
    await hold.reserve(90, 10);
    hold.settle(100);
  }
  const told = async () => {
    const [refusal] = (await requests([second], customer, 1)).refusals;
    return refusal?.headers?.join(' ') ?? '';
  };
  // the first gateway leases ahead until it sees that nothing more is asked for
  const isBack = (headers: string) => headers.includes('x-ratelimit-remaining-tokens 700');
  t.match(
    await until(told, 'what was leased ahead is back', isBack),
    'x-ratelimit-remaining-requests 0',
  );
});

t.test(
  'slots are renewed, however many requests wait, and however many limits are in use',
  async (t) => {
    const pass = clock(t);
    const slots = limited({ maxConcurrent: 1 });
    let renewed = 0;
    const store: LimitStore = {
      async lease(_gateway, _seconds, asked) {
        await nextTurn();
        renewed += asked.filter(({ subject }) => subject === slots[1].id).length;
        const leased = asked.map(({ subject, kind, want, held }) => {
          return { subject, kind, granted: held + want, units: [], others: 0 };
        });
        return { gateways: 1, leased };
      },
      trim: () => real.trim(),
    };
    const limiter = new LeasedLimiter(store, randomUUID(), log);
    t.teardown(() => limiter.close());
    let busy = true;
    const others = Array.from({ length: 1200 }, async () => {
      while (busy) await through(limiter, limited({ requestsPerMinute: 1 }));
    });
    t.equal((await requests([limiter], slots, 1)).holds.length, 1);
    const before = renewed;
    pass(5000);
    await until(() => renewed > before, 'renewed');
    busy = false;
    await Promise.all(others);
  },
);

t.test('slots are renewed while other requests wait for units all the time', async (t) => {
  const { limiters } = fleet(t, 1);
  const [limiter] = limiters as [LeasedLimiter];
  const customer = limited({ maxConcurrent: 1 });
  await requests(limiters, customer, 1);
  const end = async () => {
    const [row] = await db.run(
      5000,
      (sql) =>
        sql<
          [{ at: Date }]
        >`select expires_at as at from limit_slots where subject = ${customer[1].id}`,
    );
    return row.at.getTime();
  };
  const first = await end();
  let busy = true;
  const others = Array.from({ length: 20 }, async () => {
    while (busy) await (await limiter.enter(...limited({ requestsPerMinute: 1 })))?.end();
  });
  await until(async () => (await end()) > first, 'the lease is renewed');
  busy = false;
  await Promise.all(others);
});

t.test(
  'tokens: what is not used is free again, what was used beyond the reservation counts',
  async (t) => {
    const { limiters } = fleet(t, 1);
    const [limiter] = limiters as [LeasedLimiter];
    const customer = limited({ tokensPerMinute: 1000 });
    const hold = async (): Promise<Hold> => (await limiter.enter(...customer)) as Hold;
    const left = async () => (await limiter.left(...customer, false)).tokens?.remaining;
    const first = await hold();
    await first.reserve(100, 800);
    t.equal(await left(), 100);
    first.settle(300);
    await until(async () => (await left()) === 700, 'the rest is free');
    const second = await hold();
    await second.reserve(100, 100);
    second.settle(600);
    second.end();
    await until(async () => (await left()) === 100, 'the surplus counts');
    const third = await hold();
    await t.rejects(async () => third.reserve(100, 100), { code: 'rate_limit_exceeded' });
    third.end();
    const fourth = await hold();
    await fourth.reserve(50, 50);
    fourth.end();
    await until(async () => (await left()) === 100, 'nothing ran');
    const fifth = await hold();
    const leaving = fifth.reserve(50, 50);
    fifth.end();
    await leaving;
    await until(
      async () => (await left()) === 100,
      'a client that leaves while units are waited for',
    );
  },
);

t.test(
  'tokens of a request that does not limit its answer: as many as calls usually take',
  async (t) => {
    const { limiters } = fleet(t, 1);
    const [limiter] = limiters as [LeasedLimiter];
    const customer = limited({ tokensPerMinute: 10_000 });
    const left = async () => (await limiter.left(...customer, false)).tokens?.remaining;
    for (const used of [777, 33, 1]) {
      const hold = (await limiter.enter(...customer)) as Hold;
      await hold.reserve(10, null);
      hold.settle(used);
    }
    await until(async () => (await left()) === 10_000 - 811, 'what was used counts');
  },
);

t.test('what is leased ahead goes back when demand ends', async (t) => {
  const { limiters } = fleet(t, 1);
  const customer = limited({ requestsPerMinute: 100_000 });
  const { holds } = await requests(limiters, customer, 5000);
  t.equal(holds.length, 5000);
  const [limiter] = limiters as [LeasedLimiter];
  await until(
    async () => (await limiter.left(...customer, false)).requests?.remaining === 95_000,
    'no more than was used',
  );
});

t.test('many limited keys at once, each with its own limits', async (t) => {
  const { limiters } = fleet(t, 2);
  const began = performance.now();
  const admitted = new Map<number, number>();
  for (let first = 0; first < KEYS; first += AT_ONCE) {
    const keys = Array.from({ length: AT_ONCE }, () =>
      limited({ requestsPerMinute: 2, maxConcurrent: 4 }),
    );
    const counts = await Promise.all(
      keys.map(async (customer) => {
        let requests = 0;
        for (const limiter of [...limiters, ...limiters])
          requests += await through(limiter, customer);
        return requests;
      }),
    );
    for (const count of counts) admitted.set(count, (admitted.get(count) ?? 0) + 1);
  }
  t.same([...admitted], [[2, KEYS]], 'two requests of each, of the four that were sent');
  const seconds = (performance.now() - began) / 1000;
  note(
    'A limit holds over all replicas',
    `${KEYS} keys, each limited to 2 requests a minute and 4 at once; 4 requests of each through 2 gateways`,
    `2 of each let through, in ${seconds.toFixed(0)} s`,
  );
});

/** Sends one request, which ends at once. @returns how many got through */
async function through(limiter: LeasedLimiter, customer: [ApiKey, Company]): Promise<number> {
  const { holds } = await requests([limiter], customer, 1);
  for (const hold of holds) hold.end();
  return holds.length;
}
