import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../domain/errors.ts';

/**
 * Reads a request body whole.
 * @param announced the content-length, or -1
 * @param limit bytes
 * @throws GatewayError 413 when it is larger than the limit, ClientGone when the client stops halfway
 */
export function readBody(req: IncomingMessage, announced: number, limit: number): Promise<Buffer> {
  if (announced > limit) return Promise.reject(new GatewayError('request_too_large'));
  return new Promise((resolve, reject) => {
    let first: Buffer | null = null; // nearly every body is one chunk
    let rest: Buffer[] | null = null;
    let size = 0;
    req.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > limit) {
        req.removeAllListeners('data');
        req.resume();
        reject(new GatewayError('request_too_large'));
      } else if (first === null) {
        first = chunk;
      } else {
        rest ??= [first];
        rest.push(chunk);
      }
    });
    req.on('end', () => resolve(rest === null ? (first ?? EMPTY) : Buffer.concat(rest, size)));
    req.on('error', () => reject(new ClientGone()));
    req.on('close', () => {
      if (!req.complete) reject(new ClientGone());
    });
  });
}

const EMPTY = Buffer.alloc(0);

/** The client left before its request was whole: nobody is there to be answered. */
export class ClientGone extends Error {}
