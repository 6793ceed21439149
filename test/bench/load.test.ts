import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const LOAD = fileURLToPath(new URL('../../bench/load.ts', import.meta.url));

interface Run {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

function load(...args: string[]): Promise<Run> {
  return new Promise((resolve) => {
    execFile(process.execPath, [LOAD, ...args], (error, stdout, stderr) => {
      resolve({ code: error?.code ?? 0, stdout, stderr });
    });
  });
}

/** Lists one model and answers chat calls, in a stream where asked. */
const server = createServer(async (req, res) => {
  if (req.headers.authorization !== 'Bearer svc_test') {
    res.writeHead(401, { 'content-type': 'application/json' }).end('{"error":{"message":"Wrong key."}}');
    return;
  }
  if (req.url === '/v1/models') {
    res.end('{"object":"list","data":[{"id":"the-model"}]}');
    return;
  }
  let text = '';
  for await (const part of req) text += part;
  const body = JSON.parse(text) as { model: string; stream: boolean; max_tokens?: number };
  if (body.model !== 'the-model' || body.max_tokens !== 7) res.writeHead(400).end();
  else if (body.stream) {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write('data: {"choices":[]}\n\n');
    setTimeout(() => res.end('data: [DONE]\n\n'), 20);
  } else res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
});
t.before(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
t.teardown(() => server.close());
const baseUrl = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;

t.test(
  'sends requests to the first listed model at the given rate, opens streams beside them, and reports both',
  async (t) => {
    const args = ['--rate', '50', '--streams', '3', '--duration', '1', '--max-tokens', '7'];
    const { code, stdout } = await load('--base-url', baseUrl(), '--key', 'svc_test', ...args, '--json');
    t.equal(code, 0);
    const result = JSON.parse(stdout);
    t.match(result, { model: 'the-model', unanswered: 0, requests: { errors: {} }, streams: { errors: {} } });
    t.ok(result.requests.done > 0 && result.requests.done <= 50 * result.seconds + 1, 'no more than wanted');
    t.equal(result.requests.statuses['200'], result.requests.done);
    t.ok(result.streams.done > 0 && result.streams.events >= 2 * result.streams.done, 'streams ended whole');
  },
);

t.test('shows its progress and a report for people', async (t) => {
  const args = ['--rate', '20', '--duration', '1', '--max-tokens', '7', '--model', 'the-model'];
  const { code, stdout, stderr } = await load('--base-url', `${baseUrl()}/`, '--key', 'svc_test', ...args);
  t.equal(code, 0);
  t.match(stderr, /1 s {3}\d+ answers\/s/);
  t.match(stdout, /whole answers/);
  t.match(stdout, /statuses +200: \d+/);
});

t.test('says what is wrong, and never the key', async (t) => {
  const wrongKey = await load('--base-url', baseUrl(), '--key', 'svc_wrong');
  t.match(wrongKey, { code: 1, stderr: /Wrong key\./ });
  t.notMatch(wrongKey.stderr, /svc_wrong/);
  t.match(await load('--key', 'svc_test'), { code: 64, stderr: /--base-url/ });
  t.match(await load('--base-url', baseUrl()), { code: 64, stderr: /--key/ });
  t.match(await load('--base-url', baseUrl(), '--key', 'k', '--rate', 'many'), { code: 64, stderr: /--rate/ });
});
