import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { Calendar } from '../domain/month.ts';
import type { Logger } from '../log.ts';
import { createServer } from '../runtime/node-http.ts';
import { openDatabase } from '../store/connection/pool.ts';
import { isSameSecret } from './page/session.ts';
import { startPages } from './pages.ts';
import { CLIENT_HEADER, type PagesSettings } from './process/settings.ts';

/** Serves the pages on a free port of the loopback interface, to whoever knows the secret of the settings. */
export async function servePages(settings: PagesSettings, log: Logger) {
  const db = openDatabase({
    url: settings.databaseUrl,
    urlFile: settings.databaseUrlFile,
    maxConnections: settings.databaseConnections,
  });
  const pages = startPages({
    ...settings,
    db,
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
  return { server, db, port: (server.address() as AddressInfo).port };
}
