import type { Context } from 'hono';
import { stream } from 'hono/streaming';
import type { ConnectionSql } from '../../store/connection/pool.ts';
import { EXPORT_MS, type Write } from '../../store/usage/export.ts';
import { type PageContext, type PageServices, read, sharerOf } from './context.ts';
import type { FormBindings } from './form.ts';

/** How long a client may read nothing of a file before its connection is closed: a database connection waits with it. */
const STALL_MS = 60_000;
/**
 * A reader gives way to a newcomer without a permit once the wait for it was this long in all and it took less than
 * this.
 */
const PATIENCE_MS = 10_000;
const LEAST_BYTES_PER_MS = 256;
/** Bytes sent before the wait for a reader was this long may still be in the buffers of the connections. */
const FILLING_MS = 1000;

/** Letters of a company's name in the name of a file: a file system takes 255 bytes. */
const MOST_LETTERS = 40;

/** The media type of CSV. */
export const CSV = 'text/csv; charset=utf-8';

interface File {
  readonly name: string;
  /** Name of the company that the file is about, for people: files of several lie in one folder. */
  readonly company?: string;
  /** Its media type. */
  readonly type: string;
}

/** Says that the answer is a file to be saved. */
export function nameFile(c: Context, { name, company, type }: File): void {
  c.header('content-type', type);
  c.header(
    'content-disposition',
    `attachment; filename="${name}"${company === undefined ? '' : longName(company, name)}`,
  );
}

/** As in RFC 8187. */
function longName(company: string, name: string): string {
  const first = [...company.toWellFormed()].slice(0, MOST_LETTERS).join('');
  const encoded = encodeURIComponent(`${first} ${name}`).replaceAll(
    /['()*]/g,
    (letter) => `%${letter.charCodeAt(0).toString(16)}`,
  );
  return `; filename*=UTF-8''${encoded}`;
}

/**
 * Streams a file to be saved, which may take minutes. After a failure the connection is destroyed, because Hono would
 * end the answer as if it were complete.
 * @param sharer as of `sharerOf`
 * @param fill writes the file; its promise settles when it is done
 */
export async function download<E extends { Bindings: FormBindings }>(
  c: Context<E>,
  services: Pick<PageServices, 'slow' | 'log' | 'clock'>,
  sharer: string,
  file: File,
  fill: (write: Write) => Promise<unknown>,
): Promise<Response> {
  const isHead = c.req.method === 'HEAD'; // Hono would leave the stream unread, and its permit taken
  const { slow, log, clock } = services;
  const cut = () => c.env.outgoing.destroy();
  let waited = 0; // milliseconds, until `since`
  let since: number | null = null; // null: nobody waits for the reader now
  let taken = 0;
  const giveWay = (): boolean => {
    const total = since === null ? 0 : waited + clock() - since;
    const isSlow = total >= PATIENCE_MS && taken < total * LEAST_BYTES_PER_MS;
    if (isSlow) cut();
    return isSlow;
  };
  const release = isHead ? null : await slow.acquire(sharer, giveWay);
  nameFile(c, file); // not before: a reader without a permit gets a page
  if (release === null) return c.body(null);
  return stream(
    c,
    async (output) => {
      const write = async (bytes: Buffer): Promise<boolean> => {
        const timer = setTimeout(cut, STALL_MS);
        since = clock();
        await output.write(bytes).finally(() => clearTimeout(timer));
        if (waited >= FILLING_MS) taken += bytes.length;
        waited += clock() - since;
        since = null;
        return !output.aborted;
      };
      await fill(write).finally(release);
    },
    async (error, output) => {
      if (!output.aborted) log.warn({ reason: error.stack }, 'admin: an export failed');
      cut();
    },
  );
}

/** A file of what the user may read, which is written while it is read. */
export function downloadRead(
  c: PageContext,
  file: File,
  fill: (sql: ConnectionSql, write: Write) => PromiseLike<unknown>,
): Promise<Response> {
  const { services } = c.var;
  return download(c, services, sharerOf(c), file, (write) =>
    read(c, (sql) => fill(sql, write), EXPORT_MS),
  );
}
