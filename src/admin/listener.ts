import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Logger } from '../log.ts';
import { Metrics } from '../metrics.ts';
import { createServer } from '../runtime/node-http.ts';
import { reasonOf, send } from './answer.ts';
import type { AdminServices } from './services.ts';

/** What machines are told of the gateway. */
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
 * The admin listener: /livez, /readyz and /metrics, and the administration area. That is
 * loaded when its first page is asked for: 10 MB and 70 ms that a sidecar never spends.
 * Not yet listening.
 * @param pages what the administration area is made of; null: there are no pages
 */
export function createAdminListener(health: Health, pages: AdminServices | null): Server {
  let area: Promise<{ answer(path: string, req: IncomingMessage, res: ServerResponse): Promise<void> }> | null = null;

  async function answer(path: string, req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (path === '/livez' || path === '/readyz' || path === '/metrics') return answerHealth(health, path, req, res);
    if (pages === null) return send(res, 404, 'text/plain', 'this gateway serves no administration pages\n');
    area ??= import('./area.ts').then(({ Area }) => new Area(pages));
    await (await area).answer(path, req, res);
  }

  return createServer({ headersTimeout: HEADERS_MS, requestTimeout: REQUEST_MS }, (req, res) => {
    const path = (req.url as string).split('?', 1)[0] as string;
    answer(path, req, res).catch((error) => {
      health.log.error({ reason: reasonOf(error) }, 'admin: a request failed');
      if (res.headersSent) res.destroy();
      else send(res, 500, 'text/plain', 'internal error\n');
    });
  });
}

async function answerHealth(
  { metrics, waitingFor }: Health,
  path: string,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  if (req.method !== 'GET' && req.method !== 'HEAD') return send(res, 405, 'text/plain', 'method not allowed\n');
  if (path === '/livez') return send(res, 200, 'text/plain', 'ok\n');
  if (path === '/metrics') return send(res, 200, Metrics.contentType, metrics());
  const waiting = waitingFor();
  if (waiting.length === 0) return send(res, 200, 'text/plain', 'ready\n');
  return send(res, 503, 'text/plain', waiting.map((what) => `waiting for ${what}\n`).join(''));
}
