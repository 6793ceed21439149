import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { Webhook } from 'standardwebhooks';
import type { Test } from 'tap';
import type { BudgetAlert } from '../../src/domain/wording/alert.ts';

type Life = Pick<Test, 'teardown'>;

/** What a receiver of webhooks was sent. */
export interface Received extends BudgetAlert {
  readonly type: string;
  /** The header, which is signed. */
  readonly webhookId: string;
  /** Seconds since the epoch. */
  readonly timestamp: number;
  readonly body: string;
  status: number;
}

export interface Receiver {
  readonly url: string;
  /** ALERT_WEBHOOK_SECRET of who sends. */
  readonly secret: string;
  /** Posts whose signature the official library of Standard Webhooks verified, with the status they got. */
  readonly received: Received[];
  /** Posts that it refused. */
  readonly forged: string[];
  /** Sets what posts get from now on: a status, or what to do with the response. By default 204. */
  answer(next: number | ((res: ServerResponse) => void)): void;
}

/** A receiver of webhooks over HTTP. */
export async function startReceiver(life: Life): Promise<Receiver> {
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const webhook = new Webhook(secret);
  const received: Received[] = [];
  const forged: string[] = [];
  let next: number | ((res: ServerResponse) => void) = 204;
  const server = createServer(async (req, res) => {
    const body = await text(req);
    const answer = next;
    try {
      const alert = webhook.verify(body, req.headers as Record<string, string>) as BudgetAlert & {
        type: string;
      };
      const { 'webhook-id': webhookId, 'webhook-timestamp': timestamp } = req.headers;
      const status = typeof answer === 'number' ? answer : 0;
      received.push({
        ...alert,
        webhookId: String(webhookId),
        timestamp: Number(timestamp),
        body,
        status,
      });
    } catch (error) {
      forged.push((error as Error).message);
      return void res.writeHead(401).end();
    }
    if (typeof answer === 'number')
      res.writeHead(answer, { location: '/elsewhere' }).end('thank you');
    else answer(res);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  life.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks?token=of-the-receiver`;
  return {
    url,
    secret,
    received,
    forged,
    answer: (given) => {
      next = given;
    },
  };
}

export interface Mail {
  readonly from: string;
  readonly to: readonly string[];
  /** The message as it came, without its HTML: headers, and the plain text. */
  readonly text: string;
  /** The part with HTML; empty: there is none. */
  readonly html: string;
  /** The message as it came. */
  readonly raw: string;
}

/** The head of a message of several parts with the plain text, and the HTML decoded. */
function partsOf(raw: string): Pick<Mail, 'text' | 'html'> {
  const [head = ''] = raw.split('\r\n\r\n', 1);
  if (!/^content-type: multipart/im.test(head)) return { text: raw, html: '' };
  const part = (type: string) =>
    new RegExp(`\r\n(Content-Type: ${type};[^]*?)\r\n----_NmP`).exec(raw)?.[1] ?? '';
  return { text: `${head}\r\n${part('text/plain')}`, html: decodedBody(part('text/html')) };
}

/** The text of a message, or of a part of one, which is quoted where it has letters beyond ASCII. */
export function decodedBody(message: string): string {
  const body = message.slice(message.indexOf('\r\n\r\n') + 4);
  if (/^Content-Transfer-Encoding: base64/im.test(message))
    return Buffer.from(body, 'base64').toString();
  return body
    .replaceAll('=\r\n', '')
    .replaceAll(/(?:=[\dA-F]{2})+/g, (codes) =>
      Buffer.from(codes.replaceAll('=', ''), 'hex').toString(),
    );
}

export interface Mailbox {
  /** SMTP_URL of who sends, with user and password. */
  readonly url: string;
  readonly mails: Mail[];
  /** Recipients that are refused from now on. */
  refuse(...addresses: string[]): void;
  /** Messages are taken only then. */
  hold(until: Promise<unknown>): void;
}

/** A mail server that asks for a password. */
export async function startMailbox(life: Life): Promise<Mailbox> {
  const mails: Mail[] = [];
  let refused: readonly string[] = [];
  let held: Promise<unknown> = Promise.resolve();
  const options: SMTPServerOptions = {
    disabledCommands: ['STARTTLS'],
    onAuth({ username, password }, _session, done) {
      if (username === 'tollgate' && password === 'pa:ss') done(null, { user: username });
      else done(new Error('wrong password'));
    },
    onRcptTo({ address }, _session, done) {
      if (!refused.includes(address)) return done();
      done(Object.assign(new Error(`no such mailbox: ${address}`), { responseCode: 550 }));
    },
    onData(stream, { envelope }, done) {
      text(stream).then(async (text) => {
        await held;
        const { mailFrom, rcptTo } = envelope;
        mails.push({
          from: mailFrom ? mailFrom.address : '',
          to: rcptTo.map(({ address }) => address),
          raw: text,
          ...partsOf(text),
        });
        done();
      }, done);
    },
  };
  const server = new SMTPServer({ ...options, authOptional: false, allowInsecureAuth: true });
  server.on('error', () => {}); // of a connection that was cut
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  life.teardown(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  const { port } = server.server.address() as AddressInfo;
  return {
    url: `smtp://tollgate:pa%3Ass@127.0.0.1:${port}?requireTLS=false`,
    mails,
    refuse: (...addresses) => {
      refused = addresses;
    },
    hold: (until) => {
      held = until;
    },
  };
}
