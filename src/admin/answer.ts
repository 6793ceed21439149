import type { ServerResponse } from 'node:http';

/** A whole answer of the admin listener; kept by nobody unless its headers say otherwise. */
export function send(res: ServerResponse, status: number, type: string, body: string | Buffer): void {
  if (!res.hasHeader('cache-control')) res.setHeader('cache-control', 'no-store');
  res.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
  res.end(body);
}

/** What the log is told of an error. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
