import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { Duplex } from 'node:stream';
import { type ErrorName, GatewayError } from '../domain/errors.ts';
import { noteRequest, watchConnections } from '../http/client-connection.ts';
import { BareRequest } from '../http/fast-request.ts';
import { BareResponse } from '../http/fast-response.ts';
import type { RepeatedRequest } from '../http/repeated-request.ts';
import { IdleInterval } from '../runtime/idle-interval.ts';
import { createServer } from '../runtime/node-http.ts';
import { newRequestId } from '../runtime/request-id.ts';
import { handle, headOf } from './pipeline.ts';
import { Reply } from './reply.ts';
import { RequestLine } from './request-log.ts';
import type { ListenerLimits, Services } from './services.ts';
import { ShedQueue } from './shed-queue.ts';

const KEEP_ALIVE_MS = 75_000; // longer than the 60 s of common balancers, so that they close first
/** How often slow requests are looked for. */
const CHECK_MS = 1000;
/** What waits for a slow client before the upstream is held back: with its socket's share, 64 KiB a stream. */
const WRITE_BUFFER_BYTES = 16_384;
/** A refused body of up to this size is read and thrown away, which is cheaper than a new connection. */
const FORGIVEN_BYTES = 65_536;

/** The API's server, and how it lets go of connections nobody uses. */
export interface Listener {
  readonly server: Server;
  /**
   * For draining: connections that are idle, or fall idle from now on, are closed after so
   * many milliseconds more, unless they are used again. Closed at once, some would meet a
   * request that is just on its way, and lose it.
   */
  letIdleGo(ms: number): void;
}

/** A node:http server that answers the API. Not yet listening. */
export function createListener(services: Services): Listener {
  const { limits } = services;
  const leaving = (): boolean => !server.listening; // draining: the next request is for another replica
  const answer = createHandler(services, leaving);
  const onRequest = (req: BareRequest, res: BareResponse): void => {
    noteRequest(req, res);
    answer(req, res);
  };
  const server = createServer(
    { ...serverOptions(limits), IncomingMessage: BareRequest, ServerResponse: BareResponse },
    onRequest,
  );
  const sockets = watchConnections(server, answer, leaving);
  server.maxHeadersCount = limits.maxHeaders + 1; // Node drops those beyond without a word: one more tells
  server.maxConnections = limits.maxConnections;
  server.on('checkContinue', onRequest); // the pipeline asks for the body when it wants it
  const broken = (status: number | null): void => {
    if (status !== null) services.metrics.answered('broken', status);
  };
  server.on('connect', (_req, socket: Duplex) => broken(refuseSocket(socket, 'method_not_allowed')));
  server.on('clientError', (error, socket) => broken(refuseBrokenRequest(error, socket)));
  server.on('drop', () => services.metrics.dropped());
  // no descriptors left, for example: connections wait in the kernel until there are
  server.on('error', (error) => services.log.error({ err: error }, 'cannot accept connections'));
  return {
    server,
    letIdleGo(ms) {
      server.keepAliveTimeout = ms;
      server.keepAliveTimeoutBuffer = 0;
      for (const socket of sockets) {
        if (answerOf(socket) !== null) continue;
        // Node takes its own timer back when the next request comes, but knows of none before the first
        if (socket.bytesRead > 0) socket.setTimeout(ms);
        else setTimeout(() => void (socket.bytesRead === 0 && socket.destroy()), ms).unref();
      }
    },
  };
}

/**
 * Answers requests of the API on any node:http server.
 * @param leaving whether answers should close their connections
 */
export function createHandler(
  services: Services,
  leaving: () => boolean,
): (req: IncomingMessage | RepeatedRequest, res: ServerResponse) => void {
  const { overload } = services;
  const shed = createShedder(services);
  return (req, res) => {
    if (leaving()) res.shouldKeepAlive = false;
    if (overload.enter()) handle(services, req, res);
    else shed(req, res);
  };
}

/** What a server has to be created with for the limits to hold. */
export function serverOptions(limits: ListenerLimits): ServerOptions {
  return {
    headersTimeout: limits.headerMs,
    requestTimeout: Math.max(limits.bodyMs, limits.headerMs),
    connectionsCheckingInterval: CHECK_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: limits.maxHeaderBytes,
    highWaterMark: WRITE_BUFFER_BYTES,
    requireHostHeader: false, // RequestHead looks, and answers in the shape of every other error
    noDelay: true,
  };
}

/** The answer a connection is busy with; null when it is idle. Node's own default for broken requests looks here too. */
function answerOf(socket: Duplex): { readonly headersSent: boolean } | null {
  return (socket as Duplex & { _httpMessage?: { headersSent: boolean } })._httpMessage ?? null;
}

/** How often queue that are due are looked for. */
const TICK_MS = 50;

/** Refuses requests, in their turn, before anything is looked up or read for them. */
function createShedder({
  metrics,
  tracer,
}: Services): (req: IncomingMessage | RepeatedRequest, res: ServerResponse) => void {
  const queue = new ShedQueue<{ reply: Reply; close: boolean }>();
  const error = new GatewayError('service_unavailable'); // one for all: an error notes where it was made, for 5 µs
  const ticker = new IdleInterval(TICK_MS, () => {
    for (const { reply, close } of queue.take(performance.now())) reply.error(error, close);
    return queue.waiting > 0;
  });
  return (req, res) => {
    const reply = new Reply(res, newRequestId());
    if (tracer !== null) {
      const line = new RequestLine(reply);
      const trace = tracer.begin(req, reply.requestId);
      res.on('close', () => trace.end(line));
    }
    metrics.answered('shed', 503);
    const { transferEncoding, expectsContinue, contentLength } = headOf(req);
    const close = transferEncoding !== undefined || expectsContinue || contentLength > FORGIVEN_BYTES;
    queue.add({ reply, close }, performance.now());
    ticker.wake();
  };
}

const NAMES: Readonly<Record<string, ErrorName>> = {
  HPE_HEADER_OVERFLOW: 'request_header_fields_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Bytes that are no HTTP request, or none in time: answered in the shape of every other error, then closed. */
function refuseBrokenRequest(error: Error & { code?: string }, socket: Duplex): number | null {
  return refuseSocket(socket, error.code === 'ECONNRESET' ? null : (NAMES[error.code ?? ''] ?? 'invalid_request'));
}

/** @returns the status answered; null where nothing can be */
function refuseSocket(socket: Duplex, name: ErrorName | null): number | null {
  // what follows an answer that has begun would be taken for a part of it
  if (name === null || !socket.writable || answerOf(socket)?.headersSent) {
    socket.destroy();
    return null;
  }
  const error = new GatewayError(
    name,
    name === 'invalid_request' ? 'This is not an HTTP request the gateway can read.' : undefined,
  );
  const head = [
    `HTTP/1.1 ${error.status} ${REASONS[error.status] ?? 'Bad Request'}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(error.body)}`,
    `x-request-id: ${newRequestId()}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${error.body}`);
  return error.status;
}

const REASONS: Readonly<Record<number, string>> = {
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  431: 'Request Header Fields Too Large',
};
