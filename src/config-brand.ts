import { readRegularFile } from './runtime/regular-file.ts';

/** What the `BRAND_` variables may say. Each reader throws an Error that says what the text must be. */

/** The logo of the operator, as its file has it. */
export interface BrandLogo {
  readonly type: 'image/svg+xml' | 'image/png';
  readonly body: Buffer;
}

const MOST_LOGO_BYTES = 131_072;
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** Scripts, and what is loaded from elsewhere. Pages show the logo as an image, but its address can be opened too. */
const ACTIVE =
  /<\s*(?:script|foreignObject|iframe|object|embed)\b|\son\w+\s*=|javascript:|<!ENTITY|@import|(?:href|src)\s*=\s*["']?\s*(?:https?:)?\/\/|url\(\s*["']?\s*(?:https?:)?\/\//i;

export function brandName(text: string): string {
  const isRight = /^\P{C}{1,40}$/u.test(text) && text.trim() === text;
  return isRight ? text : refuse('1 to 40 characters that can be seen, without blanks around them');
}

/** Reads the file. Pages show images of their own address alone, so a logo on another server is no logo. */
export function brandLogo(path: string): BrandLogo {
  if (/^(https?|data):/i.test(path))
    refuse('the path of an SVG or PNG file: pages show no images of other addresses');
  let body: Buffer;
  try {
    body = readRegularFile(path);
  } catch (error) {
    throw new Error(`cannot be read: ${(error as Error).message}`);
  }
  if (body.length > MOST_LOGO_BYTES) refuse(`a file of at most ${MOST_LOGO_BYTES / 1024} KiB`);
  if (body.subarray(0, PNG.length).equals(PNG)) return { type: 'image/png', body };
  const svg = body.toString();
  if (
    !/^\ufeff?\s*(?:<\?xml[^>]*\?>\s*|<!--[\s\S]*?-->\s*|<!DOCTYPE[^>[]*>\s*)*<svg[\s>]/.test(svg)
  ) {
    refuse('an SVG or PNG file, by what is in it');
  }
  if (ACTIVE.test(svg)) refuse('an SVG file without scripts and without links to other addresses');
  return { type: 'image/svg+xml', body };
}

/** Lines of a letterhead, with ";" between them. */
export function brandSeller(text: string): string[] {
  const lines = text.split(';').map((line) => line.trim());
  const isRight = lines.length <= 8 && lines.every((line) => /^\P{C}{1,100}$/u.test(line));
  return isRight ? lines : refuse('1 to 8 lines of 1 to 100 characters, with ; between them');
}

export function brandColor(text: string): string {
  return /^#[\da-f]{6}$/i.test(text) ? text.toLowerCase() : refuse('a colour such as #0a6b58');
}

/** An address of a page, or an e-mail address: what a link leads to. */
export function brandSupport(text: string): string {
  if (/^[^\s@<>,;:"()?&%]+@[^\s@<>,;:"()?&%]+$/.test(text)) return `mailto:${text}`;
  return URL.canParse(text) && /^https?:\/\//.test(text)
    ? new URL(text).href
    : refuse('an e-mail address, or an http:// or https:// address');
}

export function brandPage(text: string): string {
  return URL.canParse(text) && /^https?:\/\//.test(text)
    ? new URL(text).href
    : refuse('an http:// or https:// address');
}

function refuse(rule: string): never {
  throw new Error(`must be ${rule}`);
}

/** Red, green and blue, linear, from 0 to 1. */
export type Colour = readonly [number, number, number];

export const WHITE: Colour = [1, 1, 1];

/** Of two colours, as WCAG 2.2 has it: from 1 to 21. */
export function contrast(one: Colour, other: Colour): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

function luminance([red, green, blue]: Colour): number {
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** @param hex "#0a6b58" or "#fff" */
export function colourOf(hex: string): Colour {
  const long = hex.length === 4 ? hex.replaceAll(/[\da-f]/gi, '$&$&') : hex;
  return [1, 3, 5].map((at) => {
    const value = Number.parseInt(long.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as unknown as Colour;
}
