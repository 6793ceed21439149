import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startDatabase } from './database.ts';
import { gatewayEntry, PEERS, type PeerName, startHelpers } from './peers.ts';
import { drawComparison } from './picture.ts';
import { canPin, pinSelf, which } from './process.ts';
import { writeReport } from './report.ts';
import {
  compared,
  describeMachine,
  loadResults,
  Recorder,
  type Results,
  type Section,
  saveResults,
} from './results.ts';
import { type Bench, SECTIONS } from './sections.ts';

const USAGE = `Benchmarks the gateway; rewrites RESULTS.md, results.json and comparison.svg in bench/.

  node bench/main.ts [options]

  --only SECTION    one of ${Object.keys(SECTIONS).join(', ')}; may be repeated. Others keep their earlier results
  --rounds N        interleaved rounds (default 5; with --quick 3)
  --seconds N       seconds each program is measured in a round (default 3; with --quick 1)
  --quick           a rough look: some ten minutes instead of thirty
  --generator NAME  autocannon or wrk for non-streaming requests (default: autocannon, then wrk where installed)
  --peers LIST      programs to compare, of ${PEERS.join(',')}
  --ledger-rows N   rows for the scale section (default 1000000; the published table has 10000000, some 5 GB of disk)
  --companies N     companies and keys for the scale section (default 100000)
  --base DIR        compare with DIR, a built checkout of another commit: both run in turn within each round, and
                    the ratios of their CPU per request and event are printed. Writes nothing. Sections: requests,
                    paced and burst, or what --only names
  --report          measure nothing, only write the report again
  --dry-run         measure, but write nothing

Environment: BENCH_PORTKEY names a folder where "npm install @portkey-ai/gateway" was run;
BENCH_DATABASE_URL a Postgres server to use instead of the embedded one; BENCH_NODE_FLAGS
more flags for the gateway, such as "--cpu-prof --cpu-prof-dir=DIR".
`;

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const RESULTS = join(FOLDER, 'results.json');

interface Options {
  readonly only: readonly string[];
  readonly rounds: number;
  readonly seconds: number;
  readonly generators: Bench['generators'];
  readonly peers: readonly PeerName[];
  readonly ledgerRows: number;
  readonly companies: number;
  readonly base: string | undefined;
  readonly reportOnly: boolean;
  readonly dryRun: boolean;
}

async function main(options: Options): Promise<void> {
  const results = loadResults(RESULTS);
  if (options.reportOnly) write(results);
  else await measure(options, results);
}

/** Sections one after the other; each is written down as soon as it is over. */
async function measure(options: Options, results: Results): Promise<void> {
  if (process.platform !== 'linux') throw new Error('CPU time is read from /proc: the benchmark needs Linux');
  if (options.peers.includes('gateway') && !existsSync(gatewayEntry())) {
    throw new Error('the gateway is not built: run "make bench", or "npx tsc" first');
  }
  pinSelf();
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  const helpers = await startHelpers();
  try {
    // a run without the gateway needs no database
    const server = options.peers.includes('gateway') ? await startDatabase(folder) : null;
    try {
      results.machine = describeMachine(canPin);
      results.versions = versions(server?.version ?? '');
      say(`${results.machine}\n${results.versions}`);
      const databaseUrl = (await server?.seeded({ companies: 1, ledgerRows: 0 })) ?? '';
      const bench: Bench = { ...options, folder, helpers, server, databaseUrl, say };
      const began = performance.now();
      for (const [index, name] of options.only.entries()) {
        const section = SECTIONS[name];
        if (section === undefined || (server === null && section.alone)) continue;
        const minutes = ((performance.now() - began) / 60_000).toFixed(1);
        say(`\n[${index + 1}/${options.only.length}] ${section.title} (${minutes} min so far)`);
        const record = new Recorder();
        const notes = await section.run(bench, record);
        results.sections[name] = {
          taken: new Date().toISOString().slice(0, 10),
          rounds: options.rounds,
          seconds: options.seconds,
          notes,
          series: record.series,
        };
        if (!options.dryRun) write(results);
      }
      if (options.base !== undefined) process.stdout.write(ratios(options.only.map((name) => results.sections[name])));
      if (databaseUrl !== '') await server?.drop(databaseUrl);
    } finally {
      await server?.stop();
    }
  } finally {
    await helpers.stop();
  }
}

/** New ÷ old, one line for each series that both checkouts ran. */
function ratios(sections: readonly (Section | undefined)[]): string {
  let text = '\nCPU of this checkout divided by that of --base, within each round:   median    min    max\n';
  for (const section of sections) {
    for (const series of Object.keys(section?.series ?? {})) {
      const ratio = compared(section, [series, 'gateway'], [series, 'base'], 'cpu');
      if (ratio === null) continue;
      const figures = [ratio.median, ratio.low, ratio.high].map((value) => value.toFixed(3).padStart(6)).join(' ');
      text += `${series.padEnd(67)}${figures}\n`;
    }
  }
  return text;
}

function write(results: Results): void {
  saveResults(RESULTS, results);
  writeFileSync(join(FOLDER, 'RESULTS.md'), writeReport(results));
  writeFileSync(join(FOLDER, 'comparison.svg'), drawComparison(results));
  say('wrote bench/RESULTS.md, results.json and comparison.svg');
}

function versions(database: string): string {
  const parts = [`Node ${process.versions.node}`, `undici ${packageVersion('undici')}`];
  if (database !== '') parts.push(database);
  const program = (name: string, args: string[], pattern: RegExp): void => {
    const path = which(name);
    if (path === null) return;
    try {
      const text = execFileSync('sh', ['-c', '"$0" "$@" 2>&1 || true', path, ...args], { encoding: 'utf8' });
      const version = pattern.exec(text)?.[1];
      if (version) parts.push(`${name} ${version}`);
    } catch {
      // told by its absence
    }
  };
  program('nginx', ['-v'], /nginx\/([\d.]+)/);
  program('haproxy', ['-v'], /version ([\d.]+)/);
  program('wrk', ['-v'], /wrk (?:debian\/)?([\d.]+)/);
  parts.push(`autocannon ${packageVersion('autocannon')}`);
  const portkey = process.env.BENCH_PORTKEY;
  if (portkey) parts.push(`@portkey-ai/gateway ${packageVersion('@portkey-ai/gateway', portkey)}`);
  return parts.join(', ');
}

function packageVersion(name: string, folder = join(FOLDER, '..')): string {
  const path = join(folder, 'node_modules', name, 'package.json');
  if (!existsSync(path)) return 'missing';
  return (JSON.parse(execFileSync('cat', [path], { encoding: 'utf8' })) as { version: string }).version;
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      quick: { type: 'boolean', default: false },
      generator: { type: 'string' },
      peers: { type: 'string' },
      base: { type: 'string' },
      'ledger-rows': { type: 'string', default: process.env.BENCH_LEDGER_ROWS ?? '1000000' },
      companies: { type: 'string', default: '100000' },
      report: { type: 'boolean', default: false },
      'dry-run': { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    process.exit(0);
  }
  const whole = (name: string, text: string): number => {
    if (!/^\d+$/.test(text)) throw new TypeError(`--${name} must be a whole number`);
    return Number(text);
  };
  if (values.base !== undefined && !existsSync(join(values.base, 'dist/main.js'))) {
    throw new TypeError(`${values.base} has no dist/main.js: --base takes a built checkout`);
  }
  const installed = which('wrk') === null ? ['autocannon'] : ['autocannon', 'wrk'];
  const generators = values.generator ? [values.generator] : values.base ? installed.slice(-1) : installed;
  for (const name of generators) {
    if (name !== 'wrk' && name !== 'autocannon') throw new TypeError('--generator must be wrk or autocannon');
  }
  const only = values.only ?? (values.base ? ['requests', 'paced', 'burst'] : Object.keys(SECTIONS));
  for (const name of only) if (!(name in SECTIONS)) throw new TypeError(`there is no section ${name}`);
  const peers = (
    values.peers ?? (values.base ? 'gateway,base' : PEERS.filter((name) => name !== 'base').join(','))
  ).split(',') as PeerName[];
  for (const name of peers) if (!PEERS.includes(name)) throw new TypeError(`there is no program ${name}`);
  return {
    only,
    rounds: whole('rounds', values.rounds ?? (values.quick ? '3' : '5')),
    seconds: whole('seconds', values.seconds ?? (values.quick ? '1' : '3')),
    generators: generators as Bench['generators'],
    peers,
    ledgerRows: whole('ledger-rows', values['ledger-rows']),
    companies: whole('companies', values.companies),
    reportOnly: values.report,
    base: values.base === undefined ? undefined : resolve(values.base),
    dryRun: values['dry-run'] || values.base !== undefined,
  };
}

process.setMaxListeners(64); // each program started listens for the end of this one
process.on('SIGINT', () => process.exit(130));
process.on('SIGTERM', () => process.exit(143));
try {
  await main(readOptions());
} catch (error) {
  const wrong = error instanceof TypeError;
  console.error(wrong ? `${error.message}\n\n${USAGE}` : error);
  process.exit(wrong ? 64 : 1);
}
