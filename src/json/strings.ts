import { MODULE } from './strings.generated.ts';

/**
 * Finds the end of long JSON strings, of which large bodies consist, with vector instructions (strings.wat). 20 MiB of
 * base64 take 3 ms, copy and UTF-8 check included; a loop in JavaScript takes 19 ms.
 */

/** The most bytes that one `load` takes. */
export const MAX_LOAD = 65_536;
/** Where strings.wat expects the content, in its memory. */
const CONTENT_AT = 512;

/** TypeScript declares WebAssembly with the DOM only. */
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object) => { exports: object };
};

const exported = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(MODULE, 'base64')))
  .exports as {
  memory: { buffer: ArrayBuffer };
  pass: (at: number) => number;
};
const MEMORY = new Uint8Array(exported.memory.buffer);

/** Copies [from, to) to where `pass` reads. Valid until the next load by any caller. */
export function load(b: Buffer, from: number, to: number): void {
  b.copy(MEMORY, CONTENT_AT, from, to);
  MEMORY[CONTENT_AT + to - from] = 0; // a control character: every pass ends here at the latest
}

/**
 * Passes over string content in the loaded bytes.
 * @param at offset in the loaded bytes to begin at
 * @returns the first offset that needs a closer look (a quote, a control character, a backslash that begins no whole
 * escape), or the loaded length
 */
export const { pass } = exported;
