import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Spread } from '../results.ts';
import { reading } from '../results.ts';
import { loadOf, refuseErrors, START_MS } from '../run/rig.ts';
import { type Section, startTargets, WARM_SECONDS } from '../run/rounds.ts';
import type { Target } from '../run/targets.ts';
import { number } from '../tables.ts';

/** What is counted of a unit of work, by the kind it has among the readings. */
export const COUNTED = {
  allocated: 'bytes allocated in V8’s heap',
  written: 'bytes written',
  sent: 'bytes sent to Postgres',
  calls: 'reads and writes',
} as const;

/** Longer than the ledger and the trail wait for more rows. */
const GATHERED_MS = 2000;

/** Series, and how many clients send what. */
const LOADS = {
  'small request': { connections: 64, stream: false },
  'event of a burst': { connections: 16, stream: true },
} as const;

/** What a unit of work costs that does not swing with the machine: a gateway counts it itself. */
export const counts: Section = {
  heading: 'Allocations, bytes and system calls',
  start: (bench) => startTargets(bench, ['direct', 'gateway', 'base']),
  steps: ({ rig }) =>
    Object.entries(LOADS).map(([name, { connections, stream }]) => ({
      name,
      warmSeconds: WARM_SECONDS,
      async measure(target, seconds) {
        if (target.pids.length === 0) return {};
        await rig.mode({ mode: 'burst' });
        const { sent } = await target.probe<Counted>('counts');
        await rig.load(loadOf(target, connections, { stream }));
        await sleep(START_MS);
        const first = await rig.load('read');
        const before = await countsOf(target);
        await sleep(seconds * 1000);
        const last = await rig.load('read');
        const after = await countsOf(target);
        const whole = await rig.load('stop');
        refuseErrors(whole);
        const unitsOf = ({ events, done }: typeof whole): number => (stream ? events : done);
        const units = unitsOf(last) - unitsOf(first);
        const each = (kind: Exclude<keyof typeof COUNTED, 'sent'>): number => (after[kind] - before[kind]) / units;
        // rows go in batches: of the whole load, once the last of them has gone
        await sleep(GATHERED_MS);
        const rows = (await target.probe<Counted>('counts')).sent - sent;
        const counted = { allocated: each('allocated'), written: each('written'), calls: each('calls') };
        return { [name]: { ...counted, sent: rows / unitsOf(whole) } };
      },
    })),
  note: () =>
    'Of all that the process does meanwhile: upstream, client, spool, database and log. Reads and writes are those that ' +
    'Linux counts in /proc; waiting for them is not among them.',
  table: (results) => {
    const shown = (spread: Spread | null): string => (spread === null ? '' : number(spread.median));
    const rows = Object.keys(LOADS).map(
      (name) =>
        `| ${name} | ${Object.keys(COUNTED)
          .map((kind) => shown(reading(results, name, 'gateway', kind)))
          .join(' | ')} |`,
    );
    const head = `| each | ${Object.values(COUNTED).join(' | ')} |`;
    return [[head, `|---|${'---:|'.repeat(Object.keys(COUNTED).length)}`, ...rows].join('\n')];
  },
};

/** What a gateway counts of itself. */
type Counted = Record<'allocated' | 'sent', number>;

async function countsOf(target: Target): Promise<Record<Exclude<keyof typeof COUNTED, 'sent'>, number>> {
  const { allocated } = await target.probe<Counted>('counts');
  const io = readFileSync(`/proc/${target.pids[0]}/io`, 'latin1');
  const of = (name: string): number => Number(new RegExp(`^${name}: (\\d+)`, 'm').exec(io)?.[1]);
  return { allocated, written: of('wchar'), calls: of('syscr') + of('syscw') };
}
