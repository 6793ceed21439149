import type { Socket } from 'node:net';
import type { BodySink } from './exchange.ts';

/** Something that the gateway's own code threw while it handled one connection, which is the `cause`. */
export class ConnectionFault extends Error {
  constructor(cause: unknown) {
    super('a connection could not be handled', { cause });
  }
}

/**
 * The boundary around a connection: what was thrown while it was handled ends this connection and nothing else. The
 * server learns of it as of other errors of a connection, by `clientError`; where nobody listens the connection closes.
 */
export function connectionThrew(socket: Socket, error: unknown): void {
  const { server } = socket as Socket & { server?: NodeJS.EventEmitter };
  try {
    if (server?.emit('clientError', new ConnectionFault(error), socket) === true) return;
  } catch {} // the connection alone is at hand to be ended
  socket.destroy();
}

/** What an event or timer of a connection does, within its boundary. */
export function bounded(socket: Socket, part: () => void): () => void {
  return () => {
    try {
      part();
    } catch (error) {
      connectionThrew(socket, error);
    }
  };
}

/** Hands a piece of a body over, or its end; what is thrown ends that request. @returns whether to read on */
export function handTo(sink: BodySink, piece: Buffer | null, isOwn: boolean): boolean {
  try {
    if (piece !== null) return sink.onPiece(piece, isOwn ? 'own' : 'kept');
    sink.onWhole();
  } catch (error) {
    sink.onThrown(error);
  }
  return true;
}
