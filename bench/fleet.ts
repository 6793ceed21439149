import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Figures } from './fleet/figures.ts';
import { measurePolls, measureRows } from './fleet/postgres.ts';
import { measureReplicas } from './fleet/replicas.ts';
import { describeFleet } from './fleet/report.ts';
import { describeMachine } from './results.ts';
import { startDatabase } from './run/database.ts';
import { canPin, pinSelf } from './run/process.ts';

const PARTS = ['replicas', 'rows', 'polls'];
const USAGE = `Measures what a fleet costs, and where one Postgres ends; rewrites fleet.json and FLEET.md in bench/.

  node bench/fleet.ts [options]

  --only PART   one of ${PARTS.join(', ')}; may be repeated. Others keep their earlier figures
  --rounds N    interleaved rounds of the comparison of replicas (default 5)
  --seconds N   seconds of each measurement (default 4)
  --quick       only shows that everything works: one round of 0.2 s; prints the report, writes nothing
  --report      measures nothing, only writes FLEET.md again
`;

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: PARTS },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '4' },
    quick: { type: 'boolean', default: false },
    report: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const path = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

async function measure(figures: Figures, parts: readonly string[], quick: boolean): Promise<void> {
  pinSelf();
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-fleet-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  const server = await startDatabase(folder);
  const say = (text: string): boolean => process.stderr.write(`${text}\n`);
  const [rounds, seconds] = quick ? [1, 0.2] : [Number(values.rounds), Number(values.seconds)];
  const bench = { server, folder, rounds, seconds, quick, say };
  figures.machine = `${describeMachine(canPin)}, ${server.version}`;
  figures.taken = new Date().toISOString().slice(0, 10);
  try {
    if (parts.includes('replicas')) {
      const { idleMicrosPerSecond, ...measured } = await measureReplicas(bench);
      Object.assign(figures, measured, { polls: { spend: [], ...figures.polls, idleMicrosPerSecond } });
    }
    if (parts.includes('rows')) Object.assign(figures, await measureRows(bench));
    if (parts.includes('polls')) {
      figures.polls = { idleMicrosPerSecond: 0, ...figures.polls, spend: await measurePolls(bench) };
    }
  } finally {
    await server.stop();
  }
}

if (values.help) process.stdout.write(USAGE);
else {
  process.setMaxListeners(64); // each program started listens for the end of this one
  process.on('SIGINT', () => process.exit(130));
  process.on('SIGTERM', () => process.exit(143));
  const figures: Figures = JSON.parse(readFileSync(path('fleet.json'), 'utf8'));
  if (!values.report) await measure(figures, values.only, values.quick);
  const report = describeFleet(figures);
  if (values.quick) process.stdout.write(report);
  else {
    writeFileSync(path('fleet.json'), `${JSON.stringify(figures, null, 2)}\n`);
    writeFileSync(path('FLEET.md'), report);
  }
}
