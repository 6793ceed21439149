import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { CHILD_ENV } from '../support/child.ts';
import type { Life } from './world.ts';

/** A real gateway process, to be killed, stopped or suspended. */
export interface GatewayProcess {
  /** Base address of the API, and of the admin listener. */
  readonly url: string;
  readonly adminUrl: string;
  /** Everything it logged. */
  readonly log: string[];
  readonly pid: number;
  signal(name: NodeJS.Signals): void;
  /** Its exit code; null when a signal ended it. */
  readonly exited: Promise<number | null>;
}

/** FAULTS_MAIN names the program of another version, to be compared with this one. */
export const MAIN =
  process.env.FAULTS_MAIN ?? fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const START_MS = 120_000; // as `until`: longer than it takes on a busy machine

/**
 * Starts `tollgate serve`; resolves once it listens, rejects with its last words when it does not.
 * @param main the program; this version's unless given
 */
export async function startProcess(
  life: Life,
  env: Record<string, string>,
  main = MAIN,
): Promise<GatewayProcess> {
  const child = spawn(process.execPath, [main, 'serve'], {
    env: {
      ...CHILD_ENV,
      PORT: '0',
      ADMIN_PORT: '0',
      LOG_LEVEL: 'warn',
      DRAIN_SECONDS: '20',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  life.teardown(() => end(child));
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  const log: string[] = [];
  child.stderr.setEncoding('utf8').on('data', (text: string) => log.push(text));
  const [url, adminUrl] = await addresses(child, exited, log);
  return {
    url,
    adminUrl,
    log,
    pid: child.pid as number,
    exited,
    signal: (name) => void child.kill(name),
  };
}

/** One figure of a gateway's metrics. */
export async function metric(
  gateway: Pick<GatewayProcess, 'adminUrl'>,
  name: string,
): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}

async function addresses(
  child: ChildProcess,
  exited: Promise<unknown>,
  log: string[],
): Promise<[string, string]> {
  const banner = new Promise<[string, string]>((resolve) => {
    let text = '';
    child.stdout?.setEncoding('utf8').on('data', (more: string) => {
      text += more;
      const api = /Base URL\s+(\S+)/.exec(text)?.[1];
      const admin = /Admin URL\s+(\S+)/.exec(text)?.[1];
      if (api !== undefined && admin !== undefined) resolve([api, admin]);
    });
  });
  const timer = new AbortController();
  const late = new Promise<never>((_resolve, reject) => {
    const timeout = setTimeout(
      () => reject(new Error(`no gateway after ${START_MS} ms: ${log.join('')}`)),
      START_MS,
    );
    timer.signal.addEventListener('abort', () => clearTimeout(timeout));
  });
  const died = exited.then((code) => {
    throw new Error(`the gateway exited with ${code}: ${log.join('')}`);
  });
  died.catch(() => {});
  try {
    return await Promise.race([banner, died, late]);
  } finally {
    timer.abort();
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  child.kill('SIGCONT');
  await gone;
}
