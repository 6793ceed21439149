import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** A file pages refer to. Its path names its content, so it may be kept for ever. */
export interface Asset {
  readonly path: string;
  readonly type: string;
  readonly body: Buffer;
}

export interface Assets {
  readonly style: Asset;
  readonly script: Asset;
}

// the same folder from src/admin and, when compiled, from dist/admin
const FOLDER = new URL('../../src/admin/assets/', import.meta.url);

export function readAssets(): Assets {
  return { style: read('style.css', 'text/css'), script: read('pages.js', 'text/javascript') };
}

function read(name: string, type: string): Asset {
  const body = readFileSync(new URL(name, FOLDER));
  return { path: `/assets/${hash('sha256', body, 'hex').slice(0, 12)}/${name}`, type: `${type}; charset=utf-8`, body };
}
