import { compared, type Results, reading, type Section, type Spread } from './results.ts';

/** The whole of RESULTS.md. */
export function writeReport(results: Results): string {
  const { requests, paced, burst, open, bodies, metering, start, scale, scanner } = results.sections;
  const blocks = [
    '# Benchmark results',
    'Written by `make bench`; do not edit. Medians of interleaved rounds, lowest to highest in brackets; quotients are ' +
      'taken within each round. One process under test alone on core 0; load, upstream and Postgres on the rest. ' +
      'CPU is what the operating system counts for the process, all threads, divided by the work done. The gateway runs with ' +
      'everything on: authentication, gates, budget, ledger with spool, metrics, one log line per request. The other programs ' +
      'pass bytes through and do none of that.',
    `Machine: ${results.machine}  \nVersions: ${results.versions}`,
    '![CPU per request and per event](comparison.svg)',
    '## Targets',
    table(['what', 'at least', 'goal', 'measured', ''], targets(results).map(targetRow)),
    ...section('Non-streaming chat requests (1 KiB in, 1 KiB out)', requests, requestsTable),
    ...section('Paced streams, one event per packet', paced, eventsTable),
    ...section('Burst streams, 200 events in four packets', burst, eventsTable),
    ...section('Requests beside 2,000 open streams', open, openTable),
    ...section('Request bodies', bodies, bodiesTable),
    ...section('Metering', metering, meteringTable),
    ...section('Start and idle memory', start, startTable),
    ...section('Companies, keys and ledger rows', scale, scaleTable),
    ...section('Byte machines alone', scanner, scannerTable),
  ];
  return `${blocks.join('\n\n')}\n`;
}

/** One row of the issue's target table. */
interface Target {
  readonly what: string;
  readonly least: number;
  readonly goal: number;
  readonly unit: string;
  /** Whether more is better. */
  readonly rising?: boolean;
  readonly measured: Spread | null;
}

export function targets({ sections }: Results): Target[] {
  const { requests, paced, burst, open, bodies, metering, start, scale } = sections;
  const against = (section: Section | undefined, series: string, peer: string): Spread | null =>
    compared(section, [series, 'gateway'], [series, peer], 'cpu');
  const rows: Target[] = [
    {
      what: 'CPU per request ÷ do-nothing Node proxy',
      least: 1.05,
      goal: 0.95,
      unit: '',
      measured: against(requests, 'autocannon', 'proxy'),
    },
    {
      what: 'CPU per request ÷ nginx',
      least: 2.5,
      goal: 2.2,
      unit: '',
      measured: against(requests, 'autocannon', 'nginx'),
    },
    {
      what: 'Portkey ÷ gateway, CPU per request',
      least: 13,
      goal: 14,
      unit: '',
      rising: true,
      measured: compared(requests, ['autocannon', 'portkey'], ['autocannon', 'gateway'], 'cpu'),
    },
  ];
  for (const series of ['100 streams', '1000 streams']) {
    rows.push({
      what: `CPU per paced event ÷ do-nothing proxy, ${series}`,
      least: 0.95,
      goal: 0.8,
      unit: '',
      measured: against(paced, series, 'proxy'),
    });
  }
  for (const series of ['one HTTP chunk per packet', 'one HTTP chunk per event']) {
    rows.push({
      what: `CPU added per burst event over the proxy, ${series}`,
      least: 0.5,
      goal: 0.3,
      unit: 'µs',
      measured: compared(burst, [series, 'gateway'], [series, 'proxy'], 'cpu', (a, b) => a - b),
    });
  }
  rows.push({
    what: 'CPU per request, 2,000 streams open ÷ none',
    least: 1.2,
    goal: 1.1,
    unit: '',
    measured: compared(open, ['beside', 'gateway'], ['alone', 'gateway'], 'cpu'),
  });
  for (const size of ['16 KiB text', '16 KiB image', '1 MiB text', '1 MiB image', '20 MiB text', '20 MiB image']) {
    rows.push({
      what: `CPU per request of ${size} ÷ do-nothing proxy`,
      least: 1.5,
      goal: 1.3,
      unit: '',
      measured: against(bodies, size, 'proxy'),
    });
  }
  for (const kind of ['text', 'image']) {
    rows.push({
      what: `longest event-loop pause, 20 MiB ${kind}`,
      least: 20,
      goal: 10,
      unit: 'ms',
      measured: reading(bodies, `pause ${kind}`, 'gateway', 'pause'),
    });
  }
  rows.push(
    {
      what: 'gateway CPU per ledger row',
      least: 5,
      goal: 3,
      unit: 'µs',
      measured: reading(metering, 'ledger', 'gateway', 'cpu'),
    },
    {
      what: 'ledger rows/s into local Postgres',
      least: 10_000,
      goal: 20_000,
      unit: '/s',
      rising: true,
      measured: reading(metering, 'ledger', 'gateway', 'rate'),
    },
    {
      what: 'resident memory, idle',
      least: 90,
      goal: 70,
      unit: 'MB',
      measured: reading(start, 'start', 'gateway', 'idle'),
    },
    {
      what: 'resident memory per open stream',
      least: 60,
      goal: 40,
      unit: 'KiB',
      measured: reading(open, 'beside', 'gateway', 'collected'),
    },
    {
      what: 'start to first answer',
      least: 500,
      goal: 300,
      unit: 'ms',
      measured: reading(start, 'start', 'gateway', 'ms'),
    },
    {
      what: 'CPU per request, many companies and keys ÷ one',
      least: 1.15,
      goal: 1.1,
      unit: '',
      measured: compared(scale, ['scale', 'companies'], ['scale', 'small'], 'cpu'),
    },
    {
      what: 'CPU per request, many ledger rows ÷ none',
      least: 1.15,
      goal: 1.1,
      unit: '',
      measured: compared(scale, ['scale', 'ledger'], ['scale', 'small'], 'cpu'),
    },
  );
  return rows;
}

function targetRow({ what, least, goal, unit, rising = false, measured }: Target): string[] {
  const sign = rising ? '≥' : '≤';
  const want = (value: number): string =>
    `${sign} ${value.toLocaleString('en')}${unit === '/s' ? '/s' : unit && ` ${unit}`}`;
  return [what, want(least), want(goal), spread(measured, unit), verdict(measured, least, goal, rising)];
}

function verdict(measured: Spread | null, least: number, goal: number, rising: boolean): string {
  if (measured === null) return 'not measured';
  const reached = (limit: number): boolean => (rising ? measured.median >= limit : measured.median <= limit);
  return reached(goal) ? 'goal' : reached(least) ? 'at least' : 'missed';
}

function section(title: string, data: Section | undefined, body: (data: Section) => string): string[] {
  if (data === undefined) return [`## ${title}`, 'Not measured yet.'];
  const how = `${data.rounds} rounds of ${data.seconds} s each, ${data.taken}.`;
  return [`## ${title}`, [how, ...data.notes].join(' '), body(data)];
}

/** What readers see instead of the short names. */
export const LABELS: Readonly<Record<string, string>> = {
  direct: 'direct, nothing between',
  proxy: 'do-nothing Node proxy',
  gateway: '**Tollgate**',
  plain: 'Tollgate, `FAST_HTTP=off`',
  nginx: 'nginx, passing through',
  haproxy: 'HAProxy, passing through',
  portkey: 'Portkey gateway',
  naive: 'naive Node proxy',
};

function programs(data: Section, series: string): string[] {
  const names = Object.keys(data.series[series] ?? {});
  return Object.keys(LABELS).filter((name) => names.includes(name));
}

function requestsTable(data: Section): string {
  const tables = Object.keys(data.series).map((generator) => {
    const rows = programs(data, generator).map((name) => [
      LABELS[name] as string,
      name === 'direct' ? '' : spread(reading(data, generator, name, 'cpu')),
      name === 'direct' ? '' : quotient(data, generator, name),
      number(reading(data, generator, name, 'rate')?.median),
      number(reading(data, generator, name, 'p50')?.median),
      number(reading(data, generator, name, 'p99')?.median),
    ]);
    return table(
      [`load by ${generator}`, 'CPU µs per request', '÷ do-nothing proxy', 'requests/s', 'p50 ms', 'p99 ms'],
      rows,
    );
  });
  return tables.join('\n\n');
}

function eventsTable(data: Section): string {
  const tables = Object.keys(data.series).map((series) => {
    const timed = reading(data, series, 'proxy', 'firstEventP50') !== null;
    const rows = programs(data, series).map((name) => {
      const cells = [
        LABELS[name] as string,
        name === 'direct' ? '' : spread(reading(data, series, name, 'cpu')),
        name === 'direct' ? '' : quotient(data, series, name),
        number(reading(data, series, name, 'rate')?.median),
      ];
      if (timed) cells.push(number(reading(data, series, name, 'firstEventP50')?.median));
      return cells;
    });
    const head = [series, 'CPU µs per event', '÷ do-nothing proxy', 'events/s'];
    return table(timed ? [...head, 'first event, p50 ms'] : head, rows);
  });
  return tables.join('\n\n');
}

function openTable(data: Section): string {
  const rows = programs(data, 'alone').map((name) => [
    LABELS[name] as string,
    spread(reading(data, 'alone', name, 'cpu')),
    spread(reading(data, 'beside', name, 'cpu')),
    spread(compared(data, ['beside', name], ['alone', name], 'cpu')),
    number(reading(data, 'beside', name, 'memory')?.median),
    name === 'gateway' ? number(reading(data, 'beside', name, 'collected')?.median) : '',
  ]);
  return table(
    ['through', 'µs per request, alone', 'beside 2,000 streams', 'quotient', 'KiB per stream', 'after a collection'],
    rows,
  );
}

function bodiesTable(data: Section): string {
  const rows: string[][] = [];
  for (const series of Object.keys(data.series).filter((name) => !name.startsWith('pause'))) {
    for (const name of programs(data, series)) {
      const cpu = spread(reading(data, series, name, 'cpu'));
      rows.push([
        series,
        LABELS[name] as string,
        cpu,
        quotient(data, series, name),
        number(reading(data, series, name, 'rate')?.median),
      ]);
    }
  }
  return table(['body', 'through', 'CPU µs per request', '÷ do-nothing proxy', 'requests/s'], rows);
}

function meteringTable(data: Section): string {
  const kinds = Object.keys(data.series.ledger?.gateway ?? {});
  return table(
    ['what', 'measured'],
    kinds.map((kind) => [METERING[kind] ?? kind, spread(reading(data, 'ledger', 'gateway', kind))]),
  );
}

const METERING: Readonly<Record<string, string>> = {
  cpu: 'gateway CPU per ledger row at 10,000 rows/s, µs',
  share: 'what one request pays before its answer may end, spool included, µs',
  rate: 'rows/s into Postgres when they wait in line, until committed',
};

function startTable(data: Section): string {
  return table(
    ['what', 'measured'],
    [
      ['start to first answer', spread(reading(data, 'start', 'gateway', 'ms'), 'ms')],
      ['resident memory, idle', spread(reading(data, 'start', 'gateway', 'idle'), 'MB')],
    ],
  );
}

function scaleTable(data: Section): string {
  const names = {
    small: '1 company and key, no ledger rows',
    companies: 'many companies and keys',
    ledger: 'many ledger rows',
  };
  const rows = Object.entries(names).map(([name, label]) => [
    label,
    spread(reading(data, 'scale', name, 'cpu')),
    spread(compared(data, ['scale', name], ['scale', 'small'], 'cpu')),
    number(reading(data, 'scale', name, 'rate')?.median),
  ]);
  return table(['database', 'CPU µs per request', '÷ small', 'requests/s'], rows);
}

function scannerTable(data: Section): string {
  const rows = Object.keys(data.series).map((series) => [series, spread(reading(data, series, 'gateway', 'nanos'))]);
  return table(['what', 'ns'], rows);
}

function quotient(data: Section, series: string, name: string): string {
  return name === 'proxy' ? '1' : spread(compared(data, [series, name], [series, 'proxy'], 'cpu'));
}

function spread(values: Spread | null, unit = ''): string {
  if (values === null) return '–';
  const suffix = unit === '' ? '' : unit === '/s' ? '/s' : ` ${unit}`;
  return `${number(values.median)}${suffix} (${number(values.low)}–${number(values.high)})`;
}

function number(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return '–';
  const size = Math.abs(value);
  return value.toLocaleString(
    'en',
    size >= 100
      ? { maximumFractionDigits: 0 }
      : size >= 10
        ? { minimumFractionDigits: 1, maximumFractionDigits: 1 }
        : { minimumFractionDigits: 2, maximumFractionDigits: 2 },
  );
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}
