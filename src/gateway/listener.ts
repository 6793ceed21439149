import type { Server, ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { Duplex } from 'node:stream';
import { type ErrorName, GatewayError } from '../domain/errors.ts';
import { attach, type FastParts, messageClasses } from '../http/attach.ts';
import { ConnectionFault } from '../http/boundary.ts';
import type {
  ClientRequest,
  ClientResponse,
  Connections,
  RequestHandler,
} from '../http/exchange.ts';
import { NO_STORE } from '../http/response-head.ts';
import { IdleInterval } from '../runtime/idle-interval.ts';
import { createServerOver } from '../runtime/node-http.ts';
import { Places } from '../runtime/places.ts';
import { newRequestId } from '../runtime/request-id.ts';
import type { TlsFiles } from '../runtime/tls-files.ts';
import { Turns } from '../runtime/turns.ts';
import { handle, handleWithQuota } from './pipeline.ts';
import { companyInMemory, RequestCompanies } from './request/company.ts';
import { noteFault } from './request/fault.ts';
import { RequestSummary } from './request/log.ts';
import { Reply, UNHEARD } from './request/reply.ts';
import type { ListenerLimits, Services } from './request/services.ts';
import { ShedQueue } from './request/shed-queue.ts';
import { errorsAt } from './unknown-path.ts';

/** How much longer than it was told a client's idle connection is kept: a request may be on its way. */
const GRACE_MS = 5000;
/** How often Node looks for requests that arrive too slowly. */
const CHECK_MS = 1000;
/**
 * Bytes that may wait for a slow client before the upstream is paused. With what one read brings and the socket's own
 * buffer, nearly every stream holds 64 KiB at most.
 */
const WRITE_BUFFER_BYTES = 16_384;
/** A refused body up to this size is read and discarded, which is cheaper than a new connection. */
const DISCARDED_BYTES = 65_536;
/** How long a refused client may take to read its answer and close. */
const LINGER_MS = 2000;
/** How long one turn of the event loop may start requests that had to wait, before new ones are read. */
const DELAYED_MS = 3;
/** How often the refusals that are due are sent. */
const SHED_MS = 50;

/** How often the log tells that there is no place. */
export const FULL_MS = 60_000;

/** The errors of node:http that have an answer of their own. */
const ERRORS: Readonly<Record<string, ErrorName>> = {
  HPE_HEADER_OVERFLOW: 'request_header_fields_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};
const REASONS: Readonly<Record<number, string>> = {
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
};

/** What the log says where further connections are closed. */
export const FULL =
  'there are as many client connections as MAX_CONNECTIONS and the limit of open files (ulimit -n) allow: for each further one, one of the network that has the most is closed';

/** The API's server, its connections, and how it drains them. */
export interface Listener {
  /** It may also be given connections that another process accepted, by the event "connection". */
  readonly server: Server;
  /** Those that are open, however they came; under TLS from the beginning of the handshake. */
  readonly connections: ReadonlySet<Socket>;
  /**
   * From now on the answer to a request closes its connection, and connections that are idle are closed after so many
   * milliseconds unless they are used again. Closed at once, some would lose a request that is on its way.
   */
  drain(idleMs: number): void;
}

/**
 * A node:http server that answers the API. Not yet listening.
 * @param parts of the fast path to use; none of them is plain node:http
 * @param tls null: the listener speaks plain HTTP
 */
export function createListener(
  services: Services,
  parts: FastParts,
  tls: TlsFiles | null,
): Listener {
  const { settings, metrics, log, requestLog } = services;
  let draining = false; // the next request is for another gateway
  const isDraining = (): boolean => draining;
  const server = createServerOver(tls, { ...serverOptions(settings), ...messageClasses(parts) });
  const handler = createHandler(services, isDraining);
  const { maxConnections } = settings;
  let toldFullAt = Number.NEGATIVE_INFINITY;
  const onFull = (): void => {
    metrics.dropped();
    const now = performance.now();
    if (now - toldFullAt < FULL_MS) return;
    toldFullAt = now;
    log.warn({ connections: maxConnections }, FULL);
  };
  const places = new Places({
    count: maxConnections,
    areProxied: settings.apiProxies > 0,
    isBusy: (socket) => connections.answering(socket) !== null,
    onFull,
  });
  const onOpen = (socket: Socket): void => void (places.take(socket) || socket.destroy());
  const connections = attach(server, { handler, parts, secure: tls !== null, onOpen });
  server.maxHeadersCount = settings.maxHeaders + 1; // Node drops the rest silently: the one more shows it
  server.maxConnections = 2 * maxConnections; // those that are being closed have no place any more
  server.on('drop', onFull);
  /** Nothing runs behind a refusal, and it comes after the answers to whole requests before it. */
  const refuse = (socket: Socket, name: ErrorName | null): void => {
    connections.stopReading(socket);
    const before = name === null ? null : connections.answering(socket);
    if (before?.req.complete && socket.writable) {
      if (before.once) before.once('close', () => refuse(socket, name));
      else before.closeAfter?.();
      return;
    }
    const at = Date.now();
    const requestId = newRequestId(at);
    const error = refuseSocket(socket, name, connections, requestId);
    if (error === null) return;
    metrics.answered('broken', error.status);
    requestLog.broken(requestId, at, error);
  };
  server.on('connect', (_req, socket) => refuse(socket as Socket, 'method_not_allowed'));
  /** Ends a connection that the gateway could not handle: the request that was being read gets 500. */
  const end = (socket: Socket, error: unknown): void => {
    const answer = connections.answering(socket);
    if (answer?.listener && !answer.req.complete) {
      connections.stopReading(socket);
      return answer.listener.onThrown(error);
    }
    noteFault(services, null, error);
    refuse(socket, 'internal_error');
  };
  // bytes that are not an HTTP request, or a request that took too long to arrive
  server.on('clientError', (error: Error & { code?: string }, socket) => {
    if (error instanceof ConnectionFault) return end(socket as Socket, error.cause);
    const { code = '' } = error;
    refuse(socket as Socket, code === 'ECONNRESET' ? null : (ERRORS[code] ?? 'invalid_request'));
  });
  // for example without free descriptors: connections wait in the kernel until there are some
  server.on('error', (error) => {
    if (server.listening) log.error({ err: error }, 'cannot accept connections'); // else the start fails with it
  });
  return {
    server,
    connections: tls === null ? connections.open : acceptedBy(server),
    drain(ms) {
      draining = true;
      server.keepAliveTimeout = ms;
      server.keepAliveTimeoutBuffer = 0;
      for (const socket of connections.open) {
        if (connections.answering(socket) !== null) continue;
        // Node clears its own timer when the next request comes; before the first it knows of none
        if (socket.bytesRead > 0) socket.setTimeout(ms);
        else
          setTimeout(() => {
            if (socket.bytesRead === 0) server.emit('timeout', socket);
          }, ms).unref();
      }
    },
  };
}

/** The open connections below TLS, kept up to date. */
function acceptedBy(server: Server): ReadonlySet<Socket> {
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  return open;
}

/**
 * Answers requests of the API on any node:http server.
 * @param isDraining whether answers close their connections now
 */
export function createHandler(services: Services, isDraining: () => boolean): RequestHandler {
  const { overload, directory, settings } = services;
  const answer = settings.quotaHeaders ? handleWithQuota : handle;
  const shed = createShedder(services);
  const companies = new RequestCompanies(directory);
  const delayed = new Turns(DELAYED_MS);
  const enter = (
    req: ClientRequest,
    res: ClientResponse,
    company: string | null,
    arrived: boolean,
  ): void => {
    const load = overload.enter(company, req.head.contentLength);
    if (load === null) return shed(req, res, company);
    const begin = (): void => {
      try {
        answer(services, req, res, load, arrived);
      } catch (error) {
        overload.leave(load);
        fail(req, res, error);
      }
    };
    if (!overload.delays(load)) return begin();
    delayed.enter(() => (res.destroyed ? overload.leave(load) : begin()));
  };
  /** Answers 500 to a request that has no `ApiRequest`, where that is possible. */
  const fail = (req: ClientRequest, res: ClientResponse, error: unknown): void => {
    const requestId = newRequestId();
    noteFault(services, requestId, error);
    try {
      const reply = new Reply(res, requestId, UNHEARD);
      reply.errors = errorsAt(req.url, settings.basePath);
      reply.error(new GatewayError('internal_error'), true);
    } catch {
      res.destroy();
    }
  };
  return (req, res) => {
    try {
      if (isDraining()) res.closeAfter();
      const { complete } = req;
      const company = overload.needsCompany ? companies.of(req.head) : null;
      if (!(company instanceof Promise)) return enter(req, res, company, complete);
      company
        .then((found) => void (res.destroyed || enter(req, res, found, complete))) // the client may have left
        .catch((error) => fail(req, res, error));
    } catch (error) {
      fail(req, res, error);
    }
  };
}

/** What a server has to be created with for the limits to hold. */
export function serverOptions(limits: ListenerLimits): ServerOptions {
  return {
    headersTimeout: limits.headerMs,
    requestTimeout: Math.max(limits.bodyMs, limits.headerMs),
    connectionsCheckingInterval: CHECK_MS,
    keepAliveTimeout: limits.clientIdleMs,
    keepAliveTimeoutBuffer: GRACE_MS,
    maxHeaderSize: limits.maxHeaderBytes,
    highWaterMark: WRITE_BUFFER_BYTES,
    requireHostHeader: false, // `requireOneMeaning` checks it, and answers in the shape of every other error
    noDelay: true,
  };
}

/** Refuses requests for overload, each in its turn, before anything is looked up for it. */
function createShedder(services: Services) {
  const { settings, metrics, tracer, requestLog, directory, deadlines } = services;
  const queue = new ShedQueue<{ reply: Reply; close: boolean }>();
  const error = new GatewayError('service_unavailable'); // shared by all, because making an error takes 5 µs
  const interval = new IdleInterval(SHED_MS, () => {
    for (const { reply, close } of queue.take(performance.now())) reply.error(error, close);
    return queue.waiting > 0;
  });
  return (req: ClientRequest, res: ClientResponse, company: string | null): void => {
    const at = Date.now();
    const requestId = newRequestId(at);
    const trace = tracer?.begin(req, requestId);
    const onReplyClosed = (): void => {
      trace?.end(summary);
      requestLog.shed(summary);
    };
    const onReplyWaits = (): void => deadlines.watchReader(reply);
    const onReplyThrew = (error: unknown): void => noteFault(services, requestId, error);
    const reply: Reply = new Reply(res, requestId, { onReplyWaits, onReplyClosed, onReplyThrew });
    const summary = new RequestSummary(reply, at);
    if (requestLog.hasTrail)
      summary.companyId = (company ?? companyInMemory(directory, req.head)) || null;
    reply.errors = errorsAt(req.url, settings.basePath);
    metrics.answered('shed', 503);
    const { transferEncoding, expectsContinue, contentLength } = req.head;
    const close =
      transferEncoding !== undefined || expectsContinue || contentLength > DISCARDED_BYTES;
    queue.add({ reply, close }, performance.now());
    interval.wake();
  };
}

/**
 * Answers on a socket that has no request, in the same format as every other error, and closes it.
 * @returns the error sent; null where nothing could be sent
 */
function refuseSocket(
  socket: Duplex,
  name: ErrorName | null,
  connections: Connections,
  requestId: string,
): GatewayError | null {
  // a client that is reading another answer would take these bytes for a part of it
  if (name === null || !socket.writable || connections.answering(socket)?.headersSent) {
    socket.destroy();
    return null;
  }
  const error = new GatewayError(
    name,
    name === 'invalid_request' ? 'This is not an HTTP request the gateway can read.' : undefined,
  );
  const head = [
    `HTTP/1.1 ${error.status} ${REASONS[error.status] ?? 'Bad Request'}`,
    NO_STORE,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(error.body)}`,
    `x-request-id: ${requestId}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${error.body}`);
  setTimeout(() => socket.destroy(), LINGER_MS).unref(); // also where the client does not close
  return error;
}
