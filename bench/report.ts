import { asked, describeGoals } from './asked.ts';
import { planFleet } from './plan.ts';
import {
  compared,
  inEachRound,
  type Place,
  type Results,
  reading,
  type Spread,
  spreadOf,
} from './results.ts';
import type { Section } from './run/rounds.ts';
import { COUNTED } from './sections/counts.ts';
import { FLEET, PAGES, SECTIONS } from './sections/list.ts';
import { WAYS_TO_SHARE } from './sections/workers.ts';
import { spread, table } from './tables.ts';

/** Text by the name of its file. */
export function writeReport(
  results: Results,
): Record<'RESULTS.md' | 'FLEET.md' | 'PAGES.md', string> {
  const { sections } = results;
  const goals = Object.entries(SECTIONS).flatMap(
    ([name, section]) => section.goals?.(sections[name]) ?? [],
  );
  const { requests } = SECTIONS;
  const written = 'Written by `make bench`; do not edit. [README.md](README.md';
  const page = (...blocks: readonly string[]): string => `${blocks.join('\n\n')}\n`;
  return {
    'RESULTS.md': page(
      '# Benchmark results',
      `${written}) says what is measured and how to read it. Medians of interleaved rounds, lowest to highest in brackets.`,
      '## What people ask',
      asked(results),
      '## What the fast path saves',
      fastPath(results),
      ...describeSections({ requests }, results),
      ...describeGoals(goals),
      "All other tables are in `results.json`: `make bench ARGS='--report --only SECTION'` prints those of a section.",
    ),
    'FLEET.md': page(
      '# A fleet on one Postgres',
      `${written}#fleet) says what is measured.`,
      'Medians of rounds, lowest to highest in brackets.',
      ...describeSections(FLEET, results),
      WAYS_TO_SHARE,
      '## A million requests a second',
      planFleet(results),
    ),
    'PAGES.md': page(
      '# Pages',
      `${written}#pages) says what is measured.`,
      ...describeSections(PAGES, results),
    ),
  };
}

/** @param tables how many of each section: the first is what most readers ask for; with all of them come the targets */
export function describeSections(
  sections: Readonly<Record<string, Section | undefined>>,
  results: Results,
  tables = 1,
): string[] {
  return Object.entries(sections).flatMap(([name, section]) => {
    if (section === undefined) return [];
    const { heading, ownTime } = section;
    const data = results.sections[name];
    if (data === undefined) return [`## ${heading}`, 'Not measured yet.'];
    const { rounds, seconds, taken, machine, versions, notes } = data;
    const how = `${rounds} rounds${ownTime ? '' : ` of ${seconds} s each`}, ${taken}, on ${machine}; ${versions}. ${notes.join(' ')}`;
    const targets = tables === Number.POSITIVE_INFINITY ? (section.goals?.(data) ?? []) : [];
    return [
      `## ${heading}`,
      how.trim(),
      ...section.table(data).slice(0, tables),
      ...(targets.length > 0
        ? [table(['target', 'at least', 'goal', 'measured', ''], targets)]
        : []),
    ];
  });
}

/** CPU with FAST_HTTP=on and off, of the first series of each section that was measured with both. */
function fastPath({ sections }: Results): string {
  const rows = Object.keys(SECTIONS).flatMap((name) => {
    const data = sections[name];
    const both = Object.entries(data?.series ?? {}).filter(
      ([, targets]) => targets.plain !== undefined,
    );
    return both
      .slice(0, 1)
      .map(([series]) => [
        `${name}, ${series}`,
        ...['gateway', 'plain'].map((target) => spread(reading(data, series, target))),
        spread(compared(data, [series, 'plain'], [series, 'gateway'])),
      ]);
  });
  if (rows.length === 0) return 'Not measured yet.';
  return table(
    ['CPU µs per request or event', '`FAST_HTTP=on`', '`FAST_HTTP=off`', 'off ÷ on'],
    rows,
  );
}

/** Ratios of CPU of this checkout and another one, new ÷ old, for people at a terminal. */
export function describeRatios(results: Results): string {
  const lines = [`${'this checkout ÷ --base within each round'.padEnd(60)} median    min    max`];
  for (const { name, ratio } of ratiosOf(results)) {
    const figures = [ratio.median, ratio.low, ratio.high].map((figure) =>
      figure.toFixed(3).padStart(6),
    );
    lines.push(`${name.padEnd(60)} ${figures.join(' ')}`);
  }
  return `${lines.join('\n')}\n`;
}

/**
 * The most by kind, of the commit before. What is allocated swings by a few percent as long as V8 still optimises, what is
 * sent to Postgres by the number of its batches, collections by when they begin; the others do not swing.
 */
const MOST: Readonly<Record<string, number>> = {
  cpu: 1.02,
  allocated: 1.05,
  copied: 1.03,
  written: 1.03,
  sent: 1.05,
  calls: 1.03,
  collections: 1.2,
};

/** The most CPU of the commit at which costs were accepted: small steps add up. */
const MOST_OF_ACCEPTED = 1.05;
/** Where no work reached that, what was reached, with room for the noise: README.md tells of the attempts. */
const REACHED: readonly (readonly [series: RegExp, most: number])[] = [
  [/^requests, (wrk|autocannon): /, 1.25],
  [/turn of an agent: |^conversation, /, 1.15],
];
/** Of so many rounds one may say that it costs no more: more of them are a loud machine. */
const ROUNDS_FOR_ONE = 5;

/**
 * The ratios that cost more: the median of the rounds is above the bound, and of five rounds at most one says that it
 * costs no more. The second rule keeps a loud machine out: two runs of one commit were at 1.33 (0.81–1.47).
 */
export function exceeded(results: Results, base: 'accepted' | 'before'): string[] {
  return ratiosOf(results)
    .filter(({ kind }) => base === 'before' || kind === 'cpu') // the other kinds may have changed their sense since
    .map((each) => ({ ...each, median: each.ratio.median, most: mostOf(base, each) }))
    .filter(({ median, most, rounds }) => {
      const cheap = rounds.filter((ratio) => ratio <= 1).length;
      return !(median <= most || cheap > rounds.length / ROUNDS_FOR_ONE);
    })
    .map(
      ({ name, median, most }) =>
        `${name}: ${median.toFixed(3)} of the base, and ${most} is allowed`,
    );
}

function mostOf(
  base: 'accepted' | 'before',
  { name, kind }: { name: string; kind: string },
): number {
  if (base === 'before') return MOST[kind] as number;
  return REACHED.find(([series]) => series.test(name))?.[1] ?? MOST_OF_ACCEPTED;
}

/** This checkout ÷ another one, of all that is measured of both and is a cost. */
function ratiosOf({
  sections,
}: Results): { name: string; kind: string; ratio: Spread; rounds: number[] }[] {
  const kinds = { cpu: 'CPU', ...COUNTED };
  return Object.entries(sections).flatMap(([section, data]) =>
    Object.keys(data.series).flatMap((series) =>
      Object.entries(kinds).flatMap(([kind, title]) => {
        // of nothing on both sides, neither costs more
        const place = (target: string): Place => [series, target, kind];
        const rounds = inEachRound(data, place('gateway'), place('base'), (a, b) =>
          a === b ? 1 : a / b,
        );
        const ratio = spreadOf(rounds);
        return ratio === null
          ? []
          : [{ name: `${section}, ${series}: ${title}`, kind, ratio, rounds }];
      }),
    ),
  );
}
