import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { writable } from '../runtime/node-http.ts';
import type { Frame } from './dialect.ts';
import { type Behaviour, leakyHeaders, leakyMessage } from './fault.ts';
import { type DemoCall, DemoError, type DemoRequest, type Json, type Usage } from './request.ts';

/**
 * Sends the faults that replace the answer.
 * @returns false: there is none, and nothing was sent
 * @throws DemoError when the fault is an error status
 */
export async function sendFault(
  call: DemoCall,
  res: ServerResponse,
  { model, behaviour }: DemoRequest,
): Promise<boolean> {
  await pause(res, behaviour.delay);
  if (res.destroyed) return true;
  if (behaviour.leaky) for (const [name, value] of Object.entries(leakyHeaders(model))) res.setHeader(name, value);
  if (behaviour.body === 'reset') cut(call, res);
  else if (behaviour.body === 'redirect') res.writeHead(302, { location: `http://127.0.0.1:1/${model}` }).end();
  else if (behaviour.body === 'html') res.writeHead(200, { 'content-type': 'text/html' }).end(`<p>${model} rests</p>`);
  else if (behaviour.status !== 200) {
    if (behaviour.status === 429) res.setHeader('retry-after', '7');
    throw new DemoError(behaviour.status, leakyMessage(behaviour.status, model), String(behaviour.status));
  } else return false;
  return true;
}

/** Sends events, paced, compressed and ended as the behaviour says. */
export async function sendStream(
  call: DemoCall,
  res: ServerResponse,
  { pace, encoding, ending }: Behaviour,
  stream: Iterable<Frame>,
): Promise<void> {
  res.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    ...(encoding === 'gzip' ? { 'content-encoding': 'gzip' } : {}),
  });
  const oneWrite = pace === 0 || encoding !== 'identity';
  let whole = '';
  for (const { text, usage } of stream) {
    if (usage !== undefined) call.usage = usage;
    if (oneWrite) {
      whole += text;
      continue;
    }
    if (!res.write(text)) await writable(res);
    await pause(res, pace);
    if (res.destroyed) return;
  }
  if (oneWrite) res.write(encoding === 'identity' ? whole : gzipSync(whole));
  if (ending === 'cut') return cut(call, res);
  if (ending !== 'stall') res.end();
}

/**
 * Sends a JSON answer, truncated or compressed as the behaviour says.
 * @param usage the usage in the object; null: none
 */
export function sendObject(
  call: DemoCall,
  res: ServerResponse,
  { body, encoding }: Behaviour,
  object: Json,
  usage: Usage | null,
): void {
  const json = JSON.stringify(object);
  const bytes = Buffer.from(body === 'truncated' ? json.slice(0, json.length / 2) : json);
  if (body !== 'truncated') call.usage = usage;
  if (encoding === 'gzip') res.setHeader('content-encoding', 'gzip');
  sendJson(res, 200, encoding === 'identity' ? bytes : gzipSync(bytes));
}

export function sendJson(res: ServerResponse, status: number, body: string | Buffer): void {
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body);
}

function cut(call: DemoCall, res: ServerResponse): void {
  call.outcome = 'cut';
  // after the writes of this tick, so that a cut after three events comes after three events
  if (res.headersSent) setImmediate(() => res.socket?.destroySoon());
  else res.destroy();
}

/** Waits, or until the caller disconnects. */
async function pause(res: ServerResponse, ms: number): Promise<void> {
  if (res.destroyed || ms === 0) return;
  await once(res, 'close', { signal: AbortSignal.timeout(ms) }).catch(() => {});
}
