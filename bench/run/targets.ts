import { mkdtempSync, openSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installed } from '../../test/faults/pooler.ts';
import { freePort } from '../../test/support/port.ts';
import type { ProbeOrder } from '../programs/probe.ts';
import type { Figures } from '../results.ts';
import { ask, printedBy, startPinned, stop, TEST_CORES, untilListening } from './process.ts';

/**
 * The programs compared, each alone on the test core while it is measured. `plain` is the gateway with
 * FAST_HTTP=off; `base` is the gateway of another checkout. `pipe` only reads and writes, which is the least
 * that a Node program between the two can do. Other gateways are left out of the sections about streams.
 */
export const STREAM_TARGETS = [
  'direct',
  'pipe',
  'proxy',
  'gateway',
  'plain',
  'base',
  'nginx',
  'haproxy',
] as const;
export const TARGETS = [...STREAM_TARGETS, 'litellm'] as const;
export type TargetName = (typeof TARGETS)[number];

/**
 * V8 flags of every Node process under test. The gateway sets a young generation of 32 MB itself at start, which
 * took 4 % off a request; so the programs it is compared with get it too.
 */
const NODE_FLAGS = ['--max-semi-space-size=32'];
/** This checkout. */
export const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url));

export interface Target {
  readonly name: string;
  /** Address to send requests to, with the version prefix. */
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The processes whose CPU is measured; none where nothing stands between load and router. */
  readonly pids: readonly number[];
  /** Asks the probe inside a gateway. */
  probe<Answer = { pauseMs: number }>(order: ProbeOrder): Promise<Answer>;
  /** Empties the log file, so that a long run does not fill the disk. */
  tidy(): void;
  stop(): Promise<void>;
}

/** For what runs without a program under test, or starts its own. */
export const NOTHING: Target = {
  name: 'gateway',
  baseUrl: '',
  headers: {},
  pids: [],
  probe: () => Promise.reject(new Error('there is no probe')),
  tidy: () => {},
  stop: () => Promise.resolve(),
};

export interface Surroundings {
  /** A scratch folder. */
  readonly folder: string;
  readonly routerPort: number;
  readonly databaseUrl: string;
  /** The database of `base`, whose schema may be another. */
  readonly baseDatabaseUrl?: string | undefined;
  /** A built checkout of another commit, which `base` runs. */
  readonly base: string | undefined;
  /** Only shows that everything works: no warm-up, small loads. */
  readonly quick: boolean;
}

/** On a busy machine, or before a warm-up, the load shedder would answer some requests itself. */
export const PATIENT = { MAX_DELAY_MS: '60000' };

/** A command that serves on a port. */
interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  readonly cores?: string;
}

/** Starts a program and waits until it listens. @returns a text when it is not installed */
export async function startTarget(
  name: TargetName,
  around: Surroundings,
): Promise<Target | string> {
  const router = `http://127.0.0.1:${around.routerPort}`;
  const port = await freePort();
  const values = { PORT: port, ROUTER_PORT: around.routerPort };
  switch (name) {
    case 'direct':
      return { ...NOTHING, name, baseUrl: `${router}/v1` };
    case 'pipe':
    case 'proxy':
      return start(
        name,
        port,
        around,
        nodeCommand([script(`${name}.ts`), '--port', `${port}`, '--upstream', router]),
      );
    case 'gateway':
      return startGateway(around, { env: { FAST_HTTP: 'on' } });
    case 'plain':
      return startGateway(around, { name, env: { FAST_HTTP: 'off' } });
    case 'base':
      return startGateway(
        { ...around, databaseUrl: around.baseDatabaseUrl ?? around.databaseUrl },
        { name, checkout: around.base ?? CHECKOUT },
      );
    case 'nginx': {
      const program = installed(name);
      if (program === null) return `${name} is not installed`;
      const config = configure('nginx.conf', around.folder, values);
      const args = ['-p', mkdtempSync(join(around.folder, 'nginx-')), '-c', config];
      return start(name, port, around, { program, args });
    }
    case 'haproxy':
      return startHaproxy(around, [around.routerPort]);
    case 'litellm': {
      const program = process.env.BENCH_LITELLM || installed(name);
      if (program === null) return 'neither BENCH_LITELLM nor PATH names the program litellm';
      const config = configure('litellm.yaml', around.folder, values);
      const args = [
        '--config',
        config,
        '--host',
        '127.0.0.1',
        '--port',
        `${port}`,
        '--num_workers',
        '1',
      ];
      return start(name, port, around, { program, args });
    }
  }
}

/**
 * Starts a gateway with everything on: authentication, gates, budget, ledger with spool, metrics, log.
 * @param options its name, more environment, flags of Node (that of the probe by default), the folder of a built
 *   checkout, and cores
 */
export async function startGateway(
  around: Surroundings,
  {
    name = 'gateway',
    env = {} as NodeJS.ProcessEnv,
    flags = ['--import', script('probe.ts')],
    checkout = CHECKOUT,
    cores = TEST_CORES,
  } = {},
): Promise<Target> {
  const extra = process.env.BENCH_NODE_FLAGS?.split(' ').filter(Boolean) ?? [];
  const port = await freePort();
  return start(name, port, around, {
    ...nodeCommand([...extra, ...flags, join(checkout, 'dist/main.js'), 'serve']),
    cores,
    env: {
      PORT: String(port),
      ADMIN_PORT: String(await freePort()),
      DATABASE_URL: around.databaseUrl,
      UPSTREAM_URL: `http://127.0.0.1:${around.routerPort}/v1`,
      UPSTREAM_API_KEY: 'sk-upstream-master',
      LOG_LEVEL: 'info',
      ...((around.quick || around.base !== undefined) && PATIENT),
      ...env,
    },
  });
}

/** Starts HAProxy before some ports. @returns a text when it is not installed */
export async function startHaproxy(
  around: Surroundings,
  backends: readonly number[],
  cores = TEST_CORES,
): Promise<Target | string> {
  const program = installed('haproxy');
  if (program === null) return 'haproxy is not installed';
  const port = await freePort();
  const servers = backends.map(
    (backend, n) => `  server backend${n} 127.0.0.1:${backend} pool-max-conn 4096`,
  );
  const config = configure('haproxy.cfg', around.folder, {
    PORT: port,
    SERVERS: servers.join('\n'),
  });
  return start('haproxy', port, around, { program, args: ['-db', '-q', '-f', config], cores });
}

async function start(
  name: string,
  port: number,
  around: Surroundings,
  command: Command,
): Promise<Target> {
  const { program, args, cores = TEST_CORES, env } = command;
  const folder = mkdtempSync(join(around.folder, `${name}-`));
  const log = join(folder, 'log');
  const child = startPinned(cores, program, args, {
    stdio: ['ignore', 'ignore', openSync(log, 'a'), 'ipc'],
    env: { PATH: process.env.PATH, DATA_DIR: folder, ...env },
  });
  try {
    await untilListening(name, port, child);
  } catch (error) {
    await stop(child);
    throw new Error(`${name} does not start\n${readFileSync(log, 'utf8').slice(-2000)}`, {
      cause: error,
    });
  }
  return {
    name,
    baseUrl: `http://127.0.0.1:${port}/v1`,
    headers: {},
    pids: [child.pid as number],
    probe: (order) => ask(child, order),
    tidy: () => truncateSync(log),
    stop: () => stop(child),
  };
}

/** Runs a program of the benchmark alone on the test core. @returns the JSON object of figures that it prints */
export async function runProgram(file: string, env: NodeJS.ProcessEnv = {}): Promise<Figures> {
  const { program, args } = nodeCommand([script(file)]);
  return JSON.parse(await printedBy(TEST_CORES, program, args, env)) as Figures;
}

function nodeCommand(args: readonly string[]): Command {
  return { program: process.execPath, args: [...NODE_FLAGS, ...args] };
}

function script(file: string): string {
  return fileURLToPath(new URL(`../programs/${file}`, import.meta.url));
}

/** Writes a configuration of programs/ into a folder, with its ${NAMES} replaced. @returns its path */
function configure(
  file: string,
  folder: string,
  values: Readonly<Record<string, string | number>>,
): string {
  const text = readFileSync(script(file), 'utf8').replace(
    /\$\{(\w+)\}/g,
    (_, name) => `${values[name]}`,
  );
  const path = join(folder, `${values.PORT}-${file}`);
  writeFileSync(path, text);
  return path;
}
