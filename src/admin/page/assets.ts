import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';

// the same folder from src/admin and, when compiled, from dist/admin
const FOLDER = new URL('../../../src/admin/assets/', import.meta.url);

export const STYLE = read('style.css', 'text/css');
export const SCRIPT = read('pages.js', 'text/javascript');
export const ICON = read('icon.svg', 'image/svg+xml');

/** A file that pages refer to. Its path has a hash of its content, so browsers may keep it for ever. */
function read(name: string, type: string) {
  const body = readFileSync(new URL(name, FOLDER));
  return { path: `/assets/${hash('sha256', body, 'hex').slice(0, 12)}/${name}`, type: `${type}; charset=utf-8`, body };
}
