import type { Server, ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { closeWithConnection } from '../runtime/node-http.ts';
import { bounded } from './boundary.ts';
import { Arrivals, ClientConnection } from './client-connection.ts';
import type { AnswerUnderWay, Connections, RequestHandler } from './exchange.ts';
import { asClientRequest, FastRequest } from './fast-request.ts';
import { FastResponse } from './fast-response.ts';
import { streamBuffers } from './framed-stream.ts';
import { answerHalfClosed, watchHalfClosed } from './half-closed.ts';
import { closeIdle, discard } from './linger.ts';
import { attachPlain } from './plain.ts';
import { readShared } from './shared-read.ts';

/** The parts of the fast path and the insides of Node that each relies on; `check.ts` tries them at start. */
export const FAST_PARTS = {
  messages:
    'IncomingMessage.push, req._consuming, res._header, res._last, res._keepAliveTimeout, socket._httpMessage',
  sharedReads:
    'socket._handle.useUserBuffer, new Socket({ handle, onread }), socket._server, server.highWaterMark',
  headReader: "the server's 'connection' listener, the socket's 'data' listener, socket.server",
} as const;

export type FastPart = keyof typeof FAST_PARTS;

/** The parts in use; none of them is plain node:http. */
export type FastParts = ReadonlySet<FastPart>;

/** Options of the server for `attach`, besides `requireHostHeader: false`: Node looks for that header in `headers`. */
export function messageClasses(parts: FastParts): ServerOptions {
  if (!parts.has('messages')) return {};
  return { IncomingMessage: FastRequest, ServerResponse: FastResponse } as unknown as ServerOptions;
}

/** How the requests of a server are answered. */
interface AttachOptions {
  readonly handler: RequestHandler;
  readonly parts: FastParts;
  /** The server speaks TLS: its bytes come decrypted, so reads are not shared. */
  readonly secure: boolean;
  /** There is a new connection. */
  readonly onOpen?: (socket: Socket) => void;
}

/**
 * Answers the requests of a server by the fast path. Nothing changes on the wire.
 * @param server created with `messageClasses` of the same parts, and not listening yet
 */
export function attach(
  server: Server,
  { handler, parts, secure, onOpen = () => {} }: AttachOptions,
): Connections {
  answerHalfClosed(server);
  if (!parts.has('messages')) return attachPlain(server, handler, secure, onOpen);
  const open = new Set<Socket>();
  const buffers = streamBuffers();
  const connections = new WeakMap<Duplex, ClientConnection>();
  const event = secure ? 'secureConnection' : 'connection';
  const [own] = server.listeners(event) as [(this: Server, socket: Socket) => void];
  server.off(event, own);
  const accept = (socket: Socket): void => own.call(server, socket);
  const setting = { server, handler, buffers, arrivals: new Arrivals(), accept };
  const onConnection = (accepted: Socket): void => {
    const connection = parts.has('headReader') ? new ClientConnection(setting) : null;
    const shared = connection !== null && parts.has('sharedReads') && !secure;
    const socket = shared ? (readShared(accepted, server, connection) ?? accepted) : accepted;
    if (connection === null) accept(socket);
    else {
      connections.set(socket, connection);
      connection.begin(socket);
    }
    open.add(socket);
    socket.on('close', () => open.delete(socket));
    watchHalfClosed(socket, answering);
    onOpen(socket);
  };
  server.on(event, (accepted: Socket) => bounded(accepted, () => onConnection(accepted))());
  const onRequest = (req: FastRequest, res: FastResponse): void =>
    bounded(req.socket, () => {
      closeWithConnection(res);
      res.buffers = buffers;
      handler(asClientRequest(req), res);
    })();
  server.on('request', onRequest as never);
  server.on('checkContinue', onRequest as never); // the gateway asks for the body when it wants it
  server.on('checkExpectation', onRequest as never); // Node alone would answer 417 without a body
  const answering = (socket: Duplex): AnswerUnderWay | null =>
    connections.get(socket)?.answering ?? nodesAnswer(socket);
  server.on('timeout', (socket: Socket) => {
    const isBusy = (): boolean => answering(socket) !== null;
    if (!isBusy()) closeIdle(socket, isBusy);
  });
  const stopReading = (socket: Socket): void => {
    connections.get(socket)?.stopReading();
    discard(socket);
  };
  return { open, answering, stopReading };
}

/** The answer that Node's server is busy with, from the field where it keeps it. */
function nodesAnswer(socket: Duplex): AnswerUnderWay | null {
  return (socket as Duplex & { _httpMessage?: AnswerUnderWay })._httpMessage ?? null;
}
