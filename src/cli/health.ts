import type { RequestOptions } from 'node:https';
import { clientFor } from '../runtime/node-http.ts';

/**
 * Health check of a container, run in the environment of its gateway: `node dist/cli/health.js`.
 * Exits 0 when the process answers: on /livez, or, without an admin listener, anything below
 * 500 on the API. Reads only these variables and not the configuration, to start fast.
 */
const { HOST, PORT, LISTEN_SOCKET, ADMIN_HOST, ADMIN_PORT, TLS_CERT } = Object.fromEntries(
  Object.entries(process.env).map(([name, value]) => [name, value?.trim()]),
);
const TIMEOUT_MS = 3000;

const admin = { host: reachable(ADMIN_HOST), port: ADMIN_PORT || '8081', path: '/livez' };
const api = LISTEN_SOCKET
  ? { socketPath: LISTEN_SOCKET }
  : { host: reachable(HOST), port: PORT || '8080' };
const target: RequestOptions = ADMIN_PORT === 'off' ? api : admin;

// the certificate names the host that clients use, which is not the one asked here; the common agent may lead to a proxy
const options = { ...target, timeout: TIMEOUT_MS, rejectUnauthorized: false, agent: false };
clientFor(TLS_CERT ? 'https:' : 'http:')
  .get(options, ({ statusCode = 0 }) => process.exit(statusCode < 500 ? 0 : 1))
  .on('timeout', () => process.exit(1))
  .on('error', () => process.exit(1));

/** The address to ask; localhost for a listener on all addresses. */
function reachable(host: string | undefined): string {
  return !host || host === '0.0.0.0' || host === '::' ? 'localhost' : host;
}
