import type { IncomingMessage } from 'node:http';
import { performance } from 'node:perf_hooks';
import { GatewayError } from '../domain/errors.ts';
import { BareRequest, type BodySink } from '../http/fast-request.ts';
import { RepeatedRequest } from '../http/repeated-request.ts';
import type { JsonFault, ParsedObject } from '../json/members.ts';
import { parseObject } from '../json/parser.ts';
import { type Edit, splicePieces } from '../json/splice.ts';
import { ObjectScanner } from '../json/stream-parser.ts';
import { type BodyMemory, free, Lease } from '../runtime/body-memory.ts';

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
  if (req instanceof BareRequest && req.handOver(reader)) {
    reader.ownsPieces = true;
    return;
  }
  req.on('data', (piece: Buffer) => reader.onPiece(piece)); // others may listen too
  req.on('end', () => reader.onWhole());
}

function takeBody(body: Buffer, limit: number, memory: BodyMemory, waiter: BodyWaiter): void {
  memory.took(body.length);
  if (body.length > limit) return waiter.onNoBody(new GatewayError('request_too_large'));
  waiter.onBody(new RequestBody([body], body.length, parseObject(body), performance.now()));
}

class BodyReader implements BodySink {
  /** Nobody else looks at the pieces. */
  ownsPieces = false;
  readonly #limit: number;
  readonly #memory: BodyMemory;
  #waiter: BodyWaiter | null;
  /** Of a body that is small so far. */
  #pieces: Buffer[] = [];
  /** Of one that is not: a slab for whoever sends a byte would be a lot for little. */
  #lease: Lease | null = null;
  readonly #scanner: ObjectScanner | null;
  #size = 0;

  constructor(announced: number, limit: number, memory: BodyMemory, waiter: BodyWaiter) {
    this.#limit = limit;
    this.#memory = memory;
    this.#waiter = waiter;
    this.#scanner = announced >= 0 && announced <= PARSE_BYTES ? null : new ObjectScanner();
  }

  onPiece(piece: Buffer): void {
    const waiter = this.#waiter;
    if (waiter === null) return; // the rest of one that is too large
    this.#size += piece.length;
    if (this.#size > this.#limit) {
      this.#waiter = null;
      this.#pieces.length = 0;
      this.#lease?.end();
      return waiter.onNoBody(new GatewayError('request_too_large'));
    }
    this.#scanner?.push(piece);
    this.#pieces.push(piece);
    if (this.#size > PARSE_BYTES) this.#move();
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

  /** The pieces at hand to leased memory. */
  #move(): void {
    this.#lease ??= new Lease(this.#memory);
    for (const piece of this.#pieces) {
      this.#lease.add(piece);
      if (this.ownsPieces) free(piece);
    }
    this.#pieces.length = 0;
  }

  #body(wholeAt: number): RequestBody {
    const lease = this.#lease;
    const pieces = lease?.pieces ?? this.#pieces;
    if (lease !== null && this.#scanner !== null) {
      return new RequestBody(pieces, this.#size, this.#scanner.end(), wholeAt, lease);
    }
    const body = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
    this.#memory.took(body.length);
    return new RequestBody([body], body.length, this.#scanner?.end() ?? parseObject(body), wholeAt);
  }
}
