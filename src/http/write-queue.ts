import type { Socket } from 'node:net';

/** What Node itself reads before it takes a connection for idle: under TLS that of the connection below. */
interface Handle {
  readonly writeQueueSize?: number;
  readonly _parent?: Handle | null;
}

/**
 * How much the system has yet to take of the write under way; 0 where Node does not tell. The `writableLength` of a
 * socket does not fall before the whole write is out, and a large answer is one write.
 */
export function writeQueue(socket: Socket | null): number {
  const handle = (socket as (Socket & { _handle?: Handle | null }) | null)?._handle;
  return (handle?._parent ?? handle)?.writeQueueSize ?? 0;
}
