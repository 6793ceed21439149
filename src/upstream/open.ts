import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { Logger } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import { Patience } from '../runtime/patience.ts';
import type { AddressChange } from './addresses.ts';
import { type ConnectorOf, FastPool } from './fast-pool.ts';
import type { Upstream, UpstreamOptions } from './upstream.ts';

/** Longer than any start: the check ends by `Patience`. */
const CONNECT_MS = 600_000;

/**
 * Opens the way to the upstream.
 * @param fast whether to use fast connections, if they pass their check; otherwise undici's pool is used
 * @param log told of addresses, and why fast connections are not used where they were asked for
 */
export async function openUpstream(
  given: Omit<UpstreamOptions, 'onChange'>,
  fast: boolean,
  log: Pick<Logger, 'info' | 'warn'>,
): Promise<Upstream> {
  const onChange = ({ reason, ...where }: AddressChange): void =>
    reason === null
      ? log.info(where, 'upstream: an address can be used again')
      : log.warn({ ...where, reason }, 'upstream: an address cannot be used');
  const options = { ...given, onChange };
  if (fast) {
    const connectorOf = await workingConnector();
    if (connectorOf !== null) return new FastPool(options, connectorOf);
    const reason =
      'undici/lib/core/connect.js does not work as expected; the upstream is reached over undici, only slower';
    log.warn({}, reason);
  }
  const { UndiciPool } = await import('./undici-pool.ts');
  return new UndiciPool(options);
}

/** Lets metrics tell which addresses can be used. The label is an index: addresses may name internal hosts. */
export function measureUpstream(metrics: Metrics, upstream: Upstream): void {
  const help = 'Share of the IPs of an address of the upstream that can be used';
  const read = (write: (labels: { address: number }, share: number) => void): undefined => {
    for (const [at, share] of upstream.shares.entries()) write({ address: at + 1 }, share);
  };
  metrics.gauge('tollgate_upstream_address_up', help, read, 'min');
}

/** undici's connector, imported alone (the whole of undici takes 30 ms of a start) and tried; null where it fails. */
async function workingConnector(): Promise<ConnectorOf | null> {
  try {
    const { default: connectorOf } = await import('undici/lib/core/connect.js');
    return (await reads(connectorOf)) ? connectorOf : null;
  } catch {
    return null;
  }
}

/** Whether a connection of this connector reads into the buffers that it is given, one after the other. */
async function reads(connectorOf: ConnectorOf): Promise<boolean> {
  const server = createServer((socket) => socket.end('bytes'));
  // exclusive: a process manager with node:cluster would take this port as the sign that the gateway serves
  server.listen({ port: 0, host: '127.0.0.1', exclusive: true });
  await once(server, 'listening');
  let socket: Socket | null = null;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const patience = new Patience(() => resolve(false));
  const rooms = [Buffer.alloc(2), Buffer.alloc(8)];
  let text = '';
  const onread = {
    buffer: (): Buffer | undefined => rooms.shift(),
    callback(bytes: number, buffer: Buffer): boolean {
      text += `${buffer.toString('latin1', 0, bytes)} `;
      if (rooms.length === 0) resolve(text === 'by tes ');
      return true;
    },
  };
  const port = `${(server.address() as AddressInfo).port}`;
  const where = { protocol: 'http:', host: `127.0.0.1:${port}`, hostname: '127.0.0.1', port };
  connectorOf({ timeout: CONNECT_MS, allowH2: false, onread })(where, (error, connected) => {
    socket = connected;
    if (error !== null) resolve(false);
  });
  try {
    return await promise;
  } finally {
    patience.end();
    (socket as Socket | null)?.destroy();
    server.close();
  }
}
