import t from 'tap';
import { ASSUMED, type Measured, makePlan } from '../../bench/fleet/plan.ts';
import { describeFleet } from '../../bench/fleet/report.ts';

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
    t.ok(plan.stallMs <= ASSUMED.stallMs && plan.replicaBusy <= ASSUMED.replicaBusy && plan.lagMs <= ASSUMED.lagMs);
    t.ok(plan.coresBusy <= plan.databaseCores * ASSUMED.databaseBusy);
    t.ok(plan.lagMs > 100 && plan.lagMs < 250, `${plan.lagMs} ms: a rest of 100 ms, and the batch`);
  }
  t.throws(() => makePlan(measured, { ...ASSUMED, stallMs: 0.01 }), /no number of cells/);
});
