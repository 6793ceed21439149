import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Logger } from '../log.ts';
import { Metrics } from '../metrics.ts';
import { createServer } from '../runtime/node-http.ts';
import type { AdminServices } from './services.ts';

/** What /livez, /readyz and /metrics answer from. */
export interface Health {
  readonly log: Logger;
  /** In the Prometheus text format. */
  metrics(): string;
  /** What the gateway still waits for, in words; empty when it is ready for traffic. */
  waitingFor(): string[];
}

const HEADERS_MS = 15_000;
const REQUEST_MS = 30_000;

/**
 * The admin listener, not yet listening: /livez, /readyz and /metrics on plain node:http, and the
 * pages on Hono. The pages are loaded at the first request for one, because they need memory and
 * time that a gateway without visitors does not spend.
 * @param services null: there are no pages
 */
export function createAdminListener(health: Health, services: AdminServices | null): Server {
  let pages: Promise<RequestListener> | null = null;

  async function answer(path: string, req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (path === '/livez' || path === '/readyz' || path === '/metrics') return answerHealth(health, path, req, res);
    if (services === null) return send(res, 404, 'this gateway serves no administration pages\n');
    if (!path.startsWith('/')) return send(res, 404, 'not found\n'); // "*", or the address of another server
    pages ??= import('./pages.ts').then(({ startPages }) => startPages(services));
    await (await pages)(req, res);
  }

  return createServer({ headersTimeout: HEADERS_MS, requestTimeout: REQUEST_MS }, (req, res) => {
    const path = (req.url as string).split('?', 1)[0] as string;
    answer(path, req, res).catch((error: Error) => {
      health.log.error({ reason: error.stack }, 'admin: a request failed');
      if (res.headersSent) res.destroy();
      else send(res, 500, 'internal error\n');
    });
  });
}

function answerHealth(health: Health, path: string, req: IncomingMessage, res: ServerResponse): void {
  if (req.method !== 'GET' && req.method !== 'HEAD') return send(res, 405, 'method not allowed\n');
  if (path === '/livez') return send(res, 200, 'ok\n');
  if (path === '/metrics') return send(res, 200, health.metrics(), Metrics.contentType);
  const waiting = health.waitingFor();
  if (waiting.length === 0) return send(res, 200, 'ready\n');
  return send(res, 503, waiting.map((what) => `waiting for ${what}\n`).join(''));
}

function send(res: ServerResponse, status: number, body: string, type = 'text/plain'): void {
  const length = Buffer.byteLength(body);
  res.writeHead(status, { 'cache-control': 'no-store', 'content-type': type, 'content-length': length });
  res.end(body);
}
