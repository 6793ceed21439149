import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { TLSSocket, type TLSSocketOptions } from 'node:tls';
import t from 'tap';
import { parseDatabaseUrl, type Target } from '../../../src/store/connection/address.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { makeCertificate, NO_OPENSSL } from '../../support/certificate.ts';
import { testDatabase } from '../../support/postgres.ts';
import { startProxy } from '../../support/proxy.ts';

const MS = 10_000;
const { url } = await testDatabase(t);
const plain = (await startProxy(t, url)).url;

/** Speaks TLS in front of the database, with a certificate for 127.0.0.1. @param more options of the server's side */
async function startTls(more: (cert: Buffer) => TLSSocketOptions = () => ({}), isDirect = false) {
  const { cert, key } = makeCertificate(t.testdir(), 'postgres', 'IP:127.0.0.1');
  const pem = readFileSync(cert);
  const secure = { isServer: true, cert: pem, key: readFileSync(key), ...more(pem) };
  const server = createServer((socket) => {
    socket.on('error', () => {});
    const begin = () => {
      if (!isDirect) socket.write('S');
      const client = new TLSSocket(socket, secure).on('error', () => {});
      const database = connect(
        parseDatabaseUrl(url).targets[0] as Extract<Target, { path: string }>,
      );
      database.on('error', () => {}).on('close', () => client.destroy());
      client.on('close', () => database.destroy());
      client.pipe(database).pipe(client);
    };
    if (isDirect) begin();
    else socket.once('data', begin);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return { port: (server.address() as AddressInfo).port, cert, key };
}

async function answerOf(address: string): Promise<unknown> {
  const db = openDatabase({ url: address, maxConnections: 1, isFast: true });
  try {
    const text = Buffer.alloc(300_000, 'text ');
    const [row] = await db.run(MS, (sql) => sql`select md5(${sql.large(text)}::text) as md5`);
    t.equal(row?.md5, createHash('md5').update(text).digest('hex'));
    let bytes = 0;
    await db.run(MS, async (sql) => {
      for await (const piece of sql.copyOut(
        `copy (select repeat('x', 5777) from generate_series(1, 50)) to stdout`,
      ))
        bytes += piece.length;
    });
    const [behind] = await db.run(MS, (sql) => sql`select ${bytes}::integer as bytes`);
    return behind?.bytes;
  } catch (error) {
    return (error as { code?: string }).code;
  } finally {
    await db.close();
  }
}

const BYTES = 50 * 5778;

t.test('a server without TLS', async (t) => {
  for (const mode of ['disable', 'allow', 'prefer'])
    t.equal(await answerOf(`${plain}?sslmode=${mode}`), BYTES, mode);
  t.equal(await answerOf(`${plain}?sslmode=require`), 'NO_TLS');
});

t.test('a server with TLS', { skip: NO_OPENSSL }, async (t) => {
  const { port, cert } = await startTls();
  const at = (host: string, query: string) => {
    const { pathname } = new URL(plain);
    return `postgres://tollgate@${host}:${port}${pathname}?${query}`;
  };
  for (const mode of [
    'allow',
    'prefer',
    'require',
    `verify-full&sslrootcert=${cert}`,
    `verify-ca&sslrootcert=${cert}`,
  ]) {
    t.equal(await answerOf(at('127.0.0.1', `sslmode=${mode}`)), BYTES, mode);
  }
  t.equal(
    await answerOf(at('localhost', `sslmode=verify-ca&sslrootcert=${cert}`)),
    BYTES,
    'another name',
  );
  t.equal(
    await answerOf(at('localhost', `sslmode=verify-full&sslrootcert=${cert}`)),
    'ERR_TLS_CERT_ALTNAME_INVALID',
  );
  t.equal(await answerOf(at('127.0.0.1', 'sslmode=verify-full')), 'DEPTH_ZERO_SELF_SIGNED_CERT');
});

t.test('a server that asks for a certificate of the client', { skip: NO_OPENSSL }, async (t) => {
  const { port, cert, key } = await startTls((pem) => ({
    requestCert: true,
    rejectUnauthorized: true,
    ca: pem,
  }));
  const at = (query: string) =>
    `postgres://tollgate@127.0.0.1:${port}${new URL(plain).pathname}?${query}`;
  for (const mode of ['require', `verify-full&sslrootcert=${cert}`]) {
    t.equal(await answerOf(at(`sslmode=${mode}&sslcert=${cert}&sslkey=${key}`)), BYTES, mode);
  }
  t.not(await answerOf(at('sslmode=require')), BYTES, 'without');
});

t.test(
  'how TLS begins, in which versions, and whether the server is told its name',
  { skip: NO_OPENSSL },
  async (t) => {
    const names: (string | undefined)[] = [];
    const named = (): TLSSocketOptions => ({
      maxVersion: 'TLSv1.2',
      SNICallback: (name, done) => {
        names.push(name);
        done(null);
      },
    });
    const { port } = await startTls(named);
    const { port: direct, cert } = await startTls(() => ({ ALPNProtocols: ['postgresql'] }), true);
    const at = (to: number, query: string) =>
      `postgres://tollgate@localhost:${to}${new URL(plain).pathname}?hostaddr=127.0.0.1&${query}`;
    t.equal(await answerOf(at(port, 'sslmode=require')), BYTES);
    t.same(names.splice(0), ['localhost']);
    t.equal(await answerOf(at(port, 'sslmode=require&sslsni=0')), BYTES);
    t.same(names, []);
    for (const mode of ['require', 'prefer']) {
      t.equal(await answerOf(at(port, `sslmode=${mode}&ssl_min_protocol_version=TLSv1.2`)), BYTES);
      t.match(
        await answerOf(at(port, `sslmode=${mode}&ssl_min_protocol_version=TLSv1.3`)),
        /^ERR_SSL/,
      );
    }
    t.equal(await answerOf(at(direct, 'sslmode=require&sslnegotiation=direct')), BYTES);
    const local = at(direct, `sslmode=verify-ca&sslnegotiation=direct&sslrootcert=${cert}`);
    t.equal(await answerOf(local), BYTES, 'verified');
  },
);

t.test('a revoked certificate, and a key with a passphrase', { skip: NO_OPENSSL }, async (t) => {
  const folder = t.testdir({ 'index.txt': '', number: '01\n' });
  const { port, cert, key } = await startTls((pem) => ({
    requestCert: true,
    rejectUnauthorized: true,
    ca: pem,
  }));
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' });
  const conf =
    '[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ncrlnumber=number\ndefault_md=sha256\ndefault_crl_days=2\n';
  writeFileSync(join(folder, 'ca.cnf'), conf);
  const ofAuthority = ['-config', 'ca.cnf', '-cert', cert, '-keyfile', key];
  const [good, bad, locked] = ['good.pem', 'bad.pem', 'locked.key'].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  openssl('ca', '-gencrl', ...ofAuthority, '-out', good);
  openssl('ca', '-revoke', cert, ...ofAuthority);
  openssl('ca', '-gencrl', ...ofAuthority, '-out', bad);
  openssl('pkey', '-in', key, '-aes256', '-passout', 'pass:open', '-out', locked);
  const hash = execFileSync('openssl', ['crl', '-hash', '-noout', '-in', bad]).toString().trim();
  mkdirSync(join(folder, 'lists'));
  copyFileSync(bad, join(folder, 'lists', `${hash}.r0`));
  const pair = `sslmode=verify-ca&sslrootcert=${cert}&sslcert=${cert}&sslkey=${locked}&sslpassword=open`;
  const at = (query: string) =>
    `postgres://tollgate@127.0.0.1:${port}${new URL(plain).pathname}?${pair}${query}`;
  t.equal(await answerOf(at('')), BYTES);
  t.equal(await answerOf(at(`&sslcrl=${good}`)), BYTES);
  t.equal(await answerOf(at(`&sslcrl=${bad}`)), 'CERT_REVOKED');
  t.equal(await answerOf(at(`&sslcrldir=${join(folder, 'lists')}`)), 'CERT_REVOKED');
  t.not(await answerOf(at('&sslcertmode=disable')), BYTES, 'the certificate is not shown');
  t.throws(() => parseDatabaseUrl(at('').replace('=open', '=shut')), {
    message: /sslcert and sslkey cannot be used/,
  });
  t.throws(() => parseDatabaseUrl(at(`&sslcrl=${cert}`)), { message: /sslcrl cannot be used/ });
});
