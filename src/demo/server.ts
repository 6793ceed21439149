import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from '../log.ts';
import { createServer, writable } from '../runtime/node-http.ts';
import type { DemoEvent } from './dialect.ts';
import { replyTo } from './reply.ts';
import { receive } from './request.ts';

/** Longer than callers keep idle sockets, so that no request meets a socket that closes. */
const KEEP_ALIVE_MS = 90_000;
/** Between the events of a stream. */
const PACE_MS = 4;

/**
 * The demo upstream stands in for the internal model-routing proxy where there is no UPSTREAM_URL. It reports the
 * internal model name that was asked for, so that a leak shows.
 */
export interface Demo {
  /** Base address, ending in `/v1`. */
  readonly url: string;
  /** Cuts open answers and stops listening. */
  close(): Promise<void>;
}

interface DemoOptions {
  readonly host?: string;
  /** 0: any free port. */
  readonly port: number;
  /** The master key that callers need; without it the demo answers everyone. */
  readonly apiKey?: string;
  readonly log?: Logger;
}

/** Starts the demo upstream. Rejects when it cannot listen. */
export async function startDemo({
  host = '127.0.0.1',
  port,
  apiKey,
  log,
}: DemoOptions): Promise<Demo> {
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, async (req, res) => {
    try {
      const call = await receive(req);
      const reply = replyTo(call, apiKey);
      if ('events' in reply) await sendStream(res, reply.events);
      else sendJson(res, reply.status, JSON.stringify(reply.body));
      log?.debug({ path: call.path }, 'demo upstream answered');
    } catch (error) {
      if (!req.errored) log?.error({ err: error }, 'demo upstream failed');
      res.destroy();
    }
  });
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${address.port}/v1`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function sendJson(res: ServerResponse, status: number, body: string): void {
  res
    .writeHead(status, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    })
    .end(body);
}

async function sendStream(res: ServerResponse, events: Iterable<DemoEvent>): Promise<void> {
  res.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
  });
  for (const { name, data } of events) {
    const event = name === undefined ? '' : `event: ${name}\n`;
    if (!res.write(`${event}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`))
      await writable(res);
    if (!res.destroyed)
      await once(res, 'close', { signal: AbortSignal.timeout(PACE_MS) }).catch(() => {});
    if (res.destroyed) return;
  }
  res.end();
}
