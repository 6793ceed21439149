import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';

/** What the process tells of itself to whoever operates it. */
export interface Health {
  /** What the gateway still waits for, in words; empty when it is ready for traffic. */
  waitingFor(): string[];
  readonly registry: Registry;
}

/** The admin listener: /livez, /readyz and /metrics, apart from the API's hot path. Not yet listening. */
export function createAdminListener(health: Health): Server {
  return createServer((req, res) => {
    answer(health, req, res).catch(() => {
      if (!res.headersSent) send(res, 500, 'text/plain', 'internal error\n');
    });
  });
}

async function answer(health: Health, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const path = (req.url as string).split('?', 1)[0];
  if (req.method !== 'GET' && req.method !== 'HEAD') return send(res, 405, 'text/plain', 'method not allowed\n');
  switch (path) {
    case '/livez':
      return send(res, 200, 'text/plain', 'ok\n');
    case '/readyz': {
      const waiting = health.waitingFor();
      if (waiting.length === 0) return send(res, 200, 'text/plain', 'ready\n');
      return send(res, 503, 'text/plain', waiting.map((what) => `waiting for ${what}\n`).join(''));
    }
    case '/metrics':
      return send(res, 200, health.registry.contentType, await health.registry.metrics());
    default:
      return send(res, 404, 'text/plain', 'not found\n');
  }
}

function send(res: ServerResponse, status: number, type: string, body: string): void {
  res.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
  });
  res.end(body);
}
