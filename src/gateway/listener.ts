import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { GatewayError } from '../domain/errors.ts';
import { handle } from './pipeline.ts';
import type { Services } from './services.ts';

const HEADERS_MS = 15_000; // how long a client may take over its request head
const REQUEST_MS = 120_000; // and over its whole request
const KEEP_ALIVE_MS = 75_000; // longer than the 60 s of common balancers, so that they close first

/** A node:http server that answers the API. Not yet listening. */
export function createListener(services: Services): Server {
  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    void handle(services, req, res);
  };
  const server = createServer(
    { headersTimeout: HEADERS_MS, requestTimeout: REQUEST_MS, keepAliveTimeout: KEEP_ALIVE_MS, noDelay: true },
    onRequest,
  );
  server.on('clientError', refuseBrokenRequest);
  return server;
}

const STATUS_LINES: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};

/** Bytes that are no HTTP request: answered in the shape of every other error, then closed. */
function refuseBrokenRequest(error: Error & { code?: string }, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const { body } = new GatewayError('invalid_request', 'This is not an HTTP request the gateway can read.');
  const status = STATUS_LINES[error.code ?? ''] ?? '400 Bad Request';
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}
