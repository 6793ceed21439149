import { table } from '../tables.ts';
import type { Figures } from './figures.ts';
import { describePlan, makePlan } from './plan.ts';

/** The whole of FLEET.md. */
export function describeFleet(figures: Figures): string {
  const { machine, taken, replicas, rows, walBytesPerRow, diskBytesPerRow, polls, connections } = figures;
  const parts = [
    '# A fleet, and where one Postgres ends',
    `Written by \`node bench/fleet.ts\` on ${machine}, ${taken}; do not edit. Replicas share core 0; load, upstream, HAProxy and Postgres share the rest.`,
  ];
  if (replicas !== null) {
    const { quotients, p50, p99 } = replicas;
    const shown = [quotients[quotients.length >> 1], quotients[0], quotients.at(-1)].map((each) => each?.toFixed(2));
    const costs: [string, number][] = [
      ['one replica', replicas.one],
      ['four replicas', replicas.four],
      ['one replica, given the load of four', replicas.oneAtFour],
      ['one replica, given all it can take', replicas.flatOut],
      ['HAProxy', replicas.haproxy],
      ['Postgres', replicas.postgres],
    ];
    const cells = costs.map(([what, micros]) => [what, micros.toFixed(1)]);
    cells.splice(2, 0, ['quotient within each round', `${shown[0]} (${shown[1]}–${shown[2]})`]);
    parts.push(
      '## Four replicas behind HAProxy on one Postgres',
      table([`${replicas.ratePerReplica} requests a second each`, 'CPU µs per request'], cells),
      `Four replicas answer in ${p50.toFixed(2)} ms (p50) and ${p99.toFixed(2)} ms (p99), load generator, HAProxy and upstream included.`,
    );
  }
  if (rows.length > 0) {
    parts.push(
      '## Ledger rows into one Postgres',
      `Batches as gateways write them: rows, seals, counters by month and by day, one transaction, flushed to disk. ${Math.round(walBytesPerRow)} bytes of write-ahead log and ${Math.round(diskBytesPerRow)} bytes of table and index per row.`,
      table(
        ['companies', 'writers', 'rows a batch', 'rows/s', 'ms per batch', 'Postgres CPU µs per row'],
        rows.map(({ companies, writers, batch, rate, batchMs, postgresMicros }) => {
          const perSecond = Math.round(rate).toLocaleString('en');
          return [`${companies}`, `${writers}`, `${batch}`, perSecond, batchMs.toFixed(1), postgresMicros.toFixed(1)];
        }),
      ),
    );
  }
  if (polls !== null) {
    parts.push(
      '## What following costs Postgres',
      `An idle replica costs ${(polls.idleMicrosPerSecond / 1000).toFixed(2)} ms of CPU a second. A look at spend:`,
      table(
        ['figures that changed since the last look', 'Postgres CPU µs', 'replica CPU µs'],
        polls.spend.map(({ changed, micros, clientMicros }) =>
          [changed, micros, clientMicros].map((n) => Math.round(n).toLocaleString('en')),
        ),
      ),
    );
  }
  if (connections !== null) {
    parts.push(
      `A serving replica holds ${connections.perReplica} connections (two for queries, one to listen; up to six more while somebody is in the administration area), each ${(connections.bytesEach / 1e6).toFixed(1)} MB of the server's memory.`,
    );
  }
  if (replicas !== null && polls !== null && connections !== null && rows.length > 0) {
    const measured = { ...figures, replicas, polls, connections };
    parts.push(describePlan(makePlan(measured), measured));
  }
  return `${parts.join('\n\n')}\n`;
}
