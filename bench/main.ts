import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { arch, cpus, platform, release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { installed } from '../test/faults/pooler.ts';
import { describeRatios, describeSections, exceeded, writeReport } from './report.ts';
import type { Results } from './results.ts';
import { acceptedCommit, checkoutOf } from './run/base.ts';
import { startDatabase } from './run/database.ts';
import { killStarted, pinSelf } from './run/process.ts';
import { startRig } from './run/rig.ts';
import { runSection } from './run/rounds.ts';
import { CHECKOUT, TARGETS, type TargetName } from './run/targets.ts';
import { FLEET, PAGES, SECTIONS } from './sections/list.ts';

/** Names of sections, in lines for the second column of the usage. */
const listed = (sections: object): string =>
  Object.keys(sections)
    .join(', ')
    .replace(/(.{40,59}), /g, `$1,\n${' '.repeat(20)}`);

const USAGE = `Benchmarks the gateway; rewrites RESULTS.md, FLEET.md, PAGES.md and results.json
in bench/.

  node bench/main.ts [options]

  --only SECTION    may be repeated; others keep their earlier results:
                    ${listed(SECTIONS)}.
                    ${listed(FLEET)} measure several
                    gateways, ${listed(PAGES)} every page: only when they are named
  --rounds N        interleaved rounds (default 5)
  --seconds N       seconds for which each program is measured in a round
                    (default 3)
  --quick           only shows that everything works: one round of 0.2 s without
                    warm-up; writes nothing
  --base COMMIT     compares with another commit, or with a built checkout of
                    it: prints the ratios of CPU and of what is counted, writes
                    nothing. Sections: requests, paced, burst and counts, or
                    what --only names
  --gate            exits with 1 when a ratio is above its bound: with --base
                    the one for the commit before, without it the one for the
                    last release, or until there is one for the commit that
                    bench/run/base.ts names
  --ledger-rows N   rows in the scale and pages sections (default 1000000; the
                    published tables have 10000000, some 5 and 20 GB of disk)
  --companies N     companies and keys in the scale section (default 100000);
                    companies in the pages section (20000 published), with half
                    as many keys in one of them
  --report          measures nothing, only writes the report again, or prints
                    all tables of the sections that --only names

Environment: BENCH_LITELLM names the program litellm of the Python package
litellm[proxy] where it is not in PATH; BENCH_DATABASE_URL a Postgres server on
this machine to use instead of the embedded one; BENCH_NODE_FLAGS more flags for
gateways, such as "--cpu-prof --cpu-prof-dir=DIR".
`;

const ALL = { ...SECTIONS, ...FLEET, ...PAGES };
const FOLDER = fileURLToPath(new URL('.', import.meta.url));

type Options = ReturnType<typeof readOptions>;

/** Runs sections one after the other; each is written down as soon as it is over. One that fails does not end the rest. */
async function measure(options: Options, results: Results): Promise<void> {
  pinSelf();
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  process.once('exit', () =>
    rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }),
  );
  let rig = await startRig();
  const server = await startDatabase(folder);
  try {
    const where = { machine: machine(), versions: versions(server.version) };
    say(`${where.machine}\n${where.versions}`);
    const databaseUrl = await server.seeded();
    const baseDatabaseUrl = options.base && (await server.seeded({}, options.base));
    const { rounds, seconds } = options;
    const began = performance.now();
    for (const name of options.only) {
      const section = ALL[name];
      if (section === undefined) continue;
      const bench = {
        ...options,
        folder,
        rig,
        routerPort: rig.routerPort,
        server,
        databaseUrl,
        baseDatabaseUrl,
        say,
      };
      say(`\n${section.heading} (${((performance.now() - began) / 60_000).toFixed(1)} min so far)`);
      const series = await runSection(section, bench).catch(
        (error) => void console.error(`${name} failed:`, error),
      );
      if (series === undefined) {
        process.exitCode = 1;
        killStarted(); // its load would go on beside the next one
        rig = await startRig();
        continue;
      }
      results.sections[name] = {
        taken: new Date().toISOString().slice(0, 10),
        rounds,
        seconds,
        notes: [section.note(bench)],
        ...where,
        series,
      };
      if (!options.quick && options.base === undefined) write(results);
    }
  } finally {
    await rig.stop();
    await server.stop();
  }
  if (options.base === undefined) return;
  process.stdout.write(`\n${describeRatios(results)}`);
  if (!options.gate) return;
  const more = exceeded(results, options.accepted ? 'accepted' : 'before');
  for (const line of more) console.error(line);
  if (more.length > 0) process.exitCode = 1;
}

function write(results: Results): void {
  writeFileSync(join(FOLDER, 'results.json'), `${JSON.stringify(results, null, 1)}\n`);
  for (const [file, text] of Object.entries(writeReport(results)))
    writeFileSync(join(FOLDER, file), text);
  say('wrote bench/RESULTS.md, FLEET.md, PAGES.md and results.json');
}

function machine(): string {
  return `${cpus().length} × ${cpus()[0]?.model.trim()}, ${platform()} ${release().split('-')[0]} ${arch()}`;
}

/** "Node 26.10.0, undici 8.12.4, …": all that is installed and takes part. */
function versions(database: string): string {
  const parts = [`Node ${process.versions.node}`, `undici ${packageVersion('undici')}`, database];
  for (const name of ['nginx', 'haproxy', 'wrk']) {
    const text = execFileSync('sh', ['-c', '"$0" -v 2>&1 || true', installed(name) ?? 'false'], {
      encoding: 'utf8',
    });
    const version = /(?:nginx\/|version |wrk (?:debian\/)?)([\d.]+)/.exec(text)?.[1];
    if (version !== undefined) parts.push(`${name} ${version}`);
  }
  parts.push(`autocannon ${packageVersion('autocannon')}`);
  const litellm = process.env.BENCH_LITELLM || installed('litellm');
  if (litellm)
    parts.push(
      `LiteLLM ${/= (\S+)/.exec(execFileSync(litellm, ['--version'], { encoding: 'utf8' }))?.[1]}`,
    );
  return parts.join(', ');
}

function packageVersion(name: string, folder = CHECKOUT): string {
  const path = join(folder, 'node_modules', name, 'package.json');
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).version : 'missing';
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** @throws TypeError when an option is wrong */
function readOptions() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '3' },
      quick: { type: 'boolean', default: false },
      gate: { type: 'boolean', default: false },
      base: { type: 'string' },
      'ledger-rows': { type: 'string', default: '1000000' },
      companies: { type: 'string', default: '100000' },
      report: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    process.exit(0);
  }
  const { quick, report } = values;
  const base = values.base ?? (values.gate ? acceptedCommit() : undefined);
  if (!report && !existsSync(join(CHECKOUT, 'dist/main.js')))
    throw new TypeError(`${CHECKOUT} has no dist/main.js: build it first`);
  const number = (
    name: 'rounds' | 'seconds' | 'ledger-rows' | 'companies',
    whenQuick: number,
  ): number => {
    const value = Number(values[name]);
    if (!(value > 0)) throw new TypeError(`--${name} must be a number above 0`);
    return quick ? whenQuick : value;
  };
  const only =
    values.only ??
    (base === undefined ? Object.keys(SECTIONS) : ['requests', 'paced', 'burst', 'counts']);
  for (const name of only)
    if (!Object.hasOwn(ALL, name)) throw new TypeError(`there is no section ${name}`);
  // the first program meets a cold router and load generator, and V8 compiles it for that: a tenth of its CPU
  const targets: readonly TargetName[] =
    base === undefined ? TARGETS.filter((name) => name !== 'base') : ['direct', 'gateway', 'base'];
  return {
    only,
    rounds: number('rounds', 1),
    seconds: number('seconds', 0.2),
    quick,
    targets,
    base: base && checkoutOf(base),
    gate: values.gate,
    /** Compared with the commit at which costs were last accepted, and not with one that was named. */
    accepted: values.base === undefined,
    ledgerRows: number('ledger-rows', 1000),
    companies: number('companies', 100),
    report,
  };
}

process.on('SIGINT', () => process.exit(130));
process.on('SIGTERM', () => process.exit(143));
let options: Options | undefined;
try {
  options = readOptions();
  const results: Results = JSON.parse(readFileSync(join(FOLDER, 'results.json'), 'utf8'));
  if (options.base !== undefined) results.sections = {};
  if (options.report && process.argv.includes('--only')) {
    const named = Object.fromEntries(options.only.map((name) => [name, ALL[name]]));
    process.stdout.write(
      `${describeSections(named, results, Number.POSITIVE_INFINITY).join('\n\n')}\n`,
    );
  } else if (options.report) write(results);
  else await measure(options, results);
} catch (error) {
  console.error(options === undefined ? `${(error as Error).message}\n\n${USAGE}` : error);
  process.exit(options === undefined ? 64 : 1);
}
