import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { BrandSettings } from '../process/brand.ts';

/** A file that is served. */
interface Asset {
  readonly path: string;
  readonly type: string;
  readonly body: Buffer;
}

// the same folder from src/admin and, when compiled, from dist/admin
const FOLDER = new URL('../../../src/admin/assets/', import.meta.url);

export const STYLE = read('style.css', 'text/css');
export const SCRIPT = read('pages.js', 'text/javascript');
export const ICON = read('icon.svg', 'image/svg+xml');

/** A file that pages refer to. Its path has a hash of its content, so browsers may keep it for ever. */
function read(name: string, type: string): Asset {
  return assetOf(name, `${type}; charset=utf-8`, readFileSync(new URL(name, FOLDER)));
}

/** Files of the operator's brand; null: those of Tollgate are taken. */
export function brandAssets({ logo, style }: BrandSettings) {
  const ending = logo?.type === 'image/png' ? 'png' : 'svg';
  return {
    logo: logo && assetOf(`logo.${ending}`, logo.type, Buffer.from(logo.body, 'base64')),
    style:
      style === null ? null : assetOf('brand.css', 'text/css; charset=utf-8', Buffer.from(style)),
  };
}

function assetOf(name: string, type: string, body: Buffer): Asset {
  return { path: `/assets/${hash('sha256', body, 'hex').slice(0, 12)}/${name}`, type, body };
}
