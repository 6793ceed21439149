import { type ChildProcess, execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseTarget, requestBytes } from './client.ts';
import type { DatabaseServer } from './database.ts';
import { benchKey, chatBody } from './payload.ts';
import {
  gatewayEntry,
  gatewayEnvironment,
  type Helpers,
  NODE_FLAGS,
  PEERS,
  type Peer,
  type PeerName,
  startGateway,
  startPeers,
} from './peers.ts';
import {
  canPin,
  cpuMicros,
  freePort,
  LOAD_CORES,
  residentBytes,
  sleep,
  startPinned,
  stop,
  TEST_CORES,
  which,
} from './process.ts';
import type { Recorder } from './results.ts';
import type { Load } from './worker.ts';

/** What a section needs to run. */
export interface Bench {
  readonly folder: string;
  readonly rounds: number;
  readonly seconds: number;
  readonly helpers: Helpers;
  /** null when the gateway is not among the peers. */
  readonly server: DatabaseServer | null;
  /** Database with one company and no ledger rows. */
  readonly databaseUrl: string;
  readonly generators: readonly ('wrk' | 'autocannon')[];
  /** Names of peers to measure where a section compares peers. */
  readonly peers: readonly PeerName[];
  readonly ledgerRows: number;
  readonly companies: number;
  /** A built checkout of another commit, run as the target `base`. */
  readonly base: string | undefined;
  say(text: string): void;
}

export interface SectionRun {
  readonly title: string;
  /** Measures the gateway alone. */
  readonly alone?: boolean;
  run(bench: Bench, record: Recorder): Promise<string[]>;
}

/** Every section in the order of the report; each returns notes for its reader. */
export const SECTIONS: Readonly<Record<string, SectionRun>> = {
  requests: { title: 'Non-streaming requests', run: requests },
  paced: { title: 'Paced streams', run: paced },
  burst: { title: 'Burst streams', run: burst },
  open: { title: 'Requests beside 2,000 open streams', run: openStreams },
  bodies: { title: 'Request bodies', run: bodies },
  metering: { title: 'Metering', alone: true, run: metering },
  start: { title: 'Start and idle memory', alone: true, run: start },
  scale: { title: 'Companies, keys and ledger rows', alone: true, run: scale },
  scanner: { title: 'Scanner', alone: true, run: scanner },
};

const CONNECTIONS = 64;
const OPEN_STREAMS = 2000;
/** V8 goes on optimising a gateway for some 50,000 requests. */
const WARM_SECONDS = 6;

/** 1 KiB in, 1 KiB out, 64 connections, each request followed by the next; with each load generator there is. */
async function requests(bench: Bench, record: Recorder): Promise<string[]> {
  await bench.helpers.mode({ mode: 'burst' });
  await withPeers(bench, PEERS, async (peers) => {
    for (const generator of bench.generators) {
      const measure = requestGenerator(bench, generator);
      bench.say(`load by ${generator}`);
      await rounds(bench, peers, async (peer, warm) => {
        const { cpu, done, p50, p99 } = await measure(peer, warm ? WARM_SECONDS : bench.seconds);
        if (!warm) record.add(generator, peer.name, { cpu: cpu / done, rate: done / bench.seconds, p50, p99 });
        return peer.pid === null ? `${rounded(done / bench.seconds)}/s` : `${rounded(cpu / done)} µs`;
      });
    }
  });
  return [
    `${CONNECTIONS} connections. autocannon's table is the published one; wrk costs the load core less, so the programs under ` +
      'test are busier, find more work at each wake-up, and the C programs gain most from it.',
  ];
}

/** One event per packet; in the steady state, after all streams have begun. */
async function paced(bench: Bench, record: Recorder): Promise<string[]> {
  const names = PEERS.filter((name) => name !== 'portkey');
  await withPeers(bench, names, async (peers) => {
    for (const [streams, interval] of [
      [100, 20],
      [1000, 200],
    ] as const) {
      const load = (peer: Peer): Load => ({ ...loadOf(peer, streams), body: { bytes: 1024, stream: true } });
      await rounds(bench, peers, async (peer, warm) => {
        await bench.helpers.mode({ mode: 'paced', interval });
        await bench.helpers.load({ do: 'start', load: load(peer) });
        await sleep(interval * 2 + 500);
        const window = await measureWindow(bench, peer, warm ? 2 : bench.seconds);
        const { firstEventP50, firstEventP99 } = await endStreams(bench);
        if (!warm) {
          record.add(`${streams} streams`, peer.name, {
            cpu: window.cpu / window.events,
            rate: window.events / window.seconds,
            firstEventP50,
            firstEventP99,
          });
        }
        return peer.pid === null
          ? `${rounded(window.events / window.seconds)}/s`
          : `${rounded(window.cpu / window.events)} µs`;
      });
    }
  });
  return [
    '5,000 events a second in all, spread evenly: a stream gets one every 20 ms (100 streams) or 200 ms (1,000).',
  ];
}

/** 200 events in four packets, 16 streams at once, each followed by the next. */
async function burst(bench: Bench, record: Recorder): Promise<string[]> {
  const names = PEERS.filter((name) => name !== 'portkey');
  await withPeers(bench, names, async (peers) => {
    for (const chunkPerEvent of [false, true]) {
      const series = chunkPerEvent ? 'one HTTP chunk per event' : 'one HTTP chunk per packet';
      await bench.helpers.mode({ mode: 'burst', chunkPerEvent });
      await rounds(bench, peers, async (peer, warm) => {
        const load = { ...loadOf(peer, 16), body: { bytes: 1024, stream: true } };
        const window = await closedLoop(bench, peer, load, warm ? WARM_SECONDS : bench.seconds);
        if (!warm) {
          record.add(series, peer.name, {
            cpu: window.cpu / window.events,
            perStream: window.cpu / window.done,
            rate: window.events / window.seconds,
          });
        }
        return peer.pid === null
          ? `${rounded(window.events / window.seconds)}/s`
          : `${rounded(window.cpu / window.events)} µs`;
      });
    }
  });
  return ['203 events a stream: 200 of content, the finish, the usage, [DONE].'];
}

/** The same requests with nothing else open, and beside streams that are open and silent. */
async function openStreams(bench: Bench, record: Recorder): Promise<string[]> {
  const names = ['proxy', 'gateway', 'nginx', 'naive'] as const;
  await withPeers(bench, names, async (peers) => {
    await rounds(bench, peers, async (peer, warm) => {
      const plain = loadOf(peer, CONNECTIONS);
      await bench.helpers.mode({ mode: 'open' });
      if (warm) {
        await closedLoop(bench, peer, plain, WARM_SECONDS);
        return '';
      }
      const alone = await closedLoop(bench, peer, plain, bench.seconds);
      await holdStreams(bench, peer);
      const beside = await closedLoop(bench, peer, plain, bench.seconds);
      await endStreams(bench, true);
      await sleep(300);
      record.add('alone', peer.name, { cpu: alone.cpu / alone.done });
      record.add('beside', peer.name, { cpu: beside.cpu / beside.done });
      return `${rounded(alone.cpu / alone.done)} → ${rounded(beside.cpu / beside.done)} µs`;
    });
  });
  // by itself: a collection that is asked for makes V8 forget optimised code, and compiling it again
  // took a tenth of the CPU of the seconds after it. And in processes that have held no streams
  // yet: the memory of earlier ones would serve again
  for (let round = 1; round <= bench.rounds; round++) {
    await withPeers(bench, names, async (peers) => {
      const parts: string[] = [];
      for (const peer of peers) {
        await closedLoop(bench, peer, loadOf(peer, CONNECTIONS), bench.seconds);
        await bench.helpers.mode({ mode: 'open' });
        await peer.probe('gc');
        const before = residentBytes(peer.pid as number);
        await holdStreams(bench, peer);
        const held = (residentBytes(peer.pid as number) - before) / OPEN_STREAMS / 1024;
        await peer.probe('gc');
        const collected = (residentBytes(peer.pid as number) - before) / OPEN_STREAMS / 1024;
        await endStreams(bench, true);
        record.add('beside', peer.name, { memory: held, collected });
        parts.push(`${peer.name} ${rounded(held)}, then ${rounded(collected)} KiB`);
      }
      bench.say(`memory, round ${round} of ${bench.rounds}: ${parts.join(', ')}`);
    });
  }
  return ['Memory per stream after a garbage collection for the gateway; the others are read as they stand.'];
}

/** Opens the streams, which then stay silent. */
async function holdStreams(bench: Bench, peer: Peer): Promise<void> {
  const load = { ...loadOf(peer, OPEN_STREAMS), body: { bytes: 1024, stream: true } };
  await bench.helpers.load({ do: 'start', load }, true);
  await untilOpen(bench, peer);
}

async function untilOpen(bench: Bench, peer: Peer): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    const { events, errors } = await bench.helpers.load({ do: 'read' }, true);
    refuseErrors(errors);
    if (events >= OPEN_STREAMS) return;
    await sleep(50);
  }
  throw new Error(`${peer.name}: not all of ${OPEN_STREAMS} streams opened`);
}

/** Bodies as text and as a base64 image; the longest pause of the gateway's event loop at the largest. */
async function bodies(bench: Bench, record: Recorder): Promise<string[]> {
  const sizes = [
    ['16 KiB', 16 * 1024, 16],
    ['1 MiB', 1024 * 1024, 4],
    ['20 MiB', 20 * 1024 * 1024, 2],
  ] as const;
  await bench.helpers.mode({ mode: 'burst' });
  await withPeers(bench, ['proxy', 'gateway', 'plain', 'base', 'nginx', 'haproxy'], async (peers) => {
    for (const [size, bytes, connections] of sizes) {
      for (const image of [false, true]) {
        const series = `${size} ${image ? 'image' : 'text'}`;
        bench.say(series);
        await rounds(bench, peers, async (peer, warm) => {
          const load = { ...loadOf(peer, connections), body: { bytes, image } };
          const window = await closedLoop(bench, peer, load, warm ? WARM_SECONDS / 2 : bench.seconds);
          if (!warm)
            record.add(series, peer.name, { cpu: window.cpu / window.done, rate: window.done / window.seconds });
          return `${rounded(window.cpu / window.done)} µs`;
        });
      }
    }
    const gateway = peers.find((peer) => peer.name === 'gateway');
    if (gateway === undefined) return;
    for (let round = 0; round < bench.rounds; round++) {
      for (const image of [false, true]) {
        await gateway.probe('pause-start');
        const load = { ...loadOf(gateway, 1), body: { bytes: 20 * 1024 * 1024, image } };
        await closedLoop(bench, gateway, load, bench.seconds);
        const { pauseMs = Number.NaN } = await gateway.probe('pause-stop');
        record.add(`pause ${image ? 'image' : 'text'}`, 'gateway', { pause: pauseMs });
        bench.say(`longest pause, 20 MiB ${image ? 'image' : 'text'}: ${rounded(pauseMs)} ms`);
      }
    }
  });
  return ['Connections: 16 at 16 KiB, 4 at 1 MiB, 2 at 20 MiB; the pause is taken with one.'];
}

/** The ledger alone, in a process of its own: see bench/metering.ts. */
async function metering(bench: Bench, record: Recorder): Promise<string[]> {
  const server = bench.server as DatabaseServer;
  for (let round = 0; round < bench.rounds; round++) {
    const url = await server.seeded({ companies: 100, ledgerRows: 0 });
    const readings = await runScript(bench, 'metering.ts', {
      DATABASE_URL: url,
      SPOOL_DIR: mkdtempSync(join(bench.folder, 'spool-')),
    });
    record.add('ledger', 'gateway', readings);
    bench.say(`round ${round + 1}: ${JSON.stringify(readings)}`);
    await server.drop(url);
  }
  return [
    'A round has 20 s to warm up, 15 of them in haste so that V8 has optimised all of it; then 10 s with metering, alternating with as many without.',
  ];
}

/** From starting the process to the first whole answer; memory two seconds later. */
async function start(bench: Bench, record: Recorder): Promise<string[]> {
  for (let round = 0; round < bench.rounds + 1; round++) {
    const port = await freePort();
    const folder = mkdtempSync(join(bench.folder, 'start-'));
    const env = await gatewayEnvironment({ ...bench, upstreamPort: bench.helpers.upstreamPort }, folder, port);
    const began = performance.now();
    const child = startPinned(TEST_CORES, process.execPath, [...NODE_FLAGS, gatewayEntry(), 'serve'], {
      stdio: 'ignore',
      env,
    });
    await firstAnswer(port, child);
    const took = performance.now() - began;
    await sleep(2000);
    const idle = residentBytes(child.pid as number) / 1e6;
    await stop(child);
    // the first start fills the compile cache and the disk cache
    if (round > 0) record.add('start', 'gateway', { ms: took, idle });
    bench.say(`${round > 0 ? `round ${round}` : 'first start'}: ${rounded(took)} ms, ${rounded(idle)} MB`);
  }
  return ['Existing database, file caches warm; idle memory two seconds after the first answer.'];
}

// Over a bare socket, tried every millisecond: a client with more to it would cost the time measured.
async function firstAnswer(port: number, child: ChildProcess): Promise<void> {
  const target = parseTarget(`http://127.0.0.1:${port}/v1`);
  const request = requestBytes(
    target,
    '/chat/completions',
    { authorization: `Bearer ${benchKey(0)}` },
    chatBody({ bytes: 1024 }),
  );
  const end = performance.now() + 20_000;
  while (performance.now() < end && child.exitCode === null) {
    const answered = await new Promise<boolean>((resolve) => {
      const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(request));
      socket.once('data', (data: Buffer) => {
        resolve(data.latin1Slice(0, 12) === 'HTTP/1.1 200');
        socket.destroy();
      });
      socket.once('error', () => resolve(false));
      socket.once('close', () => resolve(false));
    });
    if (answered) return;
    await sleep(1);
  }
  throw new Error('the gateway gave no whole answer');
}

/** One gateway beside another that differs only in what its database holds. */
async function scale(bench: Bench, record: Recorder): Promise<string[]> {
  const server = bench.server as DatabaseServer;
  await bench.helpers.mode({ mode: 'burst' });
  const many = bench.companies;
  bench.say(`seeding ${many} companies, and ${bench.ledgerRows} ledger rows`);
  const began = performance.now();
  const databases = {
    small: await server.seeded({ companies: 1, ledgerRows: 0 }),
    companies: await server.seeded({ companies: many, ledgerRows: 0 }),
    ledger: await server.seeded({ companies: 1, ledgerRows: bench.ledgerRows }),
  };
  bench.say(`seeded in ${rounded((performance.now() - began) / 1000)} s`);
  const gateways: { peer: Peer; keys: number; url: string }[] = [];
  try {
    for (const [name, url] of Object.entries(databases)) {
      const around = { folder: bench.folder, upstreamPort: bench.helpers.upstreamPort, databaseUrl: url };
      gateways.push({ peer: await startGateway(around, name), keys: name === 'companies' ? many : 1, url });
    }
    for (const { peer, keys } of gateways) {
      bench.say(`warming up ${peer.name}, every key used`);
      const load = { ...loadOf(peer, CONNECTIONS), keys };
      await bench.helpers.load({ do: 'start', load });
      for (let done = 0; done < keys * 1.1; ) {
        await sleep(3000);
        const seen = await bench.helpers.load({ do: 'read' });
        refuseErrors(seen.errors);
        done = seen.done;
        bench.say(`${done} answers`);
      }
      await bench.helpers.load({ do: 'stop' });
    }
    const peers = gateways.map(({ peer }) => peer);
    await rounds(bench, peers, async (peer, warm) => {
      if (warm) return '';
      const keys = gateways.find((gateway) => gateway.peer === peer)?.keys ?? 1;
      const window = await closedLoop(bench, peer, { ...loadOf(peer, CONNECTIONS), keys }, bench.seconds);
      record.add('scale', peer.name, { cpu: window.cpu / window.done, rate: window.done / window.seconds });
      return `${rounded(window.cpu / window.done)} µs`;
    });
  } finally {
    for (const { peer } of gateways) await peer.stop();
    for (const url of Object.values(databases)) await server.drop(url);
  }
  return [
    `${many.toLocaleString('en')} companies with a key each, used in turn; ${bench.ledgerRows.toLocaleString('en')} ledger rows, all of this month and of the company asking.`,
  ];
}

/** The byte machines alone: see bench/scanner.ts. */
async function scanner(bench: Bench, record: Recorder): Promise<string[]> {
  for (let round = 0; round < bench.rounds; round++) {
    const readings = await runScript(bench, 'scanner.ts', {});
    for (const [name, nanos] of Object.entries(readings)) record.add(name, 'gateway', { nanos });
    bench.say(`round ${round + 1} of ${bench.rounds}`);
  }
  return [];
}

/** Runs a script alone on the test core; it prints one JSON object of numbers. */
async function runScript(
  bench: Bench,
  file: string,
  env: Readonly<Record<string, string>>,
): Promise<Record<string, number>> {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const child = startPinned(TEST_CORES, process.execPath, [...NODE_FLAGS, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH, BENCH_SECONDS: String(bench.seconds), ...env },
  });
  let text = '';
  child.stdout?.setEncoding('utf8').on('data', (data: string) => {
    text += data;
  });
  const code = await new Promise((resolve) => child.once('close', resolve));
  if (code !== 0) throw new Error(`${file} ended with ${code}`);
  return JSON.parse(text) as Record<string, number>;
}

async function withPeers(
  bench: Bench,
  names: readonly PeerName[],
  work: (peers: Peer[]) => Promise<void>,
): Promise<void> {
  const around = { ...bench, upstreamPort: bench.helpers.upstreamPort };
  const wanted = names.filter((name) => bench.peers.includes(name));
  const peers = await startPeers(wanted, around, bench.say);
  try {
    await work(peers);
  } finally {
    for (const peer of peers) await peer.stop();
  }
}

/**
 * All peers in each round, one after the other, beginning with another one each time; a warm-up
 * round comes first. What happens to the machine meanwhile then happens to all of them.
 */
async function rounds(
  bench: Bench,
  peers: readonly Peer[],
  measure: (peer: Peer, warm: boolean) => Promise<string>,
): Promise<void> {
  for (let round = 0; round <= bench.rounds; round++) {
    const parts: string[] = [];
    for (let i = 0; i < peers.length; i++) {
      const peer = peers[(i + round) % peers.length] as Peer;
      parts.push(`${peer.name} ${await measure(peer, round === 0)}`);
      peer.tidy();
      await sleep(100);
    }
    bench.say(`${round === 0 ? 'warm-up' : `round ${round} of ${bench.rounds}`}: ${parts.join(', ')}`);
  }
}

interface Window {
  readonly cpu: number;
  readonly done: number;
  readonly events: number;
  readonly seconds: number;
}

async function closedLoop(bench: Bench, peer: Peer, load: Load, seconds: number): Promise<Window> {
  await bench.helpers.load({ do: 'start', load });
  await sleep(300);
  const window = await measureWindow(bench, peer, seconds);
  const { errors } = await bench.helpers.load({ do: 'stop' });
  refuseErrors(errors);
  if (window.done === 0) throw new Error(`${peer.name}: no answer within ${seconds} s`);
  await sleep(200);
  return window;
}

/** CPU of a peer and work done by it while a load already runs. */
async function measureWindow(bench: Bench, peer: Peer, seconds: number): Promise<Window> {
  const first = await bench.helpers.load({ do: 'read' });
  const cpu = peer.pid === null ? 0 : cpuMicros(peer.pid);
  const began = performance.now();
  await sleep(seconds * 1000);
  const last = await bench.helpers.load({ do: 'read' });
  const used = peer.pid === null ? 0 : cpuMicros(peer.pid) - cpu;
  return {
    cpu: used,
    done: last.done - first.done,
    events: last.events - first.events,
    seconds: (performance.now() - began) / 1000,
  };
}

/** Lets the upstream end all open streams whole, and checks that every one arrived so. */
async function endStreams(bench: Bench, holder = false): Promise<{ firstEventP50: number; firstEventP99: number }> {
  await bench.helpers.load({ do: 'drain' }, holder);
  await bench.helpers.mode({ mode: 'burst' });
  await sleep(500);
  const summary = await bench.helpers.load({ do: 'stop' }, holder);
  refuseErrors(summary.errors);
  return summary;
}

function refuseErrors(errors: Readonly<Record<string, number>>): void {
  const texts = Object.entries(errors).map(([error, count]) => `${count} × ${error}`);
  if (texts.length > 0) throw new Error(`the load saw ${texts.join(', ')}`);
}

function loadOf(peer: Peer, connections: number): Load {
  return { baseUrl: peer.baseUrl, headers: peer.headers, connections, body: { bytes: 1024 } };
}

interface Requests {
  readonly cpu: number;
  readonly done: number;
  readonly p50: number;
  readonly p99: number;
}

/** A run of the published table's load generator. The time after it counts too: the ledger is written behind. */
function requestGenerator(
  bench: Bench,
  generator: 'wrk' | 'autocannon',
): (peer: Peer, seconds: number) => Promise<Requests> {
  const run = generator === 'wrk' ? wrk(bench) : autocannon(bench);
  return async (peer, seconds) => {
    const before = peer.pid === null ? 0 : cpuMicros(peer.pid);
    const result = await run(peer, seconds);
    await sleep(300);
    return { ...result, cpu: peer.pid === null ? 0 : cpuMicros(peer.pid) - before };
  };
}

type Generator = (peer: Peer, seconds: number) => Promise<Omit<Requests, 'cpu'>>;

function autocannon(bench: Bench): Generator {
  return async (peer, seconds) => {
    const result = await bench.helpers.load({ do: 'autocannon', load: loadOf(peer, CONNECTIONS), seconds });
    refuseErrors(result.errors);
    return result;
  };
}

function wrk(bench: Bench): Generator {
  const program = which('wrk') as string;
  const script = join(bench.folder, 'wrk.lua');
  const body = join(bench.folder, 'wrk-body.json');
  writeFileSync(body, chatBody({ bytes: 1024 }));
  writeFileSync(
    script,
    `wrk.method = "POST"
local file = io.open("${body}", "rb")
wrk.body = file:read("*a")
file:close()
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('\\n{"done":%d,"failed":%d,"p50":%f,"p99":%f}\\n', summary.requests,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
`,
  );
  return async (peer, seconds) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${benchKey(0)}`, ...peer.headers };
    const args = ['-t1', `-c${CONNECTIONS}`, `-d${seconds}s`, '-s', script];
    for (const [name, value] of Object.entries(headers)) args.push('-H', `${name}: ${value}`);
    args.push(`${peer.baseUrl}/chat/completions`);
    const { stdout } = canPin
      ? await promisify(execFile)('taskset', ['-c', LOAD_CORES, program, ...args])
      : await promisify(execFile)(program, args);
    const result = JSON.parse(stdout.trimEnd().split('\n').at(-1) as string) as Omit<Requests, 'cpu'> & {
      failed: number;
    };
    if (result.failed > 0) throw new Error(`wrk saw ${result.failed} failures with ${peer.name}`);
    return result;
  };
}

export function rounded(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
