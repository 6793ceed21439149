import type * as http from 'node:http';
import type * as https from 'node:https';
import type { TlsFiles } from './tls-files.ts';

/**
 * node:http without what an import of it loads. An import reads every export of a built-in module,
 * and reading some of these loads fetch, WebSocket and HTTP/2: 16 MB and 30 ms of every start.
 * Types are imported from node:http as usual.
 */
export const { Agent, createServer, IncomingMessage, request, ServerResponse, STATUS_CODES, validateHeaderValue } =
  process.getBuiltinModule('node:http');

/**
 * A server, over TLS where there are files for it.
 * @param options of `http.createServer`
 */
export function createServerOver(tls: TlsFiles | null, options: http.ServerOptions): http.Server {
  if (tls === null) return createServer(options);
  const server = process.getBuiltinModule('node:https').createServer({ ...options, ...tls.options });
  tls.keepFresh(server);
  return server;
}

/** node:http, or node:https, for requests. @param url an address, or its protocol */
export function clientFor(url: string | URL): typeof http | typeof https {
  return process.getBuiltinModule(`${url}`.startsWith('https:') ? 'node:https' : 'node:http');
}

/** Resolves when more may be written, or when the response is closed. Leaves no listener behind. */
export function writable(res: http.ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      res.off('drain', done).off('close', done);
      resolve();
    };
    if (res.destroyed) resolve();
    else res.on('drain', done).on('close', done);
  });
}
