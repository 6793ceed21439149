import type { Context } from 'hono';
import { stream } from 'hono/streaming';
import type { Write } from '../store/export.ts';
import type { PageServices } from './context.ts';
import type { FormBindings } from './form.ts';

/** How long a client may read nothing of a file before its connection is closed: a database connection waits with it. */
const STALL_MS = 60_000;

interface File {
  readonly name: string;
  /** Its media type. */
  readonly type: string;
}

/** Says that the answer is a file to be saved. */
export function nameFile(c: Context, { name, type }: File): void {
  c.header('content-type', type);
  c.header('content-disposition', `attachment; filename="${name}"`);
}

/**
 * Streams a file to be saved, which may take minutes. After a failure the connection is destroyed, because Hono would
 * end the answer as if it were complete.
 * @param sharer who shares permits
 * @param fill writes the file; its promise settles when it is done
 */
export async function download<E extends { Bindings: FormBindings }>(
  c: Context<E>,
  services: Pick<PageServices, 'slow' | 'log'>,
  sharer: string,
  file: File,
  fill: (write: Write) => Promise<unknown>,
): Promise<Response> {
  const isHead = c.req.method === 'HEAD'; // Hono would leave the stream unread, and its permit taken
  const release = isHead ? null : await services.slow.acquire(sharer);
  nameFile(c, file); // not before: who gets no permit gets a page
  if (release === null) return c.body(null);
  return stream(
    c,
    async (output) => {
      const write = async (bytes: Buffer): Promise<boolean> => {
        const timer = setTimeout(() => c.env.outgoing.destroy(), STALL_MS);
        await output.write(bytes).finally(() => clearTimeout(timer));
        return !output.aborted;
      };
      await fill(write).finally(release);
    },
    async (error, output) => {
      if (!output.aborted) services.log.warn({ reason: error.stack }, 'admin: an export failed');
      c.env.outgoing.destroy();
    },
  );
}
