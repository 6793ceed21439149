import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setDefaultCACertificates } from 'node:tls';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import t, { type Test } from 'tap';
import { mailer } from '../../src/events/mail.ts';
import { makeCertificate, NO_OPENSSL } from '../support/certificate.ts';

/** How an e-mail reaches its server: RFC 8314, section 3. */

const USER = 'tollgate:pa%3Ass@';
const MAIL = {
  to: 'own@acme.example',
  subject: 'Invitation',
  text: 'https://gate.example/invitation#secret-link',
};

/** A server, and what a listener before it reads: the bytes that an e-mail sends over the network. */
async function serve(t: Test, options: SMTPServerOptions) {
  const mails: string[] = [];
  const server = new SMTPServer({
    ...options,
    authOptional: true,
    allowInsecureAuth: true,
    onAuth: ({ username }, _session, done) => done(null, { user: `${username}` }),
    onData: (stream, _session, done) =>
      void text(stream).then((mail) => done(null, `${mails.push(mail)}`)),
  });
  server.on('error', () => {}); // of a client that does not trust it
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  let sent = '';
  const sockets = new Set<Socket>();
  const before = createServer((client) => {
    const behind = connect((server.server.address() as AddressInfo).port, '127.0.0.1');
    for (const socket of [client, behind]) sockets.add(socket.on('error', () => {}));
    client.on('data', (bytes) => {
      sent += bytes.toString('latin1');
    });
    client.pipe(behind).pipe(client);
  });
  before.listen(0, '127.0.0.1');
  await once(before, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    before.close();
    server.close();
  });
  return { port: (before.address() as AddressInfo).port, mails, sent: () => sent };
}

const PLAIN = { disabledCommands: ['STARTTLS'] };

t.test(
  'a password, or a message to another machine, is sent by TLS alone',
  { skip: NO_OPENSSL },
  async (t) => {
    const made = makeCertificate(t.testdir());
    const own = { key: readFileSync(made.key, 'utf8'), cert: readFileSync(made.cert, 'utf8') };
    setDefaultCACertificates([own.cert]);
    const cases = [
      { name: 'STARTTLS', options: own, url: `smtp://${USER}localhost`, arrives: true },
      {
        name: 'TLS from the first byte',
        options: { ...own, secure: true },
        url: `smtps://${USER}localhost`,
        arrives: true,
      },
      {
        name: 'a server without TLS',
        options: PLAIN,
        url: `smtp://${USER}localhost`,
        arrives: false,
      },
      {
        name: 'a user without a password',
        options: PLAIN,
        url: 'smtp://tollgate@localhost',
        arrives: false,
      },
      {
        name: 'an address that is not this machine by name',
        options: PLAIN,
        url: 'smtp://0.0.0.0',
        arrives: false,
      },
      {
        name: 'settings of the mail library',
        options: PLAIN,
        url: `smtp://${USER}localhost`,
        query: 'ignoreTLS=true&opportunisticTLS=true',
        arrives: false,
      },
      {
        name: 'no password on this machine',
        options: PLAIN,
        url: 'smtp://localhost',
        arrives: true,
      },
      {
        name: 'switched off',
        options: PLAIN,
        url: `smtp://${USER}localhost`,
        query: 'requireTLS=false',
        arrives: true,
      },
      {
        name: 'switched off, and offered',
        options: own,
        url: `smtp://${USER}localhost`,
        query: 'requireTLS=false',
        arrives: true,
      },
    ];
    for (const { name, options, url, query = '', arrives } of cases) {
      const server = await serve(t, options);
      const sending = mailer(
        { url: `${url}:${server.port}/?${query}`, from: 'gate@gate.example' },
        10_000,
      )(MAIL);
      if (arrives) await sending;
      else await t.rejects(sending, { message: 'ETLS: the server takes no TLS' }, name);
      t.equal(server.mails.length, arrives ? 1 : 0, name);
      const isReadable = arrives && options === PLAIN;
      t.equal(/secret-link|AUTH/.test(server.sent()), isReadable, `${name}: what a listener reads`);
    }
  },
);
