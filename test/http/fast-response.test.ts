import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import t, { type Test } from 'tap';
import { FastResponse } from '../../src/http/fast-response.ts';
import { until } from '../support/until.ts';

/** What requests get on a connection of their own, and whether it is closed then: if not, one more is answered. */
async function exchange(t: Test, answer: (res: ServerResponse) => void, request: string) {
  const server = createServer({ ServerResponse: FastResponse, keepAliveTimeout: 75_000 } as object, (_req, res) =>
    answer(res),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.closeAllConnections());
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  let closed = false;
  socket.on('error', () => {}); // one more request may come too late
  socket.on('close', () => {
    closed = true;
  });
  socket.write(request);
  const asked = request.split('GET ').length - 1;
  const answered = () => text.split(BODY).length - 1;
  await until(() => closed || answered() === asked, 'the answers');
  if (!closed) socket.write(`${GET}\r\n`);
  await until(() => closed || answered() > asked, 'one more answer, or the end of the connection');
  socket.destroy();
  server.close();
  return { text: text.replaceAll(/date: [^\r]+ GMT/gi, 'date: now'), closed };
}

const BODY = '{"name":"\xe4"}';
const HEAD = ['content-type', 'application/json', 'content-length', `${BODY.length}`, 'x-request-id', 'id-1'];
const GET = 'GET / HTTP/1.1\r\nhost: x\r\n';

t.test("a JSON answer is to the byte what Node's own head would make it", async (t) => {
  const cases: Record<string, [string, boolean?, (string | null)?, (string | null)?]> = {
    'with a cost': [`${GET}\r\n`, false, '0.000375'],
    'with a second header for the id': [`${GET}\r\n`, false, '0.000375', 'request-id'],
    'kept alive': [`${GET}\r\n`],
    'two in a row': [`${GET}\r\n${GET}\r\n`],
    'closed by the client': [`${GET}connection: close\r\n\r\n`],
    'closed by the server': [`${GET}\r\n`, true],
    'HTTP/1.0': ['GET / HTTP/1.0\r\n\r\n'],
    'HTTP/1.0, kept alive': ['GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n'],
  };
  for (const [name, [request, leaving = false, cost = null, idHeader = null]] of Object.entries(cases)) {
    const id = idHeader === null ? [] : [idHeader, 'id-1'];
    const head = [...HEAD, ...id, ...(cost === null ? [] : ['x-cost-eur', cost])];
    const prepared = (answer: (res: ServerResponse) => void) => (res: ServerResponse) => {
      if (leaving) res.shouldKeepAlive = false;
      answer(res);
    };
    const [ours, node] = await Promise.all([
      exchange(
        t,
        prepared((res) => (res as FastResponse).sendJson('id-1', idHeader, BODY, cost)),
        request,
      ),
      exchange(
        t,
        prepared((res) => res.writeHead(200, head).end(BODY, 'latin1')),
        request,
      ),
    ]);
    t.match(node.text, /^HTTP\/1\.1 200 OK\r\n/);
    t.strictSame(ours, node, name);
  }
});
