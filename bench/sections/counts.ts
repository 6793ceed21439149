import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Spread } from '../results.ts';
import { reading } from '../results.ts';
import { cpuMicros } from '../run/process.ts';
import { loadOf, refuseErrors, START_MS } from '../run/rig.ts';
import { type Section, startTargets, WARM_SECONDS } from '../run/rounds.ts';
import type { Target } from '../run/targets.ts';
import { number } from '../tables.ts';

/** What is counted of a unit of work, by the kind it has among the readings. */
export const COUNTED = {
  allocated: 'bytes allocated in V8’s heap',
  copied: 'bytes written into own buffers',
  written: 'bytes written',
  sent: 'bytes sent to Postgres',
  calls: 'reads and writes',
  collections: 'collections of garbage per 1,000',
} as const;

/** Longer than the ledger and the trail wait for more rows. */
const GATHERED_MS = 2000;

/** Series, and how many clients send what; of bodies, CPU is measured too. */
const LOADS = {
  'small request': { connections: 64 },
  'small request, heads that differ': { connections: 64, bytes: 1024, differ: true },
  'event of a burst': { connections: 16, stream: true },
  'request of 16 KiB': { connections: 16, bytes: 16 * 1024, differ: true },
  'request of 128 KiB': { connections: 8, bytes: 128 * 1024, differ: true },
  'request of 1 MiB': { connections: 4, bytes: 1024 * 1024, differ: true },
  'turn of an agent': { connections: 8, bytes: 600 * 1024, turns: 40, differ: true },
} as const;

/** What a unit of work costs that does not swing with the machine: a gateway counts it itself. */
export const counts: Section = {
  heading: 'Allocations, bytes and system calls',
  start: (bench) => startTargets(bench, ['direct', 'gateway', 'base']),
  steps: ({ rig }) =>
    Object.entries(LOADS).map(([name, { connections, ...more }]) => ({
      name,
      warmSeconds: WARM_SECONDS,
      async measure(target, seconds) {
        if (target.pids.length === 0) return {};
        await rig.mode({ mode: 'burst' });
        const { sent } = await target.probe<Counted>('counts');
        await rig.load(loadOf(target, connections, more));
        await sleep(START_MS);
        const first = await rig.load('read');
        const before = await countsOf(target);
        const began = cpuMicros(target.pids);
        await sleep(seconds * 1000);
        const last = await rig.load('read');
        const spent = cpuMicros(target.pids) - began;
        const after = await countsOf(target);
        const whole = await rig.load('stop');
        refuseErrors(whole);
        const unitsOf = ({ events, done }: typeof whole): number =>
          'stream' in more ? events : done;
        const units = unitsOf(last) - unitsOf(first);
        const each = (kind: keyof typeof after): number => (after[kind] - before[kind]) / units;
        // rows go in batches: of the whole load, once the last of them has gone
        await sleep(GATHERED_MS);
        const rows = (await target.probe<Counted>('counts')).sent - sent;
        const counted = {
          allocated: each('allocated'),
          copied: each('copied'),
          written: each('written'),
          calls: each('calls'),
          collections: each('collections') * 1000,
        };
        const cpu = 'bytes' in more ? { cpu: spent / units } : {};
        return { [name]: { ...counted, sent: rows / unitsOf(whole), ...cpu } };
      },
    })),
  note: () =>
    'Of all that the process does meanwhile: upstream, client, spool, database and log. Reads and writes are those that ' +
    'Linux counts in /proc; waiting for them is not among them. Own buffers are those of Node into which the gateway copies ' +
    'other buffers and strings.',
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
type Counted = Record<'allocated' | 'sent' | 'copied' | 'collections', number>;

async function countsOf(
  target: Target,
): Promise<Record<Exclude<keyof typeof COUNTED, 'sent'>, number>> {
  const { sent, ...counted } = await target.probe<Counted>('counts');
  const io = readFileSync(`/proc/${target.pids[0]}/io`, 'latin1');
  const of = (name: string): number => Number(new RegExp(`^${name}: (\\d+)`, 'm').exec(io)?.[1]);
  return { ...counted, written: of('wchar'), calls: of('syscr') + of('syscw') };
}
