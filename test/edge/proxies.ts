import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { installed } from '../faults/pooler.ts';
import { ask } from '../support/client.ts';
import { freePort } from '../support/port.ts';
import { until } from '../support/until.ts';

/** A reverse proxy that stands before gateways. */
export interface ReverseProxy {
  /** Its path; null: it is not installed. */
  readonly program: string | null;
  /**
   * Starts it in front of a gateway for the length of a test.
   * @param url of the gateway, ending in /v1
   * @param silentSeconds after which it takes a silent gateway for dead
   * @returns its own address, ending in /v1
   */
  start(t: Test, url: string, silentSeconds?: number): Promise<string>;
}

/** What a proxy listens on, what it stands before, and its folder. */
interface Place {
  readonly port: number;
  readonly host: string;
  readonly folder: string;
  readonly silentSeconds: number;
}

function reverseProxy(
  name: string,
  args: (file: string) => string[],
  config: (place: Place) => string,
): ReverseProxy {
  const program = installed(name);
  return {
    program,
    async start(t, url, silentSeconds = 30) {
      const folder = mkdtempSync(join(tmpdir(), 'tollgate-edge-'));
      const port = await freePort();
      const file = join(folder, 'proxy.conf');
      writeFileSync(file, config({ port, host: new URL(url).host, folder, silentSeconds }));
      const child = spawn(program as string, args(file), {
        stdio: 'ignore',
        cwd: folder,
        env: { HOME: folder },
      });
      t.teardown(async () => {
        const gone = once(child, 'exit');
        child.kill('SIGKILL');
        await gone;
        rmSync(folder, { recursive: true, force: true });
      });
      const own = `http://127.0.0.1:${port}/v1`;
      const serves = () =>
        ask(`${own}/models`).then(
          ({ status }) => status === 401,
          () => false,
        );
      await until(serves, `${name} serves`);
      return own;
    },
  };
}

export const PROXIES = {
  nginx: reverseProxy(
    'nginx',
    (file) => ['-e', 'stderr', '-c', file],
    ({ port, host, folder, silentSeconds }) => `
daemon off; master_process off; pid ${folder}/pid; error_log stderr crit;
events {}
http {
  access_log off; client_body_temp_path ${folder}/b; proxy_temp_path ${folder}/p;
  fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
  upstream gateway { server ${host}; keepalive 8; }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://gateway; proxy_http_version 1.1; proxy_read_timeout ${silentSeconds}s;
      proxy_set_header Connection ""; proxy_set_header Host $host;
    }
  }
}
`,
  ),
  haproxy: reverseProxy(
    'haproxy',
    (file) => ['-db', '-f', file],
    ({ port, host, silentSeconds }) => `
defaults
  mode http
  timeout connect 5s
  timeout client ${silentSeconds}s
  timeout server ${silentSeconds}s
frontend in
  bind 127.0.0.1:${port}
  default_backend gateway
backend gateway
  http-reuse always
  server one ${host}
`,
  ),
  caddy: reverseProxy(
    'caddy',
    (file) => ['run', '--adapter', 'caddyfile', '--config', file],
    ({ port, host, folder, silentSeconds }) => `
{
  admin off
  auto_https off
  storage file_system ${folder}
}
http://127.0.0.1:${port} {
  bind 127.0.0.1
  reverse_proxy ${host} {
    transport http {
      read_timeout ${silentSeconds}s
    }
  }
}
`,
  ),
} satisfies Readonly<Record<string, ReverseProxy>>;
