import type { MiddlewareHandler } from 'hono';
import { compress } from 'hono/compress';

/** Pages, styles, scripts and drawings. Files are sent while they are written, and the answer of a model as it comes. */
const COMPRESSED = /^(?:text\/(?:html|css|javascript)|image\/svg\+xml)\b/;
const compressed = compress({ encoding: 'gzip', contentTypeFilter: COMPRESSED });

/**
 * Compresses pages for browsers that take it. What another site makes a browser ask for is not compressed: with a text
 * of its choice in the address, that site's author could learn from the lengths of answers what else is on the page.
 */
export const compressPages: MiddlewareHandler = (c, next) =>
  /^(?:cross|same)-site$/.test(c.req.header('sec-fetch-site') ?? '') ? next() : compressed(c, next);
