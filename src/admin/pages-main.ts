import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setPriority } from 'node:os';
import { buffer } from 'node:stream/consumers';
import { pino } from 'pino';
import { Calendar } from '../domain/month.ts';
import { createServer } from '../runtime/node-http.ts';
import { openDatabase } from '../store/connection/pool.ts';
import { isSameSecret } from './page/session.ts';
import { startPages } from './pages.ts';
import { CLIENT_HEADER, type PagesMessage, type PagesSettings } from './process/settings.ts';

/** The process of the administration pages. The gateway starts it, tells it its settings, and ends it. */

const NICENESS = 5; // on a busy core it gets a third of the API's share

setPriority(NICENESS);
process.once('disconnect', () => process.exit()); // the gateway has ended, however it did
// a terminal and some supervisors signal all processes; the gateway still drains then
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
process.once('message', (settings: PagesSettings) => void serve(settings));

async function serve(settings: PagesSettings): Promise<void> {
  const log = pino({ level: settings.logLevel, base: null }, { write: (line) => tell({ line }) });
  process.once('uncaughtException', (error) => {
    log.error({ reason: error.stack }, 'admin: an error that nothing handles');
    process.exitCode = 1;
    process.disconnect?.(); // ends the process once the line is sent
  });
  const pages = startPages({
    ...settings,
    db: openDatabase({
      url: settings.databaseUrl,
      urlFile: settings.databaseUrlFile,
      maxConnections: settings.databaseConnections,
    }),
    calendar: new Calendar(settings.billingTimezone),
    clock: Date.now,
    log,
  });
  // the gateway has the limits of time, and closes connections that it does not need
  const server = createServer(
    { keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 },
    (req, res) => {
      const [secret = ''] = String(req.headers[CLIENT_HEADER] ?? '').split(' ', 1);
      if (!isSameSecret(settings.secret, secret)) return req.socket.destroy();
      Object.assign(req.socket, { encrypted: settings.isSecure }); // where Hono sees whether addresses begin with https
      // read whole, and first: a connection whose body was left unread could not be used again
      buffer(req).then(
        (rawBody) => pages(Object.assign(req, { rawBody }), res),
        () => {}, // the client left
      );
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  tell({ port: (server.address() as AddressInfo).port });
}

function tell(message: PagesMessage): void {
  if (process.connected) process.send?.(message);
}
