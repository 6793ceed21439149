import { planFleet } from './plan.ts';
import { compared, type Results, reading, type SectionResults } from './results.ts';
import type { Section } from './run/rounds.ts';
import { FLEET, PAGES, SECTIONS } from './sections/list.ts';
import { goalTable, spread, table } from './tables.ts';

/** The whole of RESULTS.md. */
export function writeReport(results: Results): string {
  const { machine, versions, sections } = results;
  const goals = Object.entries(SECTIONS).flatMap(([name, section]) => section.goals?.(sections[name]) ?? []);
  const blocks = [
    '# Benchmark results',
    'Written by `make bench`; do not edit. [README.md](README.md) says what is measured and how to read it. Medians of ' +
      'interleaved rounds, lowest to highest in brackets; quotients are taken within each round. One process under test ' +
      'alone on core 0; load, upstream and Postgres on the rest. ' +
      'CPU is what the operating system counts for the process, all threads, divided by the work done. The gateway runs with ' +
      'everything on: authentication, gates, budget, ledger with spool, metrics, one log line per request. The other programs ' +
      'pass bytes through and do none of that.',
    `Machine: ${machine}  \nVersions: ${versions}`,
    '## Targets',
    goalTable(goals),
    '## What the fast path saves',
    fastPath(results),
    ...describeSections(SECTIONS, results),
  ];
  return `${blocks.join('\n\n')}\n`;
}

const SPREADS = 'Medians of rounds, lowest to highest in brackets.';

/** The whole of FLEET.md. */
export function writeFleet(results: Results): string {
  const plan = ['## A million requests a second', planFleet(results)];
  return writePage('A fleet on one Postgres', 'fleet', [SPREADS, ...describeSections(FLEET, results), ...plan]);
}

/** The whole of PAGES.md. */
export function writePages(results: Results): string {
  return writePage('Pages', 'pages', describeSections(PAGES, results));
}

function writePage(title: string, chapter: string, blocks: readonly string[]): string {
  const intro = `Written by \`make bench\`; do not edit. [README.md](README.md#${chapter}) says what is measured.`;
  return `${[`# ${title}`, intro, ...blocks].join('\n\n')}\n`;
}

function describeSections(sections: Readonly<Record<string, Section>>, results: Results): string[] {
  return Object.entries(sections).flatMap(([name, { heading, table, ownTime }]) => {
    const data = results.sections[name];
    if (data === undefined) return [`## ${heading}`, 'Not measured yet.'];
    const { rounds, seconds, taken, notes } = data;
    const how = `${rounds} rounds${ownTime ? '' : ` of ${seconds} s each`}, ${taken}. ${notes.join(' ')}`;
    return [`## ${heading}`, how.trim(), table(data)];
  });
}

/** CPU with FAST_HTTP=on and off, of every series that was measured with both. */
function fastPath({ sections }: Results): string {
  const rows = seriesOf(Object.keys(SECTIONS).map((name) => [name, sections[name]])).flatMap(([name, data, series]) => {
    const off = reading(data, series, 'plain', 'cpu');
    if (off === null) return [];
    const on = reading(data, series, 'gateway', 'cpu');
    const ratio = compared(data, [series, 'plain'], [series, 'gateway']);
    return [[`${name}, ${series}`, spread(on), spread(off), spread(ratio)]];
  });
  if (rows.length === 0) return 'Not measured yet.';
  return table(['CPU µs per request or event', '`FAST_HTTP=on`', '`FAST_HTTP=off`', 'off ÷ on'], rows);
}

/** Ratios of CPU of this checkout and another one, new ÷ old, for people at a terminal. */
export function describeRatios(sections: Readonly<Record<string, SectionResults>>): string {
  const lines = [`${'CPU, this checkout ÷ --base within each round'.padEnd(52)} median    min    max`];
  for (const [name, data, series] of seriesOf(Object.entries(sections))) {
    const ratio = compared(data, [series, 'gateway'], [series, 'base']);
    if (ratio === null) continue;
    const figures = [ratio.median, ratio.low, ratio.high].map((figure) => figure.toFixed(3).padStart(6));
    lines.push(`${`${name}, ${series}`.padEnd(52)} ${figures.join(' ')}`);
  }
  return `${lines.join('\n')}\n`;
}

function seriesOf(sections: readonly (readonly [string, SectionResults | undefined])[]) {
  return sections.flatMap(([name, data]) =>
    Object.keys(data?.series ?? {}).map((series) => [name, data as SectionResults, series] as const),
  );
}
