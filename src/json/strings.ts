/**
 * Passes over the content of JSON strings, sixteen bytes at a time: what a large body is
 * made of. For 20 MiB of base64 a loop in JavaScript takes 19 ms and one over four bytes at
 * a time 8; WebAssembly has vectors and takes 3, the copy into its memory and the check of
 * UTF-8 included. Written by hand because it is this one function:
 *
 *   next: if none of 64 bytes at `at` is below 0x20, '"' or '\', and none is escaped: at += 64, go to next
 *         left = 16
 *   step: of 16 bytes at `at`, a bit each:
 *         slashes = what is '\'
 *         starts = slashes, but not a first byte that is escaped
 *         odd = ((starts << 1 | ODD) - starts) ^ ODD, which is every other '\' of a run, and the byte behind the run if it is escaped
 *         escapes = odd & slashes
 *         stops = escapes that make no whole escape with the byte behind them,
 *           and what is below 0x20 or '"' and not escaped
 *         if (stops) return (at + the first of them) * 2 + whether it passed an escape
 *         carry = whether the last byte escapes the first of the next step
 *         at += 16, left -= 1
 *         if (left) go to step, else to next
 *
 * A step does not ask whether there is any '\': in text with one in every line or two a
 * processor guesses the answer wrong so often that the whole takes half as long again. How
 * `odd` is found is from simdjson.
 */
/** Every second bit. */
const ODD = [0x41, 0xaa, 0xd5, 0x0a];
/** What of v is below 0x20 or '"', each byte. */
const ENDS = [0x20, 0x08, 0x20, 0x0a, 0xfd, 0x2a, 0x20, 0x08, 0x20, 0x0b, 0xfd, 0x23, 0xfd, 0x50];

/** v = load(at + offset); what of it is below 0x20, '"' or '\'. The offset is 512 and more, by its low seven bits. */
function anyOf(offset: number): number[] {
  const v = [0x20, 0x00, 0xfd, 0x00, 0x00, offset, 0x04, 0x21, 0x08];
  return [...v, ...ENDS, 0x20, 0x08, 0x20, 0x0c, 0xfd, 0x23, 0xfd, 0x50];
}

/** A constant: sixteen bytes, or one sixteen times. */
function vectorOf(...bytes: number[]): number[] {
  return [0xfd, 0x0c, ...(bytes.length === 1 ? Array<number>(16).fill(bytes[0] as number) : bytes)];
}

/** For each value of a half of a byte the bits of the escapes it occurs in: a byte is one if its halves have a bit in common. */
function halves(half: (byte: number) => number): number[] {
  const bits = new Array<number>(16).fill(0);
  for (const c of Buffer.from('"\\/bfnrt')) bits[half(c)] = (bits[half(c)] as number) | (1 << (c >> 4));
  return bits;
}

const CODE = [
  [0x02, 0x07, 0x7f, 0x09, 0x7b], // parameter: 0 at; locals: 1 slashes, 2 odd, 3 escapes, 4 stops, 5 passed, 6 carry, 7 left, 8 v, 9 behind
  // vectors that stay the same: V8 would make each of them anew in every step
  [...vectorOf(0x1f), 0x21, 0x0a, ...vectorOf(0x22), 0x21, 0x0b, ...vectorOf(0x5c), 0x21, 0x0c], // 10 0x1f, 11 '"', 12 '\'
  [...vectorOf(0x0f), 0x21, 0x0d], // 13 0x0f; 14 stays 0
  [...vectorOf(...halves((c) => c & 15)), 0x21, 0x0f, ...vectorOf(...halves((c) => c >> 4)), 0x21, 0x10], // 15 LOW, 16 HIGH
  [0x03, 0x40], // next:
  [...anyOf(0x80), ...anyOf(0x90), 0xfd, 0x50, ...anyOf(0xa0), 0xfd, 0x50, ...anyOf(0xb0), 0xfd, 0x50], // each of 64 bytes
  [0xfd, 0x53, 0x20, 0x06, 0x72, 0x45, 0x04, 0x40], // if (none, and no carry)
  [0x20, 0x00, 0x41, 0xc0, 0x00, 0x6a, 0x21, 0x00, 0x0c, 0x01, 0x0b], //   at = at + 64; next
  [0x41, 0x10, 0x21, 0x07, 0x03, 0x40], // left = 16; step:
  [0x20, 0x00, 0xfd, 0x00, 0x00, 0x80, 0x04, 0x22, 0x08], // v = load(at + 512)
  [0x20, 0x0c, 0xfd, 0x23, 0xfd, 0x64, 0x22, 0x01], // slashes = v = '\', a bit of each byte
  [0x20, 0x06, 0x41, 0x7f, 0x73, 0x71, 0x22, 0x02], // odd = slashes & ~carry, which are the starts
  [0x41, 0x01, 0x74, ...ODD, 0x72, 0x20, 0x02, 0x6b, ...ODD, 0x73, 0x22, 0x02], // odd = ((odd << 1 | ODD) - odd) ^ ODD
  [0x20, 0x01, 0x71, 0x22, 0x03], // escapes = odd & slashes
  [0x20, 0x00, 0xfd, 0x00, 0x00, 0x81, 0x04, 0x21, 0x09], // behind = load(at + 513)
  [0x20, 0x0f, 0x20, 0x09, 0x20, 0x0d, 0xfd, 0x4e, 0xfd, 0x0e], // LOW of (behind & 0x0f), each byte
  [0x20, 0x10, 0x20, 0x09, 0x41, 0x04, 0xfd, 0x6d, 0xfd, 0x0e], // HIGH of (behind >> 4)
  [0xfd, 0x4e, 0x20, 0x0e, 0xfd, 0x23, 0xfd, 0x64, 0x71], // escapes & (LOW & HIGH = 0)
  [...ENDS, 0xfd, 0x64, 0x20, 0x02, 0x20, 0x01, 0x20, 0x06, 0x72, 0x73, 0x41, 0x7f, 0x73, 0x71], // ends & ~(odd ^ (slashes | carry))
  [0x72, 0x22, 0x04, 0x04, 0x40], // stops = either; if (stops)
  [0x20, 0x00, 0x20, 0x04, 0x68, 0x6a, 0x41, 0x01, 0x74], //   (at + trailing zeros of stops) << 1
  [0x20, 0x03, 0x20, 0x04, 0x41, 0x7f, 0x6a, 0x20, 0x04, 0x41, 0x7f, 0x73, 0x71, 0x71], //   escapes & (stops - 1) & ~stops
  [0x20, 0x05, 0x72, 0x41, 0x00, 0x47, 0x72, 0x0f, 0x0b], //   return … | (passed | … != 0)
  [0x20, 0x05, 0x20, 0x03, 0x72, 0x21, 0x05], // passed = passed | escapes
  [0x20, 0x03, 0x41, 0x0f, 0x76, 0x21, 0x06], // carry = escapes >> 15
  [0x20, 0x00, 0x41, 0x10, 0x6a, 0x21, 0x00], // at = at + 16
  [0x20, 0x07, 0x41, 0x01, 0x6b, 0x22, 0x07, 0x0d, 0x00, 0x0c, 0x01], // left = left - 1; if (left) step; next
  [0x0b, 0x0b, 0x00, 0x0b],
].flat();

const MODULE = Uint8Array.of(
  ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00], // WebAssembly, version 1
  ...[0x01, 0x06, 0x01, 0x60, 0x01, 0x7f, 0x01, 0x7f], // a type: a number to a number
  ...[0x03, 0x02, 0x01, 0x00], // a function of that type
  ...[0x05, 0x03, 0x01, 0x00, 0x02], // 128 KiB of memory
  ...[0x07, 0x09, 0x02, 0x01, 0x6d, 0x02, 0x00, 0x01, 0x66, 0x00, 0x00], // exports: memory "m", function "f"
  ...[0x0a, ...sizeOf(CODE.length + 3), 0x01, ...sizeOf(CODE.length), ...CODE],
);

/** In the two bytes that sizes beyond 127 have. */
function sizeOf(size: number): number[] {
  return [(size & 127) | 128, size >> 7];
}

/** The part of the standard that is used here; TypeScript knows it as part of the DOM only. */
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object) => { exports: object };
};

const { m, f } = new WebAssembly.Instance(new WebAssembly.Module(MODULE)).exports as {
  m: { buffer: ArrayBuffer };
  f: (at: number) => number;
};
const MEMORY = new Uint8Array(m.buffer);
const CONTENT_AT = 512;

/** The most that one `load` takes. */
export const MAX_LOAD = 65_536;

/** Makes [from, to) the bytes that `pass` looks at, until the next load by anybody. */
export function load(b: Buffer, from: number, to: number): void {
  b.copy(MEMORY, CONTENT_AT, from, to);
  MEMORY[CONTENT_AT + to - from] = 0; // so that it stops, even behind a backslash
}

/**
 * Passes over string content among the bytes loaded.
 * @param at where it begins, from the start of what was loaded
 * @returns twice the first offset that takes a closer look (a quote, a control character, a
 * backslash with what is no simple escape) or the length of what was loaded, plus 1 when it passed an escape
 */
export function pass(at: number): number {
  return f(at);
}
