import type { GatewayProcess } from '../faults/gateway.ts';
import { configFile, installed, startService } from '../faults/pooler.ts';
import type { Life } from '../faults/world.ts';
import { freePort } from '../support/port.ts';
import { until } from '../support/until.ts';

export const haproxy = installed('haproxy');

/**
 * Starts HAProxy as the documentation configures it: one cell of gateways for every key, and another
 * for keys that begin with `svcb_`. @returns its address
 */
export async function startBalancer(
  life: Life,
  cell: readonly GatewayProcess[],
  other: readonly GatewayProcess[] = [],
): Promise<string> {
  const port = await freePort();
  const backend = (name: string, gateways: readonly GatewayProcess[]): string => `
backend ${name}
  balance leastconn
  http-reuse safe
  option httpchk GET /readyz
  default-server check inter 1s fall 1 rise 1 observe layer4 error-limit 1 on-error mark-down
${gateways.map(({ url, adminUrl }, n) => `  server ${name}${n} ${new URL(url).host} port ${new URL(adminUrl).port}`).join('\n')}
`;
  const file = configFile(
    life,
    'haproxy.cfg',
    `global
  maxconn 8000
defaults
  mode http
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  option http-no-delay
  option redispatch 1
  retries 3
  retry-on conn-failure
frontend clients
  bind 127.0.0.1:${port}
  acl b hdr_beg(authorization) -i "bearer svcb_"
  use_backend b if b
  default_backend a
${backend('a', cell)}${backend('b', other)}`,
  );
  startService(life, haproxy as string, ['-db', '-q', '-f', file]);
  const url = `http://127.0.0.1:${port}/v1`;
  const serves = () =>
    fetch(`${url}/models`).then(
      ({ status }) => status === 401,
      () => false,
    );
  await until(serves, 'HAProxy reaches a gateway');
  return url;
}
