import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startFaultyDemo } from '../../support/demo/server.ts';
import { AGENTS } from './agents.ts';
import type { Client, Ran, Setting } from './client.ts';
import { LIBRARIES } from './libraries.ts';

/**
 * Tries clients of others against the gateway with its demo upstream: installs the latest version
 * of each into a temporary folder, and asks one question that needs a tool. A client passes when it
 * prints a word that only the tool can tell. The arguments name the clients; none: all of them.
 * Exit code 1 when one failed. One that cannot be installed here is skipped.
 */
const INSTALL_MS = 300_000;
const RUN_MS = 120_000;
const NPM = [
  'install',
  '--ignore-scripts',
  '--no-audit',
  '--no-fund',
  '--no-package-lock',
  '--loglevel=error',
];
const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

const names = process.argv.slice(2);
const all = [...LIBRARIES, ...AGENTS];
const unknown = names.filter((name) => !all.some((client) => client.name === name));
if (unknown.length > 0) {
  console.error(
    `No such client: ${unknown.join(', ')}. There are: ${all.map(({ name }) => name).join(', ')}`,
  );
  process.exit(64);
}
const temporary = await mkdtemp(join(tmpdir(), 'tollgate-clients-'));
const gateway = await startGateway(join(temporary, 'gateway'));
const counts = { passed: 0, failed: 0, skipped: 0 };
try {
  for (const client of all) {
    if (names.length > 0 && !names.includes(client.name)) continue;
    const began = performance.now();
    const { result, version, reason } = await tryClient(client);
    counts[result]++;
    const seconds = `${Math.round((performance.now() - began) / 1000)} s`;
    const why = reason === undefined ? '' : `: ${reason}`;
    console.log(
      `${result.padEnd(7)} ${client.name} ${version} (${client.asked}, ${seconds})${why}`,
    );
  }
} finally {
  await gateway.stop();
  await rm(temporary, { recursive: true, force: true });
}
console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exitCode = counts.failed > 0 ? 1 : 0;

interface Result {
  readonly result: keyof typeof counts;
  readonly version: string;
  readonly reason?: string;
}

async function tryClient(client: Client): Promise<Result> {
  const folder = join(temporary, client.name);
  await mkdir(join(folder, 'project'), { recursive: true });
  try {
    const installed = await install(client, folder);
    if (installed.failed) {
      const reason = installed.err.split('\n').filter((line) => /error/i.test(line));
      return {
        result: 'skipped',
        version: '',
        reason: reason.slice(0, 2).join(' ') || reasonOf(installed),
      };
    }
    const version = await versionOf(client, folder);
    const word = `zebra-${randomBytes(4).toString('hex')}`;
    const ran = await runClient(client, { folder, word, url: gateway.url, key: gateway.key });
    if (!ran.failed && ran.out.includes(word)) return { result: 'passed', version };
    return { result: 'failed', version, reason: reasonOf(ran) };
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function install({ packages, from, options = [] }: Client, folder: string): Promise<Ran> {
  if (from === 'npm') {
    await writeFile(join(folder, 'package.json'), '{"private":true,"type":"module"}');
    return run(['npm', ...NPM, ...options, ...packages], folder, INSTALL_MS);
  }
  const venv = await run(['python3', '-m', 'venv', 'venv'], folder, INSTALL_MS);
  if (venv.failed) return venv;
  return run(
    ['venv/bin/pip', 'install', '--quiet', '--retries', '0', ...packages],
    folder,
    INSTALL_MS,
  );
}

async function versionOf({ packages: [name = ''], from }: Client, folder: string): Promise<string> {
  if (from === 'npm') {
    return JSON.parse(await readFile(join(folder, 'node_modules', name, 'package.json'), 'utf8'))
      .version;
  }
  const code = `from importlib.metadata import version; print(version(${JSON.stringify(name)}))`;
  return (await run(['venv/bin/python', '-c', code], folder, RUN_MS)).out.trim();
}

async function runClient(client: Client, setting: Setting): Promise<Ran> {
  const { folder, word, url, key } = setting;
  const { command, files = {}, env = {} } = client.start(setting);
  const written = { 'project/note.txt': `${word}\n`, ...files };
  for (const [path, text] of Object.entries(written)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  const own = { HOME: folder, TOLLGATE_URL: url, TOLLGATE_KEY: key, WORD: word, ...env };
  return run(command, join(folder, 'project'), RUN_MS, own);
}

/** Runs a program to its end, without standard input and with little of this process's environment. */
async function run(
  [file = '', ...args]: readonly string[],
  cwd: string,
  timeout: number,
  env?: Readonly<Record<string, string>>,
): Promise<Ran> {
  const { PATH = '', TMPDIR = tmpdir(), LANG = 'C.UTF-8' } = process.env;
  const options = {
    cwd,
    timeout,
    maxBuffer: 1 << 26,
    env: env ? { PATH, TMPDIR, LANG, ...env } : process.env,
  };
  const running = promisify(execFile)(file, args, { ...options, killSignal: 'SIGKILL' });
  running.child.stdin?.end();
  try {
    const { stdout, stderr } = await running;
    return { failed: false, out: stdout, err: stderr };
  } catch (error) {
    const {
      stdout = '',
      stderr = '',
      killed,
      message,
    } = error as Error & Record<string, string | undefined>;
    return {
      failed: true,
      out: stdout,
      err: killed ? `did not end within ${timeout / 1000} s` : stderr || stdout || message,
    };
  }
}

/** What says most about a failure, in one line. */
function reasonOf({ failed, out, err }: Ran): string {
  if (!failed) return `it printed ${JSON.stringify(out.trim().slice(-300))}`;
  const lines = err.split('\n').map((line) => line.trim());
  const telling = lines.findLast(
    (line) => /error|refused|not found|unsupported/i.test(line) && !/complete log/.test(line),
  );
  return (telling ?? lines.findLast((line) => line !== '') ?? 'it printed nothing').slice(0, 300);
}

/** `make run` on any free port, with a database and a demo upstream of its own, and a model that is silent for longer than a stream may be. */
async function startGateway(
  folder: string,
): Promise<{ url: string; key: string; stop(): Promise<void> }> {
  const { PATH = '', TMPDIR = tmpdir() } = process.env;
  const demo = await startFaultyDemo({ port: 0 });
  const env = {
    PATH,
    TMPDIR,
    PORT: '0',
    ADMIN_PORT: 'off',
    DATA_DIR: folder,
    LOG_LEVEL: 'error',
    UPSTREAM_URL: demo.url,
  };
  const child = spawn(process.execPath, ['src/main.ts', 'serve', '--demo', '--json'], {
    cwd: ROOT,
    env: { ...env, STREAM_KEEPALIVE_SECONDS: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve())).then(() =>
    demo.close(),
  );
  for await (const line of createInterface({ input: child.stdout })) {
    const { base_url: url, key } = JSON.parse(line);
    const model = [
      '--slug',
      'demo-slow',
      '--upstream',
      'demo-chat!pace-1500!events-3',
      '--kind',
      'chat',
    ];
    const terms = ['--eu-hosted', 'true', '--input-price', '0.001', '--output-price', '0.002'];
    const made = await run(
      [process.execPath, 'src/main.ts', 'model', 'create', ...model, ...terms],
      ROOT,
      RUN_MS,
      env,
    );
    if (made.failed) throw new Error(made.err);
    const stop = (): Promise<void> => {
      child.kill();
      return ended;
    };
    return { url, key, stop };
  }
  throw new Error('the gateway did not start');
}
