/** Replaces the bytes [start, end); inserts where start === end. */
export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly bytes: Buffer;
}

/**
 * A copy of the body with the edits made; all other bytes stay as they are.
 * @param edits sorted by start, not overlapping
 */
export function splice(body: Buffer, edits: readonly Edit[]): Buffer {
  let { length } = body;
  for (const { start, end, bytes } of edits) length += bytes.length - (end - start);
  const out = Buffer.allocUnsafe(length);
  let at = 0;
  let from = 0;
  for (const { start, end, bytes } of edits) {
    at += body.copy(out, at, from, start);
    out.set(bytes, at);
    at += bytes.length;
    from = end;
  }
  body.copy(out, at, from);
  return out;
}

/** The bytes of an answer, whole or in pieces. */
export type AnswerBytes = Buffer | readonly Buffer[];

export function lengthOf(bytes: AnswerBytes): number {
  if (Buffer.isBuffer(bytes)) return bytes.length;
  let length = 0;
  for (let k = 0; k < bytes.length; k++) length += (bytes[k] as Buffer).length;
  return length;
}

/** A body up to this size is copied: that costs less than more writes. */
const MOST_COPIED = 65_536;
/** What a further write costs, in bytes that are copied. */
const WRITE_BYTES = 16_384;

/**
 * The body with the edits made: a large one as views of it between the bytes of the edits, because each MiB of a copy
 * would touch as much fresh memory in one turn of the event loop.
 * @param edits sorted by start, not overlapping
 */
export function edited(body: Buffer, edits: readonly Edit[]): AnswerBytes {
  const isLarge = body.length > MOST_COPIED && body.length > edits.length * WRITE_BYTES;
  return isLarge ? splicePieces([body], edits) : splice(body, edits);
}

/**
 * Makes the edits in a body that is in pieces. The result consists of views of the pieces, with the bytes of the edits
 * between them: nothing is copied.
 * @param edits sorted by start, not overlapping; offsets in the whole body
 */
export function splicePieces(pieces: readonly Buffer[], edits: readonly Edit[]): Buffer[] {
  const out: Buffer[] = [];
  let next = 0;
  let skipTo = 0; // the end of the last edit
  let base = 0; // offset of the piece in the body
  for (const piece of pieces) {
    const end = base + piece.length;
    let at = Math.max(base, skipTo);
    for (let edit = edits[next]; edit !== undefined && edit.start < end; edit = edits[++next]) {
      keep(out, piece, at - base, edit.start - base);
      if (edit.bytes.length > 0) out.push(edit.bytes);
      skipTo = edit.end;
      at = Math.max(edit.start, skipTo);
    }
    keep(out, piece, at - base, piece.length);
    base = end;
  }
  // insertions at the very end
  for (let edit = edits[next]; edit !== undefined; edit = edits[++next]) {
    if (edit.bytes.length > 0) out.push(edit.bytes);
  }
  return out;
}

function keep(out: Buffer[], piece: Buffer, start: number, end: number): void {
  if (start < end)
    out.push(start === 0 && end === piece.length ? piece : piece.subarray(start, end));
}
