import { crc32 } from 'node:zlib';

/**
 * How a record stands in a spool file: one line of ASCII.
 *
 *   000001c3 5f0a9c21 {"billing_month":"2026-11-01",…}⏎
 *   length   CRC-32   the record, as it also goes to Postgres
 *
 * A line that was cut or changed is told by its length or checksum, and the next one is
 * found behind the next line break: damage stays with the record it happened to.
 */

/** Bytes before the record. */
export const HEAD = 18;
const LF = 0x0a;
const SPACE = 0x20;
const COMMA = 0x2c;
const LEFT_BRACKET = 0x5b;
const RIGHT_BRACKET = 0x5d;

/** Bytes a record of some length takes in a spool file. */
export function frameLength(record: number): number {
  return HEAD + record + 1;
}

/**
 * Writes one record, ASCII without line breaks, into a buffer with room for it.
 * @returns the offset behind it
 */
export function writeFrame(buffer: Buffer, at: number, record: string): number {
  return closeFrame(buffer, at, at + HEAD + buffer.latin1Write(record, at + HEAD));
}

/** Frames a record that was written HEAD bytes behind `at`, up to `end`. @returns the offset behind the frame */
export function closeFrame(buffer: Buffer, at: number, end: number): number {
  const start = at + HEAD;
  writeHex(buffer, at, end - start);
  buffer[at + 8] = SPACE;
  writeHex(buffer, at + 9, crc32(new Uint8Array(buffer.buffer, buffer.byteOffset + start, end - start)));
  buffer[at + 17] = SPACE;
  buffer[end] = LF;
  return end + 1;
}

/** The record in a whole frame that stands at [from, to). */
export function frameRecord(buffer: Buffer, from: number, to: number): string {
  return buffer.latin1Slice(from + HEAD, to - 1);
}

/** Writes one record where arrays are made of frames. @returns the offset behind it */
export function writeMember(buffer: Buffer, at: number, record: string): number {
  blankHead(buffer, at);
  const end = at + HEAD + buffer.latin1Write(record, at + HEAD);
  buffer[end] = LF;
  return end + 1;
}

/** Makes a further member of an array of a frame: a comma before its record, blanks for the rest of its head. */
export function blankHead(buffer: Buffer, at: number): void {
  for (let i = at; i < at + HEAD - 1; i++) buffer[i] = SPACE;
  buffer[at + HEAD - 1] = COMMA;
}

/** The JSON array of the frames at [0, to), whose heads are blank. */
export function closeArray(buffer: Buffer, to: number): Buffer {
  if (to === 0) return Buffer.from('[]');
  buffer[HEAD - 1] = LEFT_BRACKET;
  buffer[to - 1] = RIGHT_BRACKET;
  return buffer.subarray(HEAD - 1, to);
}

/** A line of a spool file: a record, or what is left of one. */
export interface Frame {
  readonly record: string;
  /** Why it cannot be trusted; null when it can. */
  readonly damage: string | null;
}

/**
 * Reads a spool file. A last line without its end was being written when the process died:
 * nobody was told it was safe, and it is left out.
 */
export function readFrames(bytes: Buffer): Frame[] {
  const frames: Frame[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(LF, start);
    if (end < 0) break;
    frames.push(readFrame(bytes, start, end));
    start = end + 1;
  }
  return frames;
}

function readFrame(bytes: Buffer, start: number, end: number): Frame {
  const head = /^([\da-f]{8}) ([\da-f]{8}) $/.exec(bytes.latin1Slice(start, Math.min(start + HEAD, end)));
  const body = Math.min(start + HEAD, end);
  if (head === null)
    return { record: bytes.latin1Slice(start, end), damage: 'a spool line without length and checksum' };
  const record = bytes.latin1Slice(body, end);
  if (Number.parseInt(head[1] as string, 16) !== end - body) {
    return { record, damage: 'a spool line of another length than written' };
  }
  const intact = Number.parseInt(head[2] as string, 16) === crc32(bytes.subarray(body, end));
  return { record, damage: intact ? null : 'a spool line that fails its checksum' };
}

/** Writes eight hexadecimal digits of a number below 2^32. */
function writeHex(buffer: Buffer, at: number, value: number): void {
  for (let i = 7; i >= 0; i--) {
    const digit = value & 15;
    buffer[at + i] = digit < 10 ? 0x30 + digit : 0x57 + digit;
    value >>>= 4;
  }
}
