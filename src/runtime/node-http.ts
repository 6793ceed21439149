import type * as http from 'node:http';

/**
 * node:http without what comes with it. An import of a built-in module reads each of its
 * exports, and some of this one's load what they name only when read: fetch, WebSocket and
 * HTTP/2, 16 MB and 30 ms of every start. Its types are imported as ever.
 */
export const { Agent, createServer, get, IncomingMessage, request, ServerResponse } =
  process.getBuiltinModule('node:http');

/** Until more may be written, or nobody is there to write for. Leaves no listener behind. */
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
