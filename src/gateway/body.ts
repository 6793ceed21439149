import type { IncomingMessage } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { JsonFault, ParsedObject } from '../bytes/json.ts';
import { parseObject } from '../bytes/parse.ts';
import { ObjectScanner } from '../bytes/scan.ts';
import { type Edit, splicePieces } from '../bytes/splice.ts';
import { GatewayError } from '../domain/errors.ts';
import { BareRequest, type BodySink } from './bare-request.ts';
import { type BodyMemory, free, Lease } from './body-memory.ts';
import { RepeatedRequest } from './repeated.ts';

/** Bodies up to this size are parsed when they are whole; larger ones are scanned as they arrive. */
const PARSE_BYTES = 65_536;

/** A request body: its bytes as they arrived, and what a strict reader makes of them. */
export class RequestBody {
  #pieces: readonly Buffer[];
  readonly length: number;
  readonly object: ParsedObject | JsonFault;
  /** When it was whole; monotonic milliseconds. */
  readonly wholeAt: number;
  readonly #lease: Lease | null;

  /** @param lease of the memory that the pieces are in */
  constructor(
    pieces: readonly Buffer[],
    length: number,
    object: ParsedObject | JsonFault,
    wholeAt = 0,
    lease: Lease | null = null,
  ) {
    this.#pieces = pieces;
    this.length = length;
    this.object = object;
    this.wholeAt = wholeAt;
    this.#lease = lease;
  }

  /** The bytes [start, end), copied only where they straddle pieces. */
  slice(start: number, end: number): Buffer {
    const found = this.views(start, end);
    return found.length === 1 ? (found[0] as Buffer) : Buffer.concat(found);
  }

  /** The bytes [start, end) in pieces: nothing is copied. */
  views(start: number, end: number): Buffer[] {
    const found: Buffer[] = [];
    let from = 0; // of the piece, in the body
    for (const piece of this.#pieces) {
      if (from >= end) break;
      if (from + piece.length > start) found.push(piece.subarray(Math.max(0, start - from), end - from));
      from += piece.length;
    }
    return found;
  }

  /** The body with edits made, as pieces of the new body: nothing is copied. */
  edited(edits: readonly Edit[]): Buffer[] {
    return splicePieces(this.#pieces, edits);
  }

  /** Nobody looks at the bytes any more, nor at views of them: their memory serves other bodies. */
  letGo(): void {
    this.#pieces = [];
    this.#lease?.end();
  }
}

/** Who waits for a request body: told once, with one or the other. */
export interface BodyWaiter {
  onBody(body: RequestBody): void;
  /** GatewayError 413 when it is larger than the limit. */
  onNoBody(error: GatewayError): void;
}

/**
 * Reads a request body whole. A client that stops halfway is nothing to tell: its connection
 * is closed, and whoever answers it is told that.
 * @param announced the content-length, or -1
 * @param limit bytes
 */
export function readBody(
  req: IncomingMessage | RepeatedRequest,
  announced: number,
  limit: number,
  memory: BodyMemory,
  waiter: BodyWaiter,
): void {
  if (req instanceof RepeatedRequest) return takeBody(req.takeBody(), limit, memory, waiter);
  if (announced > limit) return waiter.onNoBody(new GatewayError('request_too_large'));
  const reader = new BodyReader(announced, limit, memory, waiter);
  if (req instanceof BareRequest && req.handOver(reader)) return;
  req.on('data', (piece: Buffer) => reader.take(piece)); // others may listen too
  req.on('end', () => reader.onWhole());
}

function takeBody(body: Buffer, limit: number, memory: BodyMemory, waiter: BodyWaiter): void {
  memory.took(body.length);
  if (body.length > limit) return waiter.onNoBody(new GatewayError('request_too_large'));
  waiter.onBody(new RequestBody([body], body.length, parseObject(body), performance.now()));
}

class BodyReader implements BodySink {
  readonly #limit: number;
  readonly #memory: BodyMemory;
  #waiter: BodyWaiter | null;
  /** Of a small body. */
  #pieces: Buffer[] = [];
  /** Of a large one. */
  readonly #scanner: ObjectScanner | null;
  #lease: Lease | null;
  #size = 0;

  constructor(announced: number, limit: number, memory: BodyMemory, waiter: BodyWaiter) {
    const small = announced >= 0 && announced <= PARSE_BYTES;
    this.#limit = limit;
    this.#memory = memory;
    this.#waiter = waiter;
    this.#scanner = small ? null : new ObjectScanner();
    this.#lease = small ? null : new Lease(memory);
  }

  onPiece(piece: Buffer): void {
    this.take(piece);
    if (this.#scanner !== null) free(piece);
  }

  /** Of a large body it takes a copy. */
  take(piece: Buffer): void {
    const waiter = this.#waiter;
    if (waiter === null) return; // the rest of one that is too large
    this.#size += piece.length;
    if (this.#size > this.#limit) {
      this.#waiter = null;
      this.#pieces.length = 0;
      this.#lease?.end();
      return waiter.onNoBody(new GatewayError('request_too_large'));
    }
    if (this.#scanner === null) this.#pieces.push(piece);
    else this.#scanner.push(piece);
    this.#lease?.add(piece);
  }

  onWhole(): void {
    const waiter = this.#waiter;
    if (waiter === null) return;
    const body = this.#body(performance.now());
    // this lives as long as the request, which may be long, and they may be large
    this.#pieces = [];
    this.#lease = null;
    waiter.onBody(body);
  }

  #body(wholeAt: number): RequestBody {
    const lease = this.#lease;
    if (this.#scanner === null || lease === null) {
      const pieces = this.#pieces;
      const body = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
      this.#memory.took(body.length);
      return new RequestBody([body], body.length, parseObject(body), wholeAt);
    }
    const object = this.#scanner.end();
    if (this.#size > PARSE_BYTES) return new RequestBody(lease.pieces, this.#size, object, wholeAt, lease);
    // it did not tell its size, and is small after all: it stays longer than a slab should
    const body = Buffer.concat(lease.pieces);
    lease.end();
    this.#memory.took(body.length);
    return new RequestBody([body], body.length, object, wholeAt);
  }
}
