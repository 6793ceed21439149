import { performance } from 'node:perf_hooks';
import { GatewayError } from '../../domain/errors.ts';
import { STORED_FILES, WITH_PARTS } from '../../domain/request/stateless.ts';
import { type Files, filesOf, NO_FILES } from '../../domain/tokens/file.ts';
import type { BodySink, ClientRequest, PieceMemory } from '../../http/exchange.ts';
import type { JsonFault, Members, ParsedObject } from '../../json/members.ts';
import { MOST_WHOLE, parseObject } from '../../json/parser.ts';
import { type Edit, splicePieces } from '../../json/splice.ts';
import { ObjectStreamParser } from '../../json/stream-parser.ts';
import { type BodyMemory, free, LentSlabs } from '../../runtime/body-memory.ts';
import { SMALL_BYTES } from './held-memory.ts';

/** A body of so many bytes is timed: 9 KB of 1,000 members take ten times as long as a small request. */
export const TIMED_BYTES = 2048;
/** Bytes after which a body that is announced as large gets memory of a large one: a slab at least. */
const BEGUN_BYTES = 16_384;
/** How much of a larger body is read before others have their turn; else the system gives up to 8 MiB of each. */
const TURN_BYTES = 131_072;
/** The same while nobody else asks for anything: half a millisecond. */
const LONE_TURN_BYTES = 1_048_576;
/** Reading a small piece takes as much time as this many bytes of a large one. */
const PIECE_BYTES = 1024;
/** Pieces at which a small body is joined: each takes 120 bytes more than its own. A body in pieces of 1 KiB has fewer. */
const MOST_PIECES = 65;
/**
 * Chunks of any size that a chunked body may have; with more it needs LEAST_CHUNK bytes in each, on average. A megabyte
 * in chunks of one byte takes 1.4 s, of which others wait for a third before they have a turn.
 */
const FREE_CHUNKS = 4096;
const LEAST_CHUNK = 16;
const SMALL_CHUNKS = 'The request body is sent in chunks of a few bytes: send larger ones.';

/** A request body: its bytes as they arrived, and the object that a strict parser reads from them. */
export class RequestBody {
  #pieces: readonly Buffer[];
  /** Where each piece ends in the body; empty: nobody asked. */
  #ends: readonly number[] = NO_ENDS;
  readonly length: number;
  readonly object: ParsedObject | JsonFault;
  /** The files in it: each is a piece of its own, so that the others are the text. */
  readonly files: Files;
  readonly filePieces: ReadonlySet<Buffer>;
  /** When the body was whole, before it was parsed; monotonic milliseconds, NaN: it came with the head. */
  readonly wholeAt: number;
  /** How long parsing it took, in milliseconds; 0 below TIMED_BYTES. */
  readonly parseMs: number;
  readonly #slabs: LentSlabs | null;

  /** @param slabs in which the pieces lie; null: they have memory of their own */
  constructor(
    pieces: readonly Buffer[],
    length: number,
    object: ParsedObject | JsonFault,
    wholeAt = Number.NaN,
    parseMs = 0,
    slabs: LentSlabs | null = null,
  ) {
    this.files = filesIn(object);
    const { spans } = this.files;
    const cut = spans.length === 0 ? null : cutOut(pieces, spans);
    this.#pieces = cut?.pieces ?? pieces;
    this.filePieces = cut?.inside ?? NO_PIECES;
    this.length = length;
    this.object = object;
    this.wholeAt = wholeAt;
    this.parseMs = parseMs;
    this.#slabs = slabs;
  }

  /** The bytes [start, end), copied only where they straddle pieces. */
  slice(start: number, end: number): Buffer {
    const found = this.views(start, end);
    return found.length === 1 ? (found[0] as Buffer) : Buffer.concat(found);
  }

  /** Views of the bytes [start, end), one for each piece they lie in. */
  views(start: number, end: number): Buffer[] {
    const found: Buffer[] = [];
    const first = this.#pieceAt(start);
    let from = first === 0 ? 0 : (this.#ends[first - 1] as number); // where the piece begins in the body
    for (let i = first; i < this.#pieces.length && from < end; i++) {
      const piece = this.#pieces[i] as Buffer;
      if (from >= start && from + piece.length <= end) found.push(piece);
      else if (from + piece.length > start)
        found.push(piece.subarray(Math.max(0, start - from), end - from));
      from += piece.length;
    }
    return found;
  }

  /** The index of the piece in which a byte lies: found by halves, since a file makes two pieces and members are many. */
  #pieceAt(offset: number): number {
    if (this.#pieces.length < 2) return 0;
    if (this.#ends.length === 0) {
      let end = 0;
      this.#ends = this.#pieces.map((piece) => (end += piece.length));
    }
    let [low, high] = [0, this.#ends.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#ends[middle] as number) > offset) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /**
   * The body with edits made, as views of its pieces and the bytes of the edits.
   * @param edits in any order, not overlapping
   */
  edited(edits: readonly Edit[]): Buffer[] {
    const sorted = edits.length < 2 ? edits : edits.toSorted((a, b) => a.start - b.start);
    return splicePieces(this.#pieces, sorted);
  }

  /** Releases the memory: other bodies are written over the bytes and over views of them. */
  release(): void {
    this.#pieces = [];
    this.#ends = NO_ENDS;
    this.#slabs?.giveBack();
  }
}

const NO_ENDS: readonly number[] = [];

const NO_PIECES: ReadonlySet<Buffer> = new Set();

/** The files in messages: in other members, such as tools and documents, models read the same bytes as text. */
function filesIn(object: ParsedObject | JsonFault): Files {
  if (typeof object === 'string' || object.files.length === 0) return NO_FILES;
  const { files, members } = object;
  return filesOf(
    files.filter(({ member }) => WITH_PARTS.includes(members[member]?.name as string)),
  );
}

/** Cuts pieces where spans begin and end. @returns the pieces, and which of them are inside of a span */
function cutOut(
  pieces: readonly Buffer[],
  spans: Files['spans'],
): { pieces: Buffer[]; inside: Set<Buffer> } {
  const cut: Buffer[] = [];
  const inside = new Set<Buffer>();
  let next = 0;
  let base = 0;
  for (const piece of pieces) {
    const end = base + piece.length;
    for (let at = base; at < end; ) {
      const { from, to } = spans[next] ?? { from: end, to: end };
      const stop = Math.min(end, at < from ? from : to);
      const part = piece.subarray(at - base, stop - base);
      cut.push(part);
      if (at >= from && from < end) inside.add(part);
      if (stop === to) next++;
      at = stop;
    }
    base = end;
  }
  return { pieces: cut, inside };
}

/** A request body that every reader understands in the same way: what was checked is what the bytes say. */
export interface ValidBody<T> {
  readonly request: T;
  readonly body: RequestBody;
  readonly members: Members;
  /** Names of the members that may have a part in how long the answer can get. */
  readonly limiting: readonly string[];
}

/** Receives a request body: `onBody` or `onNoBody` is called, once. */
export interface BodyListener {
  /** The body did not come with the head: from now on the client is waited for. */
  onWait(): void;
  /** The body is whole; whether it is an acceptable object is in `body.object`. */
  onBody(body: RequestBody): void;
  /** The body is not taken: 413 for its size, 503 for want of memory, 400 for chunks of a few bytes. */
  onNoBody(error: GatewayError): void;
  /** Takes memory for more bytes of a large body. @returns false: it is not to be read */
  takeMemory(bytes: number): boolean;
  /** Bytes were read beyond the announced ones; small pieces count as PIECE_BYTES each. */
  worked(bytes: number): void;
  /** Reading it threw: a fault of the gateway. */
  onThrown(error: unknown): void;
}

/**
 * Reads a request body.
 * @param limit the largest body accepted, in bytes
 */
export function readBody(
  req: ClientRequest,
  limit: number,
  memory: BodyMemory,
  listener: BodyListener,
): void {
  const body = req.takeBody();
  if (body === null) {
    const { contentLength } = req.head;
    if (contentLength > limit) return listener.onNoBody(new GatewayError('request_too_large'));
    if (contentLength > SMALL_BYTES && !listener.takeMemory(contentLength))
      return listener.onNoBody(noMemory());
    listener.onWait();
    return req.readBody(new BodyReader(req, limit, memory, listener));
  }
  memory.noteSmall(body.length);
  if (body.length > limit) return listener.onNoBody(new GatewayError('request_too_large'));
  const began = body.length < TIMED_BYTES ? Number.NaN : performance.now();
  const object = parseObject(body, STORED_FILES);
  const parseMs = body.length < TIMED_BYTES ? 0 : performance.now() - began;
  listener.onBody(new RequestBody([body], body.length, object, Number.NaN, parseMs));
}

class BodyReader implements BodySink {
  readonly #req: ClientRequest;
  readonly #limit: number;
  readonly #memory: BodyMemory;
  /** null once the body is too large, or delivered. */
  #listener: BodyListener | null;
  readonly #owner: BodyListener;
  /** Pieces that were not moved to slabs. */
  #pieces: Buffer[] = [];
  /** Memory of a large body. A small one borrows none, because slabs are large. */
  #slabs: LentSlabs | null = null;
  /** Reads a larger body while it arrives; null: it is parsed when it is whole, in a quarter to all of the time. */
  readonly #parser: ObjectStreamParser | null;
  readonly #isAnnounced: boolean;
  /** What the parser took so far, in milliseconds. */
  #parseMs = 0;
  /** The size above which it lies in slabs. */
  readonly #slabsFrom: number;
  #size = 0;
  #chunks = 0;
  /** What reading took, in bytes: the size, with small pieces as PIECE_BYTES each. */
  #cost = 0;
  /** What is taken of turns when reading pauses, so that others have theirs. */
  #turnEnds: number;
  /** Cost that was told to the listener, and size for which memory was taken. What was announced is known already. */
  #told: number;
  #held = 0;
  /** Nothing more is read: the system would give up to 2 MiB before the connection closes. */
  #isStopped = false;

  constructor(req: ClientRequest, limit: number, memory: BodyMemory, listener: BodyListener) {
    const announced = req.head.contentLength;
    this.#req = req;
    this.#limit = limit;
    this.#memory = memory;
    this.#listener = this.#owner = listener;
    this.#isAnnounced = announced >= 0;
    this.#turnEnds = announced >= 0 && announced <= SMALL_BYTES ? TURN_BYTES : this.#turnBytes;
    this.#told = Math.max(0, announced);
    this.#slabsFrom = announced > SMALL_BYTES ? BEGUN_BYTES : SMALL_BYTES;
    this.#parser =
      announced >= 0 && announced <= MOST_WHOLE ? null : new ObjectStreamParser(STORED_FILES);
  }

  onPiece(piece: Buffer, memory: PieceMemory): boolean {
    const listener = this.#listener;
    if (listener === null) return true; // the rest of a body that is too large
    if (!this.#takes(piece.length, listener)) return !this.#isStopped;
    this.#parse(piece);
    if (this.#size > this.#slabsFrom) this.#move(piece, memory);
    else {
      this.#pieces.push(memory === 'lent' ? Buffer.from(piece) : piece);
      if (this.#pieces.length === MOST_PIECES) this.#pieces = [Buffer.concat(this.#pieces)];
    }
    return this.#goesOn();
  }

  room(most: number): Buffer | null {
    if (this.#listener === null || this.#slabs === null) return null;
    return this.#slabs.room(Math.min(most, Math.max(PIECE_BYTES, this.#turnEnds - this.#taken)));
  }

  onFilled(bytes: number): boolean {
    const listener = this.#listener as BodyListener;
    const piece = (this.#slabs as LentSlabs).fill(bytes);
    if (!this.#takes(bytes, listener)) return !this.#isStopped;
    this.#parse(piece);
    return this.#goesOn();
  }

  #parse(piece: Buffer): void {
    if (this.#parser === null) return;
    const began = performance.now();
    this.#parser.push(piece);
    this.#parseMs += performance.now() - began;
  }

  /** Counts the next bytes. @returns false where the body is refused */
  #takes(bytes: number, listener: BodyListener): boolean {
    this.#size += bytes;
    this.#cost += Math.max(bytes, PIECE_BYTES);
    const refusal = this.#check(listener);
    if (refusal === null) return true;
    this.#listener = null;
    this.#pieces.length = 0;
    this.#slabs?.giveBack();
    listener.onNoBody(refusal);
    this.#isStopped = this.#size <= this.#limit;
    return false;
  }

  /** What reading took of turns, in bytes: a millisecond of parsing, as for a thousand files, is a turn of its own. */
  get #taken(): number {
    return this.#cost + this.#parseMs * TURN_BYTES;
  }

  get #turnBytes(): number {
    return this.#memory.turns.isAlone ? LONE_TURN_BYTES : TURN_BYTES;
  }

  /** Whether reading goes on; where it does not, it will when others had their turn. */
  #goesOn(): boolean {
    if (this.#taken < this.#turnEnds) return true;
    this.#turnEnds = Number.POSITIVE_INFINITY; // a piece that was read already may still come
    const readOn = (): void => {
      this.#turnEnds = this.#taken + this.#turnBytes;
      if (!this.#isStopped) this.#req.readOn();
    };
    this.#memory.turns.enter(() => this.#guarded(readOn));
    return false;
  }

  /**
   * Checks what was read so far, tells the listener of the work and takes memory for it.
   * @returns why no more is read; null: more is
   */
  #check(listener: BodyListener): GatewayError | null {
    if (this.#size > this.#limit) return new GatewayError('request_too_large');
    if (!this.#isAnnounced && ++this.#chunks > FREE_CHUNKS + this.#size / LEAST_CHUNK)
      return new GatewayError('invalid_request', SMALL_CHUNKS);
    if (this.#cost - this.#told < TURN_BYTES) return null;
    listener.worked(this.#cost - this.#told);
    this.#told = this.#cost;
    if (this.#isAnnounced) return null;
    const more = this.#size - this.#held;
    this.#held = this.#size;
    return listener.takeMemory(more) ? null : noMemory();
  }

  onWhole(): void {
    const listener = this.#listener;
    if (listener === null) return;
    this.#listener = null;
    const wholeAt = performance.now();
    const deliver = (): void => {
      const body = this.#body(wholeAt);
      // this object lives as long as the request, and would keep the bytes alive
      this.#pieces = [];
      this.#slabs = null;
      listener.onBody(body);
    };
    const { turns, wholeTurns } = this.#memory;
    if (this.#slabs === null || turns.isAlone) deliver();
    else wholeTurns.enter(() => this.#guarded(deliver));
  }

  onThrown(error: unknown): void {
    this.#listener = null;
    this.#isStopped = true;
    this.#owner.onThrown(error);
  }

  /** Does a part of reading that a turn begins. */
  #guarded(part: () => void): void {
    try {
      part();
    } catch (error) {
      this.onThrown(error);
    }
  }

  /** Moves a piece to slabs, and before it those at hand. */
  #move(piece: Buffer, memory: PieceMemory): void {
    this.#slabs ??= new LentSlabs(this.#memory);
    for (const earlier of this.#pieces) {
      this.#slabs.add(earlier);
      if (memory === 'own') free(earlier);
    }
    this.#pieces.length = 0;
    this.#slabs.add(piece);
    if (memory === 'own') free(piece);
  }

  #body(wholeAt: number): RequestBody {
    const began = performance.now();
    const slabs = this.#slabs;
    let pieces = slabs?.pieces ?? this.#pieces;
    if (slabs === null) {
      if (pieces.length !== 1) pieces = [Buffer.concat(pieces)];
      this.#memory.noteSmall(this.#size);
    }
    const object = this.#parser?.end() ?? parseObject(pieces[0] as Buffer, STORED_FILES);
    const parseMs = this.#size < TIMED_BYTES ? 0 : this.#parseMs + performance.now() - began;
    return new RequestBody(pieces, this.#size, object, wholeAt, parseMs, slabs);
  }
}

function noMemory(): GatewayError {
  return new GatewayError('service_unavailable');
}
