import { hash, randomBytes } from 'node:crypto';
import type {
  ClientRequest,
  IncomingHttpHeaders,
  IncomingMessage,
  ServerResponse,
} from 'node:http';
import { pipeline } from 'node:stream';
import type { Clock } from '../../domain/ports.ts';
import { clientAddress } from '../../domain/request/client-address.ts';
import type { Logger } from '../../log.ts';
import { networkOf, request } from '../../runtime/node-http.ts';
import { Allowance } from './allowance.ts';
import { type PagesAddress, PagesProcess, PagesUnavailable } from './pages-process.ts';
import { PROBLEM_TYPE, problemText } from './problem.ts';
import { CLIENT_HEADER, type PagesSettings, SESSION_HEADER } from './settings.ts';

/** Headers that concern one connection, and those between the two processes. */
// biome-ignore format: a table
const NOT_FORWARDED = new Set([
  'connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'te', 'trailer', 'expect',
  CLIENT_HEADER, SESSION_HEADER,
]);
const MAX_BODY_BYTES = 1 << 20; // system prompts are long
/** Chunks of any size in which a body without a length may come; with more it needs LEAST_CHUNK bytes in each, on average. */
const FREE_CHUNKS = 256;
const LEAST_CHUNK = 256;
const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'];
const WITH_BODY = ['POST', 'PATCH'];
const SESSION_COOKIE = /(?:^|;\s*)(?:__Host-)?tollgate=([\w-]{43})(?:;|$)/;
const BEARER = /^Bearer (\S{1,100})$/i;

class BodyTooLarge extends Error {}

/** Answers with a plain text. */
type Send = (
  res: ServerResponse,
  status: number,
  text: string,
  headers?: Record<string, string>,
) => void;

export type Forwarder = ReturnType<typeof openForwarder>;

/** Where the pages come from. */
export interface PagesOrigin {
  readonly settings: Omit<PagesSettings, 'secret'>;
  readonly log: Logger;
  readonly clock: Clock;
  /** Number of reverse proxies whose X-Forwarded-For is trusted. */
  readonly proxies: number;
}

/**
 * Passes requests for pages on to the process of the pages, over HTTP on the loopback interface: a Unix socket
 * would need a folder to write to. Others on the machine can connect, but do not know the secret. Bodies flow
 * through with backpressure, so this process holds 64 KiB of each.
 */
export function openForwarder({ settings, log, clock, proxies }: PagesOrigin, send: Send) {
  const secret = randomBytes(32).toString('base64url');
  const pages = new PagesProcess({ ...settings, secret }, log);
  const allowance = new Allowance(clock);

  return {
    async answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
      const refuse = isOfProgram(req) ? problemOver(send) : send;
      if (!METHODS.includes(req.method as string))
        return refuse(res, 405, 'method not allowed\n', { allow: METHODS.join(', ') });
      const address = clientNetwork(req, proxies);
      const session = sessionOf(req.headers);
      const release = allowance.take(address, session);
      // its chunks would be read and parsed until the connection is closed in order
      if (req.headers['transfer-encoding'] !== undefined)
        res.once('finish', () => req.complete || req.socket.destroy());
      if (release === null) {
        return refuse(res, 503, 'too many requests\n', { connection: 'close', 'retry-after': '1' });
      }
      res.once('close', release);
      try {
        const kept = Object.entries(req.headers).filter(([name]) => !NOT_FORWARDED.has(name));
        const headers: IncomingHttpHeaders = {
          ...Object.fromEntries(kept),
          [CLIENT_HEADER]: `${secret} ${address}`,
        };
        // their bodies are not sent: the next request on the connection would be read as such a body
        if (!WITH_BODY.includes(req.method as string)) delete headers['content-length'];
        const to = await pages.address();
        if (res.destroyed) return; // the client left while the process started
        const found = await exchange(req, res, headers, to);
        if (found !== undefined) allowance.admit(String(found));
      } catch (error) {
        if (res.headersSent) res.destroy();
        else if (error instanceof PagesUnavailable) {
          refuse(res, 503, `${error.message}\n`, {
            connection: 'close',
            'retry-after': String(error.seconds),
          });
        } else if (error instanceof BodyTooLarge)
          refuse(res, 413, 'the body is too large\n', { connection: 'close' });
        else
          refuse(res, 502, 'the administration pages did not answer: try again\n', {
            connection: 'close',
          });
      }
    },
    close: () => pages.close(),
  };
}

/**
 * Sends a request on and its answer back.
 * @returns the session that the answer names, once its head is here
 * @throws Error when there is no answer
 */
function exchange(
  req: IncomingMessage,
  res: ServerResponse,
  headers: IncomingHttpHeaders,
  to: PagesAddress,
) {
  const { method, url } = req;
  const { promise, resolve, reject } = Promise.withResolvers<string | string[] | undefined>();
  const sent = request({ host: '127.0.0.1', ...to, method, path: url, headers, setHost: false });
  sent.on('error', reject);
  sent.on('response', (answer) => {
    const raw = answer.rawHeaders;
    const kept = raw.filter((_, i) => !NOT_FORWARDED.has((raw[i & ~1] as string).toLowerCase()));
    res.writeHead(answer.statusCode as number, kept);
    // HTTP/1.0, as some proxies speak it, has no chunks: the usual end of a connection makes a part look whole
    const isPlain = req.httpVersionMinor === 0 && !('encrypted' in req.socket);
    if (isPlain) answer.once('error', () => req.socket.resetAndDestroy());
    pipeline(answer, res, () => {}); // destroys both when one of them breaks
    resolve(answer.headers[SESSION_HEADER]);
  });
  res.on('close', () => sent.destroy()); // has no effect after a whole answer
  if (!WITH_BODY.includes(method as string)) {
    // node:http would send a body of these methods without its length
    req.resume();
    sent.end();
    return promise;
  }
  const length = Number(req.headers['content-length'] ?? 0);
  if (length > MAX_BODY_BYTES) {
    reject(new BodyTooLarge());
    sent.destroy();
    return promise;
  }
  if (req.headers['content-length'] === undefined) boundChunks(req, sent, reject);
  req.pipe(sent);
  return promise;
}

/**
 * Gives up a body without a length that is too large, or comes in chunks of a few bytes: each of them takes this event
 * loop, which is also the API's, as long as many bytes do.
 */
function boundChunks(
  req: IncomingMessage,
  sent: ClientRequest,
  reject: (error: Error) => void,
): void {
  let size = 0;
  let chunks = 0;
  const count = ({ length }: Buffer): void => {
    size += length;
    if (size <= MAX_BODY_BYTES && ++chunks <= FREE_CHUNKS + size / LEAST_CHUNK) return;
    req.off('data', count).unpipe(sent);
    req.pause();
    reject(new BodyTooLarge());
    sent.destroy();
  };
  req.on('data', count);
}

/** Whether it is for administration over HTTP, whose refusals are all problem details. */
function isOfProgram({ url }: IncomingMessage): boolean {
  return (url as string).startsWith('/api/');
}

/** Sends a plain text as problem details. */
function problemOver(send: Send): Send {
  return (res, status, text, headers) => {
    const detail = `${text.charAt(0).toUpperCase()}${text.slice(1).trimEnd()}.`;
    send(res, status, problemText(status, detail), { ...headers, 'content-type': PROBLEM_TYPE });
  };
}

/** The session, or the digest of a token, by which the allowance counts once the pages found it valid. */
function sessionOf({ authorization = '', cookie = '' }: IncomingHttpHeaders): string | null {
  const [, token] = BEARER.exec(authorization) ?? [];
  if (token !== undefined) return hash('sha256', token, 'base64url');
  return SESSION_COOKIE.exec(cookie)?.[1] ?? null;
}

/** The network of the client, or of the peer where the proxies name none. */
function clientNetwork({ rawHeaders, socket }: IncomingMessage, proxies: number): string {
  const peer = socket.remoteAddress;
  return networkOf(clientAddress(proxies, peer, rawHeaders) ?? peer);
}
