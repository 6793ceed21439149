import t from 'tap';
import { ASSUMED, databaseUnder, type Measured, makePlan, simulateLoop } from '../../bench/fleet/plan.ts';
import { describeFleet } from '../../bench/fleet/report.ts';

const LOOP = { requestMicros: 100, gcPauseMs: 0, gcEvery: Number.POSITIVE_INFINITY, stallMs: 0, stallEveryMs: 250 };

t.test('waits are as the formula of Pollaczek and Khinchine has them', async (t) => {
  // two visits of 50 µs each, from half to one and a half of it: E[S²] = (1 + 1/12) E[S]²
  for (const busy of [0.3, 0.6, 0.8]) {
    const { meanMs, busy: found } = simulateLoop(LOOP, busy * 10_000, 400_000);
    const expected = (busy * 0.05 * (1 + 1 / 12)) / (2 * (1 - busy));
    t.ok(Math.abs(meanMs - expected) < expected * 0.05, `${busy}: ${meanMs} ms, by the formula ${expected}`);
    t.ok(Math.abs(found - busy) < 0.01);
  }
});

t.test('requests wait for pauses', async (t) => {
  const calm = simulateLoop(LOOP, 3000, 100_000);
  const stalled = simulateLoop({ ...LOOP, stallMs: 20 }, 3000, 100_000);
  t.ok(calm.p99Ms < 1);
  // 20 ms of 250 are a stall: the p99 wait is most of one
  t.ok(stalled.p99Ms > 15 && stalled.p99Ms < 25, `${stalled.p99Ms} ms`);
  t.ok(simulateLoop({ ...LOOP, gcPauseMs: 10, gcEvery: 200 }, 3000, 100_000).p99Ms > 5);
});

t.test('a database is as busy as the work it gets, and lag grows once it is full', async (t) => {
  const load = {
    replicas: 10,
    rowsPerReplica: 1000,
    rowMicros: 100,
    pollMicros: 0,
    changesMicros: 0,
    commitMs: 2,
    cores: 2,
  };
  const half = databaseUnder(load);
  t.ok(Math.abs(half.busy - 0.5) < 0.02, `${half.busy}`);
  t.ok(half.lagMs > 100 && half.lagMs < 250, `${half.lagMs} ms: a rest of 100 ms, and the batch`);
  t.ok(databaseUnder({ ...load, rowsPerReplica: 4000 }).lagMs > 1000);
});

t.test('a plan keeps its bounds, and FLEET.md shows it', async (t) => {
  const measured: Measured = {
    replicas: {
      ratePerReplica: 800,
      one: 110,
      four: 112,
      quotients: [1],
      oneAtFour: 100,
      flatOut: 80,
      postgres: 40,
      haproxy: 15,
      p50: 1,
      p99: 5,
      gcPauseMs: 1.5,
      gcEvery: 1000,
      idleBytes: 8e7,
    },
    rows: [{ writers: 4, batch: 200, companies: 1000, rate: 20_000, batchMs: 10, postgresMicros: 50 }],
    walBytesPerRow: 900,
    diskBytesPerRow: 600,
    polls: {
      idleMicrosPerSecond: 1000,
      spend: [
        { changed: 0, micros: 100, clientMicros: 100 },
        { changed: 1000, micros: 1500, clientMicros: 2000 },
        { changed: 10_000, micros: 14_000, clientMicros: 20_000 },
      ],
    },
    connections: { perReplica: 3, bytesEach: 4e6 },
  };
  const small = makePlan(measured, { ...ASSUMED, rate: 10_000, companies: 1000 });
  t.equal(small.cells, 1);
  const large = makePlan(measured);
  t.ok(large.cells > 1);
  t.ok(large.cells * large.replicas * large.replicaRate >= 999_999);
  const figures = { ...measured, machine: 'a machine', taken: '2026-01-01' };
  const report = describeFleet(figures);
  t.match(report, '| quotient within each round | 1.00 (1.00–1.00) |');
  t.match(report, '| 1000 | 4 | 200 | 20,000 | 10.0 | 50.0 |');
  t.match(report, `| replicas | ${large.replicas} | ${large.replicas * large.cells} |`);
  t.notMatch(describeFleet({ ...figures, polls: null }), 'Plan for');
  for (const plan of [small, large]) {
    t.ok(plan.waitMs <= ASSUMED.waitMs && plan.lagMs <= ASSUMED.lagMs && plan.databaseBusy <= ASSUMED.databaseBusy);
  }
});
