import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { TLSSocket, type TLSSocketOptions } from 'node:tls';
import t from 'tap';
import { parseDatabaseUrl, type Target } from '../../../src/store/connection/address.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { makeCertificate, NO_OPENSSL } from '../../support/certificate.ts';
import { testDatabase } from '../../support/postgres.ts';
import { startProxy } from '../../support/proxy.ts';

const MS = 60_000;
const { url } = await testDatabase(t);
const plain = (await startProxy(t, url)).url;

/** Speaks TLS in front of the database, with a certificate for 127.0.0.1. @param more options of the server's side */
async function startTls(more: (cert: Buffer) => TLSSocketOptions = () => ({})) {
  const { cert, key } = makeCertificate(t.testdir(), 'postgres', 'IP:127.0.0.1');
  const pem = readFileSync(cert);
  const secure = { isServer: true, cert: pem, key: readFileSync(key), ...more(pem) };
  const server = createServer((socket) => {
    socket.on('error', () => {});
    const begin = () => {
      socket.write('S');
      const client = new TLSSocket(socket, secure).on('error', () => {});
      const database = connect(
        parseDatabaseUrl(url).targets[0] as Extract<Target, { path: string }>,
      );
      database.on('error', () => {}).on('close', () => client.destroy());
      client.on('close', () => database.destroy());
      client.pipe(database).pipe(client);
    };
    socket.once('data', begin);
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
  for (const mode of ['disable', 'prefer'])
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

t.test('files of certificates are read for each connection', { skip: NO_OPENSSL }, async (t) => {
  const { port, cert } = await startTls();
  const folder = t.testdir({});
  const { cert: other } = makeCertificate(folder, 'other', 'IP:127.0.0.1');
  const root = join(folder, 'root.pem');
  copyFileSync(cert, root);
  const { pathname } = new URL(plain);
  const url = `postgres://tollgate@127.0.0.1:${port}${pathname}?sslmode=verify-full&sslrootcert=${root}`;
  const db = openDatabase({ url });
  t.teardown(() => db.close());
  /** Asks over a connection that is made for it: the one before is ended first. */
  const anew = async () => {
    await db.run(MS, (sql) => sql`select pg_terminate_backend(pg_backend_pid())`).catch(() => {});
    return db.run(MS, (sql) => sql`select 1`);
  };
  await t.resolves(anew());
  copyFileSync(other, root);
  await t.rejects(anew(), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  copyFileSync(cert, root);
  await t.resolves(anew());
  rmSync(root);
  await t.resolves(anew(), 'while a file is being replaced, what was read before holds');
});
