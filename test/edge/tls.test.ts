import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, renameSync, rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { Agent, request } from 'node:https';
import { connect as connectTcp, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect } from 'node:tls';
import t from 'tap';
import { TlsFiles } from '../../src/runtime/tls-files.ts';
import { cheapHash, PASSWORD, Person } from '../admin/people.ts';
import { makeCertificate, NO_OPENSSL } from '../support/certificate.ts';
import { newFolder } from '../support/child.ts';
import { ask } from '../support/client.ts';
import { startCollector } from '../support/collector.ts';
import { startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { scriptedUpstream } from '../support/upstream.ts';

process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'; // the certificates are made here
const upstream = await scriptedUpstream(t);
const answerAtOnce = (res: ServerResponse): void => {
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  res.end(
    'data: {"id":"1","model":"internal-fast","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\ndata: [DONE]\n\n',
  );
};
upstream.answer(answerAtOnce);

async function serve() {
  const folder = newFolder(t);
  const first = makeCertificate(folder, 'first');
  const [cert, key] = [join(folder, 'tls.pem'), join(folder, 'tls.key')];
  copyFileSync(first.cert, cert);
  copyFileSync(first.key, key);
  const collector = await startCollector(t);
  const tracing = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
  const gateway = await startGateway(t, upstream.url, { TLS_CERT: cert, TLS_KEY: key, ...tracing });
  await gateway.model('fast', { upstream: 'internal-fast' });
  const apiKey = await gateway.key(await gateway.company());
  return { gateway, collector, apiKey, folder, cert, key };
}

type Served = Awaited<ReturnType<typeof serve>>;

/** One streamed chat. @returns status, body, and the name in the server's certificate */
function chat(
  url: string,
  key: string,
  agent: Agent,
): Promise<{ status: number; text: string; name: string }> {
  const body = JSON.stringify({
    model: 'fast',
    messages: [{ role: 'user', content: 'x' }],
    stream: true,
  });
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'content-length': body.length,
  };
  return new Promise((resolve, reject) => {
    const req = request(`${url}/chat/completions`, { method: 'POST', agent, headers }, (res) => {
      let text = '';
      const name = (res.socket as ReturnType<typeof connect>).getPeerCertificate().subject
        .CN as string;
      res.setEncoding('utf8').on('data', (piece) => {
        text += piece;
      });
      res.on('end', () => resolve({ status: res.statusCode as number, text, name }));
    });
    req.on('error', reject).end(body);
  });
}

const served = NO_OPENSSL ? null : await serve();

t.test(
  'the API speaks TLS 1.2 and newer, on connections that are used again',
  { skip: NO_OPENSSL },
  async (t) => {
    const { gateway, collector, apiKey } = served as Served;
    t.match(gateway.url, /^https:/);
    const agent = new Agent({ rejectUnauthorized: false, keepAlive: true, maxSockets: 1 });
    for (let n = 0; n < 4; n++) {
      const { status, text } = await chat(gateway.url, apiKey, agent);
      t.equal(status, 200);
      t.match(text, /"model":"fast".*\[DONE\]/s);
    }
    agent.destroy();
    t.equal((await collector.arrived(1))[0]?.attributes['url.scheme'], 'https', 'traces say so');
    const { hostname, port } = new URL(gateway.url);
    for (const [version, works] of [
      ['TLSv1.1', false],
      ['TLSv1.2', true],
      ['TLSv1.3', true],
    ] as const) {
      const options = {
        host: hostname,
        port: Number(port),
        rejectUnauthorized: false,
        ciphers: 'DEFAULT@SECLEVEL=0',
      };
      const spoken = await new Promise<boolean>((resolve) => {
        const socket = connect({ ...options, minVersion: version, maxVersion: version }, () =>
          resolve(true),
        );
        socket.on('error', () => resolve(false));
        t.teardown(() => socket.destroy());
      });
      t.equal(spoken, works, version);
    }
  },
);

t.test(
  'a client that closes its sending side is answered over TLS, one that leaves is noticed',
  { skip: NO_OPENSSL },
  async (t) => {
    const { gateway, apiKey } = served as Served;
    const { hostname, port } = new URL(gateway.url);
    const company = await gateway.company();
    const key = await gateway.key(company);
    const begun: ServerResponse[] = [];
    upstream.answer((res) => void begun.push(res));
    t.teardown(() => upstream.answer(answerAtOnce));
    for (const leaves of [false, true]) {
      const host = {
        host: hostname,
        port: Number(port),
        rejectUnauthorized: false,
        allowHalfOpen: true,
      };
      const socket = connect(host);
      let text = '';
      socket.setEncoding('latin1').on('data', (piece) => {
        text += piece;
      });
      const body = JSON.stringify({
        model: 'fast',
        messages: [{ role: 'user', content: 'x' }],
        stream: true,
      });
      const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${leaves ? key : apiKey}`;
      socket.write(
        `${head}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      if (leaves) {
        await until(() => begun.length === 2, 'the upstream has the call');
        socket.destroy();
        await until(
          () => gateway.logged.some((line) => line.includes(company)),
          'the log line of the call',
        );
        continue;
      }
      socket.end();
      await until(() => text.startsWith('HT'), 'two probes');
      answerAtOnce(begun[0] as ServerResponse);
      await once(socket, 'end');
      t.match(text, /^HTTP\/1\.1 200 OK\r\n.*\[DONE\]/s);
    }
  },
);

t.test(
  'a new certificate is used without a restart, a broken one is not',
  { skip: NO_OPENSSL },
  async (t) => {
    const { gateway, apiKey, folder, cert, key } = served as Served;
    const fresh = (): Agent => new Agent({ rejectUnauthorized: false });
    t.equal((await chat(gateway.url, apiKey, fresh())).name, 'first');
    const second = makeCertificate(folder, 'second');
    renameSync(second.cert, cert);
    renameSync(second.key, key);
    const name = async (): Promise<string> => (await chat(gateway.url, apiKey, fresh())).name;
    await until(name, 'the new certificate', (name) => name === 'second');

    const errors: Error[] = [];
    const contexts: unknown[] = [];
    const files = new TlsFiles(cert, key, {
      failed: (error) => errors.push(error),
      ends: () => {},
    });
    files.keepFresh({ setSecureContext: (options: unknown) => contexts.push(options) } as never);
    rmSync(key);
    await files.check();
    t.equal(errors.length, 1);
    t.same(contexts, [], 'the certificate before stays in use');
    files.close();
  },
);

t.test(
  'a named pipe in place of a certificate is told of, and stops no request',
  { skip: NO_OPENSSL },
  async (t) => {
    const folder = newFolder(t);
    const { cert, key } = makeCertificate(folder, 'piped');
    const gateway = await startGateway(t, upstream.url, { TLS_CERT: cert, TLS_KEY: key });
    const name = () =>
      new Promise((resolve, reject) => {
        const agent = new Agent({ rejectUnauthorized: false });
        request(`${gateway.url}/models`, { agent }, (res) => {
          resolve((res.socket as ReturnType<typeof connect>).getPeerCertificate().subject.CN);
          res.resume().on('end', () => agent.destroy());
        })
          .on('error', reject)
          .end();
      });
    const told: string[] = [];
    const contexts: unknown[] = [];
    const files = new TlsFiles(cert, key, {
      failed: ({ message }) => told.push(message),
      ends: () => {},
    });
    files.keepFresh({ setSecureContext: (options: unknown) => contexts.push(options) } as never);
    t.teardown(() => files.close());
    for (const path of [cert, key]) {
      renameSync(path, `${path}.kept`);
      execFileSync('mkfifo', [path]);
      await files.check();
      t.same(told.splice(0), [`"${path}" cannot be read: it is a named pipe, not a regular file`]);
      t.equal(await name(), 'piped');
      rmSync(path);
      renameSync(`${path}.kept`, path);
    }
    await files.check();
    t.same(contexts, [], 'the same files are back');
    const second = makeCertificate(folder, 'second');
    renameSync(second.cert, cert);
    renameSync(second.key, key);
    await files.check();
    t.equal(contexts.length, 1, 'a good pair is taken again');
    t.same(told, []);
    await until(name, 'the new certificate', (name) => name === 'second');
  },
);

t.test('a start refuses what is no regular file', { skip: NO_OPENSSL }, async (t) => {
  const { cert, key } = makeCertificate(newFolder(t), 'no');
  const pipe = `${cert}.pipe`;
  execFileSync('mkfifo', [pipe]);
  const start = (env: Record<string, string>) =>
    startGateway(t, upstream.url, { TLS_CERT: cert, TLS_KEY: key, ...env });
  await t.rejects(start({ TLS_CERT: pipe }), {
    message: /pipe" cannot be read: it is a named pipe, not a regular file/,
  });
  await t.rejects(start({ TLS_KEY: '/dev/zero' }), {
    message: /"\/dev\/zero" cannot be read: it is a device/,
  });
});

t.test(
  'a certificate that ends soon, or has ended, is told of once',
  { skip: NO_OPENSSL },
  async (t) => {
    const folder = newFolder(t);
    const { cert, key } = makeCertificate(folder, 'ending');
    const told: boolean[] = [];
    const files = new TlsFiles(cert, key, {
      failed: t.error,
      ends: (_at, isOver) => told.push(isOver),
    });
    files.keepFresh({ setSecureContext: () => {} } as never);
    t.teardown(() => files.close());
    t.same(told, []);
    const hour = 3_600_000;
    for (const hours of [40, 44, 45, 49, 50]) await files.check(Date.now() + hours * hour);
    t.same(told, [false, true]);
    const second = makeCertificate(folder, 'next');
    renameSync(second.cert, cert);
    renameSync(second.key, key);
    await files.check();
    await files.check(Date.now() + 44 * hour);
    t.same(told, [false, true, false], 'a new one is looked at anew');
  },
);

t.test(
  'a gateway that starts with a certificate that has ended says so',
  { skip: NO_OPENSSL },
  async (t) => {
    const { cert: fresh, key } = makeCertificate(newFolder(t), 'over');
    const cert = `${fresh}.over`;
    execFileSync('openssl', ['x509', '-in', fresh, '-signkey', key, '-days', '0', '-out', cert], {
      stdio: 'ignore',
    });
    const gateway = await startGateway(t, upstream.url, { TLS_CERT: cert, TLS_KEY: key });
    t.ok(
      gateway.logged.some(
        (line) => JSON.parse(line).level === 50 && line.includes('TLS_CERT has ended'),
      ),
    );
  },
);

t.test(
  'handshakes that nobody goes on with are given up, the oldest of those who begin most',
  { skip: NO_OPENSSL },
  async (t) => {
    const { gateway, apiKey } = served as Served;
    const closed: number[] = [];
    const open = (url: string, n: number, localAddress: string): Socket => {
      const socket = connectTcp({
        host: '127.0.0.1',
        port: Number(new URL(url).port),
        localAddress,
      });
      t.teardown(() => socket.destroy());
      return socket.on('error', () => {}).on('close', () => closed.push(n));
    };
    const slow = open(gateway.url, -1, '127.0.0.1');
    await once(slow, 'connect');
    for (let n = 0; n < 1020; n++) open(gateway.url, n, '127.0.0.2').resume();
    await until(() => closed.length >= 21, 'more than 1000 are too many');
    const given = closed.slice(0, 21).sort((a, b) => a - b);
    t.same(
      given,
      Array.from({ length: 21 }, (_, n) => n),
    );
    const agent = new Agent({ rejectUnauthorized: false });
    agent.createConnection = () => connect({ socket: slow, rejectUnauthorized: false });
    t.equal(
      (await chat(gateway.url, apiKey, agent)).status,
      200,
      'the handshake of somebody else goes on',
    );

    const { cert, key } = makeCertificate(newFolder(t), 'hasty');
    const hasty = await startGateway(t, upstream.url, {
      TLS_CERT: cert,
      TLS_KEY: key,
      HEADER_SECONDS: '1',
    });
    open(hasty.url, -2, '127.0.0.1').resume();
    await until(() => closed.includes(-2), 'each has the time of HEADER_SECONDS');
  },
);

t.test(
  'the admin listener speaks TLS too, health as well as pages',
  { skip: NO_OPENSSL },
  async (t) => {
    const { gateway } = served as Served;
    t.match(gateway.adminUrl, /^https:/);
    for (const path of ['/livez', '/sign-in'])
      t.equal((await fetch(gateway.adminUrl + path)).status, 200, path);
  },
);

t.test(
  'an assistant runs over TLS, in the API and in the trial of the pages',
  { skip: NO_OPENSSL },
  async (t) => {
    const { gateway } = served as Served;
    const company = await gateway.company();
    const key = await gateway.key(company);
    const assistant = await gateway.assistant(company, { model: 'fast' });
    const answer =
      '{"model":"internal-fast","choices":[{"message":{"content":"from afar"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}';
    upstream.answer((res) => {
      res.writeHead(200, { 'content-type': 'application/json' });
      res.end(answer);
    });
    const body = { messages: [{ role: 'user', content: 'x' }] };
    const run = await ask(`${gateway.url}/assistants/${assistant}/run`, { key, body });
    t.match(run, { status: 200, json: { text: 'from afar', model: 'fast' } });

    const hash = cheapHash(PASSWORD);
    await gateway.sql`
    insert into users (email, company_id, role, password_hash)
    values ('ada@customer.example', ${company}, 'owner', ${hash})`;
    const person = new Person(gateway.adminUrl);
    const { status: signedIn, setCookies } = await person.signIn('ada@customer.example');
    t.equal(signedIn, 303);
    t.match(
      setCookies[0],
      /^__Host-tollgate=.*; Secure/,
      'the session never leaves over plain HTTP',
    );
    const invited = await person.post(`/companies/${company}/users`, {
      email: 'bo@customer.example',
      role: 'member',
    });
    t.match(invited.text, `${gateway.adminUrl}/invitation/`, 'a link begins with https');
    const trial = `/companies/${company}/assistants/${assistant}/run`;
    const { status, text } = await person.post(trial, { message: 'Hello', key });
    t.equal(status, 200);
    t.match(text, /<p class="answer">from afar<\/p>/);
    t.match(text, /<code>fast<\/code>.* 3 tokens in, 2 out/);
    t.equal((await gateway.ledger(company, 2)).length, 2, 'both runs are booked');
  },
);

t.test(
  'files that cannot be used stop the start, and say which',
  { skip: NO_OPENSSL },
  async (t) => {
    const { cert } = makeCertificate(newFolder(t), 'alone');
    await t.rejects(
      startGateway(t, upstream.url, { TLS_CERT: cert, TLS_KEY: '/no/such/file' }),
      /TLS_CERT, TLS_KEY: "\/no\/such\/file" cannot be read: ENOENT/,
    );
    await t.rejects(
      startGateway(t, upstream.url, { TLS_CERT: cert }),
      /TLS_KEY: is needed with TLS_CERT/,
    );
    await t.rejects(
      startGateway(t, upstream.url, { TLS_CERT: cert, TLS_KEY: cert }),
      /TLS_CERT, TLS_KEY: .*; TLS_CERT must be a PEM file with the certificate chain, TLS_KEY one with its private key/,
    );
  },
);
