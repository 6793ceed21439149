import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import autocannon from 'autocannon';
import { installed } from '../../test/faults/pooler.ts';
import { requestBody, traceparent } from '../load/body.ts';
import { benchKey, SLUG } from '../programs/answers.ts';
import { compared } from '../results.ts';
import { cpuMicros, LOAD_CORES, printedBy } from '../run/process.ts';
import { type Bench, type Section, startTargets, WARM_SECONDS } from '../run/rounds.ts';
import { TARGETS, type Target } from '../run/targets.ts';
import { goal, MEDIANS, targetTables } from '../tables.ts';

const CONNECTIONS = 64;
const BODY = requestBody({ model: SLUG, bytes: 1024 });
/** The series in which no head is that of the request before: another trace id, and another length. */
const DIFFER = 'autocannon, heads that differ';
const VARIANTS = 50;

/** 1 KiB in, 1 KiB out, 64 connections, each request followed by the next; with each load generator there is, and once with heads that differ. */
export const requests: Section = {
  heading: 'Non-streaming chat requests (1 KiB in, 1 KiB out)',
  start: (bench) => startTargets(bench, TARGETS),
  steps: (bench) =>
    generators(bench).map((name) => ({
      name,
      warmSeconds: WARM_SECONDS,
      async measure(target, seconds) {
        await bench.rig.mode({ mode: 'burst' });
        const before = cpuMicros(target.pids);
        const whole = Math.max(1, Math.round(seconds)); // wrk knows no less
        const {
          done,
          failed,
          seconds: took,
          p50,
          p99,
        } = await (name === 'wrk' ? wrk : cannon)(bench, target, whole, name === DIFFER);
        if (failed > 0 || done === 0)
          throw new Error(`${name}, ${target.name}: ${failed} failures, ${done} answers`);
        await sleep(300); // the ledger is written after the answers, and counts
        return {
          [name]: { cpu: (cpuMicros(target.pids) - before) / done, rate: done / took, p50, p99 },
        };
      },
    })),
  note: () =>
    `${CONNECTIONS} connections. autocannon tells latencies in whole milliseconds; wrk costs the load core less, which favours the C programs.`,
  table: (results) => targetTables(results, () => 'request', MEDIANS, 'load by '),
  goals: (results) => {
    const ratio = (a: string, b: string) => compared(results, ['autocannon', a], ['autocannon', b]);
    return [
      goal('CPU per request ÷ do-nothing Node proxy', 1.05, 0.95, ratio('gateway', 'proxy')),
      goal('CPU per request ÷ nginx', 2.5, 2.2, ratio('gateway', 'nginx')),
    ];
  },
};

/** Two checkouts are compared with one generator: wrk, which leaves the load core more room. */
function generators(bench: Bench): string[] {
  const names = installed('wrk') === null ? ['autocannon'] : ['autocannon', 'wrk'];
  return [...(bench.base === undefined ? names : names.slice(-1)), DIFFER];
}

/** Answers and failures, how long it took, and latencies in milliseconds. */
type Run = Readonly<Record<'done' | 'failed' | 'seconds' | 'p50' | 'p99', number>>;

const headersOf = ({ headers }: Target): Record<string, string> => ({
  'content-type': 'application/json',
  authorization: `Bearer ${benchKey(0)}`,
  ...headers,
});

async function cannon(
  _bench: Bench,
  target: Target,
  duration: number,
  differ: boolean,
): Promise<Run> {
  const url = `${target.baseUrl}/chat/completions`;
  const request = { method: 'POST', headers: headersOf(target), body: BODY } as const;
  const variants = Array.from({ length: VARIANTS }, (_, n) => ({
    ...request,
    headers: { ...request.headers, ...traceparent() },
    body: requestBody({ model: SLUG, bytes: 1000 + n }),
  }));
  const requests = differ ? variants : [request];
  const result = await autocannon({ url, connections: CONNECTIONS, duration, requests });
  const { '2xx': done, errors, non2xx, duration: took, latency } = result;
  return { done, failed: errors + non2xx, seconds: took, p50: latency.p50, p99: latency.p99 };
}

async function wrk({ folder }: Bench, target: Target, seconds: number): Promise<Run> {
  const body = join(folder, 'wrk-body.json');
  writeFileSync(body, BODY);
  const script = fileURLToPath(new URL('../programs/wrk.lua', import.meta.url));
  const args = ['-t1', `-c${CONNECTIONS}`, `-d${seconds}s`, '-s', script];
  for (const [name, value] of Object.entries(headersOf(target)))
    args.push('-H', `${name}: ${value}`);
  args.push(`${target.baseUrl}/chat/completions`);
  const printed = await printedBy(LOAD_CORES, installed('wrk') as string, args, {
    BODY_FILE: body,
  });
  return JSON.parse(printed.trimEnd().split('\n').at(-1) as string) as Run;
}
