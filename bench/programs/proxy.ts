import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { parseArgs } from 'node:util';
import { type Dispatcher, Pool } from 'undici';

/**
 * The yardstick: the least that a Node proxy can do, written as well as we can: node:http, undici's `Pool.dispatch`
 * and `res.write` with backpressure on both sides; no parsing, no authentication, no metering, no log.
 *
 *   node bench/programs/proxy.ts --port 4001 --upstream http://127.0.0.1:4000
 */
// Smaller bodies are collected: handing undici one buffer measured cheaper than handing it a stream.
const COLLECT_BYTES = 65_536;

class Exchange implements Dispatcher.DispatchHandler {
  readonly #res: ServerResponse;
  #controller: Dispatcher.DispatchController | null = null;

  constructor(res: ServerResponse) {
    this.#res = res;
    res.on('close', () => {
      if (!res.writableFinished) this.#controller?.abort(new Error('client left'));
    });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    const raw = controller.rawHeaders as Buffer[];
    const headers: string[] = [];
    for (let i = 0; i < raw.length; i += 2) {
      const name = (raw[i] as Buffer).toString('latin1');
      if (isHopByHop(name)) continue;
      headers.push(name, (raw[i + 1] as Buffer).toString('latin1'));
    }
    this.#res.writeHead(status, headers);
  }

  onResponseData(controller: Dispatcher.DispatchController, data: Buffer): void {
    if (this.#res.write(data)) return;
    controller.pause();
    this.#res.once('drain', () => controller.resume());
  }

  onResponseEnd(): void {
    this.#res.end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#res.headersSent) this.#res.destroy(error);
    else this.#res.writeHead(502).end();
  }
}

function forward(pool: Pool, origin: string, req: IncomingMessage, res: ServerResponse): void {
  const headers: string[] = [];
  let length = -1;
  const raw = req.rawHeaders;
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i] as string;
    if (name === 'Host' || name === 'host' || isHopByHop(name)) continue;
    headers.push(name, raw[i + 1] as string);
    if (name.length === 14 && name.toLowerCase() === 'content-length') length = Number(raw[i + 1]);
  }
  const send = (body: Buffer | IncomingMessage | null): void => {
    const method = req.method as Dispatcher.HttpMethod;
    pool.dispatch({ origin, path: req.url as string, method, headers, body }, new Exchange(res));
  };
  if (length < 0 || length > COLLECT_BYTES) return send(req.method === 'GET' ? null : req);
  let body: Buffer | null = null;
  req.on('data', (data: Buffer) => {
    body = body === null ? data : Buffer.concat([body, data]);
  });
  req.on('end', () => send(body));
}

// Compares lengths first: nearly every header then needs one comparison.
function isHopByHop(name: string): boolean {
  if (name.length !== 10 && name.length !== 17) return false;
  const lower = name.toLowerCase();
  return lower === 'connection' || lower === 'keep-alive' || lower === 'transfer-encoding';
}

const { values } = parseArgs({
  options: { port: { type: 'string' }, upstream: { type: 'string' } },
});
const origin = values.upstream as string;
const pool = new Pool(origin);
const server = createServer((req, res) => forward(pool, origin, req, res));
server.listen({ port: Number(values.port), host: '127.0.0.1', backlog: 4096 });
