import { isIP } from 'node:net';
import { clientFor } from '../runtime/node-http.ts';

type Headers = readonly (readonly [name: string, value: string])[];

/**
 * Asks the router at one IP of an address for its models. Any answer shows that it lives.
 * @returns null, or why there is no answer
 */
export function askForAnswer(
  url: URL,
  ip: string,
  headers: Headers,
  signal: AbortSignal,
): Promise<Error | null> {
  const { protocol, hostname, port } = url;
  const name = hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve) => {
    const request = clientFor(protocol).request(
      {
        method: 'HEAD',
        host: ip,
        port,
        servername: isIP(name) > 0 ? '' : name,
        path: `${url.pathname.replace(/\/+$/, '')}/models`,
        headers: Object.fromEntries(headers),
        agent: false,
        signal,
      },
      () => {
        resolve(null);
        request.destroy();
      },
    );
    request.on('error', resolve).end();
  });
}
