import { crc32 } from 'node:zlib';
import { LF, SPACE } from '../json/bytes.ts';

/**
 * How a record stands in a spool file: one line of ASCII. Length and checksum reveal a line that was cut or
 * changed, and the next line break ends the damage.
 *
 *   000001c3 5f0a9c21 {"billing_month":"2026-11-01",…}⏎
 *   length   CRC-32   the record, as it also goes to Postgres
 */

/** Bytes before the record. */
export const HEAD_BYTES = 18;

/** A line of a spool file. */
export interface SpoolLine {
  readonly record: string;
  /** Why the record cannot be trusted; null when it can. */
  readonly damage: string | null;
}

/** Bytes of the line of a record with so many bytes. */
export function lineLength(record: number): number {
  return HEAD_BYTES + record + 1;
}

/**
 * Writes the line of a record, ASCII without line breaks, into a buffer with room for it.
 * @returns the offset behind the line
 */
export function writeLine(buffer: Buffer, at: number, record: string): number {
  return finishLine(buffer, at, at + HEAD_BYTES + buffer.write(record, at + HEAD_BYTES, 'latin1'));
}

/** Completes the line whose record stands at [at + HEAD_BYTES, end). @returns the offset behind the line */
export function finishLine(buffer: Buffer, at: number, end: number): number {
  const start = at + HEAD_BYTES;
  writeHex(buffer, at, end - start);
  buffer[at + 8] = SPACE;
  writeHex(
    buffer,
    at + 9,
    crc32(new Uint8Array(buffer.buffer, buffer.byteOffset + start, end - start)),
  );
  buffer[at + 17] = SPACE;
  buffer[end] = LF;
  return end + 1;
}

/** The record of the whole line at [from, to). */
export function recordOfLine(buffer: Buffer, from: number, to: number): string {
  return buffer.toString('latin1', from + HEAD_BYTES, to - 1);
}

/**
 * Reads a spool file. A last line without its end is left out: the process died while writing
 * it, and reported it to nobody.
 */
export function readLines(bytes: Buffer): SpoolLine[] {
  const lines: SpoolLine[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(LF, start);
    if (end < 0) break;
    lines.push(readLine(bytes, start, end));
    start = end + 1;
  }
  return lines;
}

function readLine(bytes: Buffer, start: number, end: number): SpoolLine {
  const body = Math.min(start + HEAD_BYTES, end);
  const head = /^([\da-f]{8}) ([\da-f]{8}) $/.exec(bytes.toString('latin1', start, body));
  if (head === null) {
    return {
      record: bytes.toString('latin1', start, end),
      damage: 'a spool line without length and checksum',
    };
  }
  const record = bytes.toString('latin1', body, end);
  if (Number.parseInt(head[1] as string, 16) !== end - body) {
    return { record, damage: 'a spool line of another length than written' };
  }
  const intact = Number.parseInt(head[2] as string, 16) === crc32(bytes.subarray(body, end));
  return { record, damage: intact ? null : 'a spool line that fails its checksum' };
}

/** Writes a number below 2^32 as eight hexadecimal digits. */
function writeHex(buffer: Buffer, at: number, value: number): void {
  for (let i = 7; i >= 0; i--) {
    const digit = value & 15;
    buffer[at + i] = digit < 10 ? 0x30 + digit : 0x57 + digit;
    value >>>= 4;
  }
}
