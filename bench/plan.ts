import { compared, type Results, reading } from './results.ts';
import { median, number } from './tables.ts';

const WANTED = 1_000_000; // requests a second
const RATE = 5000; // of one worker: the highest at which latency is measured
const DAY_S = 86_400;
const BUSY = 0.5; // share of its cores that a Postgres is to use
const MACHINE = 16; // cores

/** What a million requests a second take, by the costs that were measured: cores of gateways within a latency, and of Postgres. */
export function planFleet({ sections: { latency, workers, kept, replicas } }: Results): string {
  const series = `${RATE.toLocaleString('en')} requests a second`;
  const cost = reading(latency, series, 'gateway')?.median ?? Number.NaN;
  const added = (kind: string): string =>
    median(compared(latency, [series, 'gateway', kind], [series, 'direct', kind], (a, b) => a - b));
  const spreading = compared(workers, ['paced', 'two'], ['paced', 'one'])?.median ?? Number.NaN;
  const ofRow = (of: string, kind: string): number =>
    reading(kept, of, 'gateway', kind)?.median ?? Number.NaN;
  const [row, trail] = [ofRow('ledger', 'cpu'), ofRow('trail', 'cpu')];
  const [rowLog, trailLog] = [ofRow('ledger', 'log'), ofRow('trail', 'log')];
  const [rowDisk, trailDisk] = [ofRow('ledger', 'disk'), ofRow('trail', 'disk')];
  const poll = reading(replicas, 'idle', 'four', 'postgres')?.median ?? Number.NaN;

  if (
    ![cost, spreading, row, trail, rowLog, trailLog, rowDisk, trailDisk, poll].every(
      Number.isFinite,
    )
  )
    return 'Not measured yet.';
  const count = WANTED / RATE;
  const supervisors = (Math.max(0, spreading - 1) * cost * WANTED) / 1e6;
  const machines = Math.ceil((count + supervisors) / MACHINE) + 1;
  const postgres = ((row + trail) * WANTED) / 1e6 + (poll * count) / 1e3;
  const cells = Math.ceil(postgres / BUSY / MACHINE);
  const lines = [
    `**${count} workers**, a core each: a request takes ${number(cost)} µs of CPU at ${series}, which are ${number((cost * RATE) / 1e4)} % of a core. Added to its latency are ${added('p99')} ms at p99 and ${added('p999')} ms at p99.9.`,
    `**${number(supervisors)} cores for their supervisors**: two workers take ${number(spreading)} of one process's CPU.`,
    `**${machines} machines of ${MACHINE} cores**, one of which may fail.`,
    `**${number(postgres)} cores of Postgres**: ${number(row)} µs a row of the ledger and ${number(trail)} of the trail, and ${number(poll)} ms a second for each worker.`,
    `**${cells} cells**, each a Postgres of ${MACHINE} cores, ${number(BUSY * 100)} % busy, and ${number(count / cells)} workers.`,
    `**${number(((rowLog + trailLog) * WANTED) / cells / 1e6)} MB of log a second in each cell**, which its standby and its archive take too.`,
    `**${number(((rowDisk + trailDisk) * WANTED * DAY_S) / cells / 1e12)} TB of disk a day in each cell**: ${number(rowDisk)} bytes of the ledger, until its month is [taken away](../sql/retention.md#past-months-of-the-ledger), and ${number(trailDisk)} of the trail, for \`REQUEST_TRAIL_DAYS\`. Where log or disk ends before the cores do, take more cells.`,
  ];
  return [
    'Calculated from the figures of this page and of [RESULTS.md](RESULTS.md); nothing of this size was run. Machines ' +
      'of another make have other costs: measure there, and the plan follows.',
    lines.map((line) => `- ${line}`).join('\n'),
  ].join('\n\n');
}
