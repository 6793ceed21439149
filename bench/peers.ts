import type { ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, openSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually, freePort, LOAD_CORES, startPinned, stop, TEST_CORES, which } from './process.ts';
import type { StreamMode } from './upstream.ts';
import type { Order } from './worker.ts';

/** The programs compared, each alone on the test core while it is measured. */
export const PEERS = ['direct', 'proxy', 'gateway', 'plain', 'base', 'nginx', 'haproxy', 'portkey', 'naive'] as const;
export type PeerName = (typeof PEERS)[number];

/**
 * V8 flags of every Node process under test. A young generation of 32 MB took 4 % off a request in
 * our prototypes; the gateway sets it itself at start, so its yardsticks get it too.
 */
export const NODE_FLAGS = ['--max-semi-space-size=32'];

export interface Peer {
  readonly name: string;
  /** Address to send requests to, with the version prefix. */
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** null where nothing stands between load and upstream. */
  readonly pid: number | null;
  /** Asks the probe inside a gateway (bench/probe.ts). */
  probe(message: 'pause-start' | 'pause-stop' | 'gc'): Promise<{ pauseMs?: number }>;
  /** Empties the log file, so that a long run does not fill the disk. */
  tidy(): void;
  stop(): Promise<void>;
}

export interface Surroundings {
  /** A scratch folder. */
  readonly folder: string;
  readonly upstreamPort: number;
  readonly databaseUrl: string;
  /** A built checkout of another commit: what `base` runs. */
  readonly base?: string | undefined;
}

/** Starts the named peers; one that is not installed is left out, with its reason told. */
export async function startPeers(
  names: readonly PeerName[],
  around: Surroundings,
  say: (text: string) => void,
): Promise<Peer[]> {
  const peers: Peer[] = [];
  for (const name of names) {
    const peer = await startPeer(name, around);
    if (typeof peer === 'string') say(`${name} is left out: ${peer}`);
    else peers.push(peer);
  }
  return peers;
}

async function startPeer(name: PeerName, around: Surroundings): Promise<Peer | string> {
  const upstream = `http://127.0.0.1:${around.upstreamPort}`;
  const port = await freePort();
  switch (name) {
    case 'direct':
      return { ...idle, name, baseUrl: `${upstream}/v1`, headers: {}, pid: null };
    case 'proxy':
    case 'naive': {
      const args = [...NODE_FLAGS, script(`${name}.ts`), '--port', String(port), '--upstream', upstream];
      return peerOf(name, port, startPinned(TEST_CORES, process.execPath, args, quiet));
    }
    case 'gateway':
      return startGateway(around);
    case 'plain':
      return startGateway(around, name, { FAST_HTTP: 'off' });
    case 'base':
      if (around.base === undefined) return 'no --base was given';
      return startGateway(around, name, {}, join(around.base, 'dist/main.js'));
    case 'nginx': {
      const program = which('nginx');
      if (program === null) return 'nginx is not installed';
      const folder = join(around.folder, 'nginx');
      mkdirSync(join(folder, 'logs'), { recursive: true });
      writeFileSync(join(folder, 'nginx.conf'), nginxConfig(port, around.upstreamPort));
      return peerOf(name, port, startPinned(TEST_CORES, program, ['-p', folder, '-c', 'nginx.conf'], quiet));
    }
    case 'haproxy': {
      const program = which('haproxy');
      if (program === null) return 'haproxy is not installed';
      const config = join(around.folder, 'haproxy.cfg');
      writeFileSync(config, haproxyConfig(port, around.upstreamPort));
      return peerOf(name, port, startPinned(TEST_CORES, program, ['-db', '-f', config], quiet));
    }
    case 'portkey': {
      const folder = process.env.BENCH_PORTKEY;
      if (!folder)
        return 'BENCH_PORTKEY names no folder with @portkey-ai/gateway (npm install --prefix DIR @portkey-ai/gateway)';
      const entry = join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js');
      if (!existsSync(entry)) return `@portkey-ai/gateway is not installed in ${folder}`;
      const args = [...NODE_FLAGS, entry, `--port=${port}`, '--headless'];
      return {
        ...(await peerOf(name, port, startPinned(TEST_CORES, process.execPath, args, quiet))),
        headers: { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `${upstream}/v1` },
      };
    }
  }
}

/** One gateway with everything on: authentication, gates, budget, ledger with spool, metrics, log. */
export async function startGateway(
  around: Surroundings,
  name = 'gateway',
  env: Readonly<Record<string, string>> = {},
  entry = gatewayEntry(),
): Promise<Peer> {
  const port = await freePort();
  const folder = join(around.folder, `${name}-${port}`);
  mkdirSync(folder, { recursive: true });
  const log = join(folder, 'log');
  const extra = (process.env.BENCH_NODE_FLAGS ?? '').split(' ').filter((flag) => flag !== '');
  const child = startPinned(
    TEST_CORES,
    process.execPath,
    [...NODE_FLAGS, ...extra, '--import', script('probe.ts'), entry, 'serve'],
    {
      stdio: ['ignore', 'ignore', openSync(log, 'a'), 'ipc'],
      env: { ...(await gatewayEnvironment(around, folder, port)), ...env },
    },
  );
  const peer = await peerOf(name, port, child).catch((error: Error) => {
    throw new Error(`${error.message}\n${readFileSync(log, 'utf8').slice(-2000)}`);
  });
  return {
    ...peer,
    tidy: () => truncateSync(log),
    probe: (message) => ask(child, message),
  };
}

export async function gatewayEnvironment(
  around: Surroundings,
  folder: string,
  port: number,
): Promise<NodeJS.ProcessEnv> {
  return {
    PATH: process.env.PATH,
    PORT: String(port),
    ADMIN_PORT: String(await freePort()),
    DATABASE_URL: around.databaseUrl,
    DATA_DIR: folder,
    UPSTREAM_URL: `http://127.0.0.1:${around.upstreamPort}/v1`,
    UPSTREAM_API_KEY: 'sk-upstream-master',
    LOG_LEVEL: 'info',
  };
}

/** The built program, as it is published. */
export function gatewayEntry(): string {
  return fileURLToPath(new URL('../dist/main.js', import.meta.url));
}

/** The upstream and the load generator, on the load cores. */
export interface Helpers {
  readonly upstreamPort: number;
  mode(mode: StreamMode): Promise<void>;
  /** Gives an order to the load process; two of them, so that one can hold streams open. */
  load(order: Order, holder?: boolean): Promise<LoadAnswer>;
  stop(): Promise<void>;
}

/** What the load process answers; which members depends on the order. */
export interface LoadAnswer {
  readonly done: number;
  readonly events: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly p50: number;
  readonly p99: number;
  readonly firstEventP50: number;
  readonly firstEventP99: number;
}

export async function startHelpers(): Promise<Helpers> {
  const fork = (file: string): ChildProcess =>
    startPinned(LOAD_CORES, process.execPath, [script(file)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const upstream = fork('upstream.ts');
  const { port } = await answerOf<{ port: number }>(upstream);
  const worker = fork('worker.ts');
  const holder = fork('worker.ts');
  return {
    upstreamPort: port,
    mode: async (mode) => {
      await ask(upstream, mode);
    },
    load: (order, hold = false) => ask(hold ? holder : worker, order),
    stop: async () => {
      await Promise.all([stop(worker), stop(holder)]);
      await stop(upstream);
    },
  };
}

async function peerOf(name: string, port: number, child: ChildProcess): Promise<Peer> {
  const baseUrl = `http://127.0.0.1:${port}/v1`;
  const ended = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const attempt = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1' }, () => {
        socket.destroy();
        resolve();
      });
      socket.on('error', reject);
    });
  await eventually(`${name} does not listen`, 20, attempt, ended);
  // taskset replaces itself with the program, so the process started is the one to measure
  return { ...idle, name, baseUrl, headers: {}, pid: child.pid ?? null, stop: () => stop(child) };
}

const idle = {
  probe: () => Promise.resolve({}),
  tidy: () => {},
  stop: () => Promise.resolve(),
};

function ask<T>(child: ChildProcess, message: unknown): Promise<T> {
  const answer = answerOf<T>(child);
  child.send(message as object);
  return answer;
}

function answerOf<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const gone = (): void => reject(new Error('a benchmark process ended'));
    child.once('exit', gone);
    child.once('message', (message) => {
      child.off('exit', gone);
      resolve(message as T);
    });
  });
}

function script(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url));
}

const quiet = { stdio: 'ignore' } as const;

// Passing bytes through, tuned in good faith: one process, keep-alive on both sides, no buffering to
// disk, no access log, and one read large enough for a whole burst packet.
function nginxConfig(port: number, upstreamPort: number): string {
  return `daemon off;
master_process off;
pid nginx.pid;
error_log logs/error.log crit;
worker_rlimit_nofile 20000;
events { worker_connections 16000; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_max_body_size 0;
  client_body_buffer_size 64k;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream router {
    server 127.0.0.1:${upstreamPort};
    keepalive 2048;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://router;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_buffer_size 64k;
      proxy_buffers 4 64k;
      proxy_read_timeout 300s;
    }
  }
}
`;
}

// Without http-no-delay it would hold each event back for up to 200 ms to fill packets.
function haproxyConfig(port: number, upstreamPort: number): string {
  return `global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  option http-keep-alive
  option http-no-delay
  http-reuse always
frontend clients
  bind 127.0.0.1:${port} backlog 4096
  default_backend router
backend router
  server router 127.0.0.1:${upstreamPort} pool-max-conn 4096
`;
}
