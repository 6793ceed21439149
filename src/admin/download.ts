import type { Context } from 'hono';
import { stream } from 'hono/streaming';
import type { Write } from '../store/export.ts';
import type { PageServices } from './context.ts';
import type { FormBindings } from './form.ts';

/**
 * Streams a file to be saved, which may take minutes. After a failure the connection is destroyed, because Hono would
 * end the answer as if it were complete.
 * @param fill writes the file; its promise settles when it is done
 */
export async function download<E extends { Bindings: FormBindings }>(
  c: Context<E>,
  services: Pick<PageServices, 'slow' | 'log'>,
  { name, type }: { readonly name: string; readonly type: string },
  fill: (write: Write) => Promise<unknown>,
): Promise<Response> {
  c.header('content-type', type);
  c.header('content-disposition', `attachment; filename="${name}"`);
  if (c.req.method === 'HEAD') return c.body(null); // Hono would leave the stream unread, and its permit taken
  const release = await services.slow.acquire();
  return stream(
    c,
    async (output) => {
      const write = async (bytes: Buffer): Promise<boolean> => {
        await output.write(bytes);
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
