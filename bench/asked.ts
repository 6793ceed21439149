import { compared, type Results, reading } from './results.ts';
import { spread, table } from './tables.ts';

/** One figure that people ask for: where it is, its unit, and whether other programs have it too. */
interface Asked {
  readonly what: string;
  readonly section: string;
  readonly series: string;
  readonly kind?: string;
  readonly unit: string;
}

const ASKED: readonly Asked[] = [
  { what: 'a small request', section: 'requests', series: 'autocannon', unit: 'µs' },
  {
    what: 'a small request, no two heads alike',
    section: 'requests',
    series: 'autocannon, heads that differ',
    unit: 'µs',
  },
  { what: 'a turn of an agent', section: 'conversation', series: 'turns', unit: 'µs' },
  {
    what: 'its first event, p99',
    section: 'conversation',
    series: 'turns',
    kind: 'p99',
    unit: 'ms',
  },
  {
    what: 'an event of a burst',
    section: 'burst',
    series: 'one HTTP chunk per event',
    unit: 'µs',
  },
  { what: 'an event of 1,000 slow streams', section: 'paced', series: '1000 streams', unit: 'µs' },
  { what: 'a request of 16 KiB', section: 'bodies', series: '16 KiB text', unit: 'µs' },
  { what: 'a request of 1 MiB', section: 'bodies', series: '1 MiB text', unit: 'µs' },
  {
    what: 'memory of a stream, of 9,000',
    section: 'many',
    series: 'streams',
    kind: 'memory',
    unit: 'KiB',
  },
  { what: 'a row of the ledger, in Postgres', section: 'rows', series: 'one company', unit: 'µs' },
];

const OTHERS = {
  pipe: 'reads and writes alone',
  proxy: 'do-nothing Node proxy',
  nginx: 'nginx',
  litellm: 'LiteLLM',
};

/** The first table of RESULTS.md: CPU time where nothing else is said, and how many times that of other programs it is. */
export function asked({ sections }: Results): string {
  const rows = ASKED.map(({ what, section, series, kind = 'cpu', unit }) => {
    const data = sections[section];
    const ratio = (other: string): string =>
      spread(compared(data, [series, 'gateway', kind], [series, other, kind]));
    return [
      what,
      spread(reading(data, series, 'gateway', kind), unit),
      ...Object.keys(OTHERS).map(ratio),
      data?.taken ?? '–',
    ];
  });
  const heads = Object.values(OTHERS).map((other) => `÷ ${other}`);
  return `${table(['CPU time, unless it says otherwise', 'Tollgate', ...heads, 'measured'], rows)}\n\n${LIMIT}`;
}

const LIMIT =
  '*Reads and writes alone* (`programs/pipe.ts`) is the best that a Node program between the two could reach: a read and a write ' +
  'each way, of bytes that nobody looks at. Tollgate has these too, and besides them those of its log, of its spool and of the ' +
  'ledger in Postgres. Where a read brings several events, both have it once. nginx is written in C and has the reads and writes alone.';

/** What was tried for targets that were not reached, by the beginning of their names. */
const ATTEMPTS: Readonly<Record<string, string>> = {
  'CPU per turn of an agent':
    'memory lent for large bodies, parsed as they arrive; then a check of messages that allocates nothing (0.8 of before)',
  'p99 of the first event of a turn':
    'the same: clients keep the gateway busy, so that it follows the CPU of a turn, of which reading the body is 28 %',
  'CPU per request of 16 KiB':
    'memory of a body freed when its call ends (1.06 of before); the same memory lent to later bodies (0.95 of before, ' +
    'but a mistake would show one caller the bytes of another); with 16 connections a request of 1 KiB is 1.1 too',
  'CPU of Postgres per ledger row':
    'one trigger for all sums and shorter checks; a second record set for rare columns cost more',
};

/** Rows of `goal` as Markdown: those that were not reached with what was tried, the others as a number. */
export function describeGoals(goals: readonly (readonly string[])[]): string[] {
  const isReached = ([, , , , verdict]: readonly string[]): boolean =>
    verdict === 'goal' || verdict === 'at least';
  const missed = goals.filter((row) => !isReached(row));
  const rows = missed.map(([what = '', least = '', , measured = '']) => [
    what,
    least,
    measured,
    Object.entries(ATTEMPTS).find(([name]) => what.startsWith(name))?.[1] ?? 'none for it alone',
  ]);
  return [
    '## Targets that were not reached',
    `${goals.length - missed.length} of ${goals.length} were.`,
    table(['what', 'at least', 'measured', 'tried'], rows),
  ];
}
