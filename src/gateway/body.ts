import type { IncomingMessage } from 'node:http';
import { type JsonFault, type ParsedObject, parseObject } from '../bytes/json.ts';
import { ObjectScanner } from '../bytes/scan.ts';
import { type Edit, splicePieces } from '../bytes/splice.ts';
import { GatewayError } from '../domain/errors.ts';

/** Bodies up to this size are parsed when they are whole; larger ones are scanned as they arrive. */
const PARSE_BYTES = 65_536;

/** A request body: its bytes as they arrived, and what a strict reader makes of them. */
export class RequestBody {
  readonly pieces: readonly Buffer[];
  readonly length: number;
  readonly object: ParsedObject | JsonFault;
  /** When it was whole; monotonic milliseconds. */
  readonly wholeAt: number;

  constructor(pieces: readonly Buffer[], length: number, object: ParsedObject | JsonFault, wholeAt = 0) {
    this.pieces = pieces;
    this.length = length;
    this.object = object;
    this.wholeAt = wholeAt;
  }

  /** The bytes [start, end), copied only where they straddle pieces. */
  slice(start: number, end: number): Buffer {
    const found: Buffer[] = [];
    let from = 0; // of the piece, in the body
    for (const piece of this.pieces) {
      if (from >= end) break;
      if (from + piece.length > start) found.push(piece.subarray(Math.max(0, start - from), end - from));
      from += piece.length;
    }
    return found.length === 1 ? (found[0] as Buffer) : Buffer.concat(found);
  }

  /** The body with edits made, as pieces of the new body: nothing is copied. */
  edited(edits: readonly Edit[]): Buffer[] {
    return splicePieces(this.pieces, edits);
  }
}

/**
 * Reads a request body whole.
 * @param announced the content-length, or -1
 * @param limit bytes
 * @throws GatewayError 413 when it is larger than the limit; ClientGone when the client stops halfway
 */
export function readBody(req: IncomingMessage, announced: number, limit: number): Promise<RequestBody> {
  if (announced > limit) return Promise.reject(new GatewayError('request_too_large'));
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = [];
    const scanner = announced >= 0 && announced <= PARSE_BYTES ? null : new ObjectScanner();
    let size = 0;
    req.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > limit) {
        req.removeAllListeners('data');
        req.resume();
        reject(new GatewayError('request_too_large'));
        return;
      }
      pieces.push(chunk);
      scanner?.push(chunk);
    });
    req.on('end', () => {
      const now = performance.now();
      resolve(scanner === null ? small(pieces, now) : new RequestBody(pieces, size, scanner.end(), now));
    });
    // always told, unlike 'error', which nobody has to listen to here
    req.on('close', () => {
      if (!req.complete) reject(new ClientGone());
    });
  });
}

function small(pieces: readonly Buffer[], wholeAt: number): RequestBody {
  const body = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
  return new RequestBody([body], body.length, parseObject(body), wholeAt);
}

/** The client left before its request was whole: nobody is there to be answered. */
export class ClientGone extends Error {}
