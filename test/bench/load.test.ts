import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const LOAD = fileURLToPath(new URL('../../bench/load.ts', import.meta.url));
const MAIN = fileURLToPath(new URL('../../bench/main.ts', import.meta.url));

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

/** Path → events of a stream. */
const STREAMS: Readonly<Record<string, readonly string[]>> = {
  '/v1/chat/completions': ['data: {"choices":[]}\n\n', 'data: [DONE]\n\n'],
  '/v1/responses': [
    'event: response.created\ndata: {}\n\n',
    'event: response.completed\ndata: {}\n\n',
  ],
  '/v1/messages': ['event: message_start\ndata: {}\n\n', 'event: message_stop\ndata: {}\n\n'],
};
let asked: { path: string; version: unknown }[] = [];

/** Lists one model and answers calls, in a stream where asked. */
const server = createServer(async (req, res) => {
  if (req.headers.authorization !== 'Bearer svc_test') {
    res
      .writeHead(401, { 'content-type': 'application/json' })
      .end('{"error":{"message":"Wrong key."}}');
    return;
  }
  if (req.url === '/v1/models') {
    res.end('{"object":"list","data":[{"id":"the-model"}]}');
    return;
  }
  let text = '';
  for await (const part of req) text += part;
  const body = JSON.parse(text) as {
    model: string;
    stream?: boolean;
    max_tokens?: number;
    max_output_tokens?: number;
  };
  const [first, last] = STREAMS[req.url as string] ?? [];
  asked.push({ path: req.url as string, version: req.headers['anthropic-version'] });
  if (body.model === 'silent') return;
  if (body.model !== 'the-model') res.writeHead(400).end();
  else if (req.url !== '/v1/embeddings' && (body.max_tokens ?? body.max_output_tokens) !== 7)
    res.writeHead(400).end();
  else if (body.stream) {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(first);
    setTimeout(() => res.end(last), 20);
  } else res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
});
t.before(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
t.teardown(() => server.close());
const baseUrl = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;

t.test(
  'sends requests to the first listed model at the given rate, opens streams beside them, and reports both',
  async (t) => {
    const args = ['--rate', '50', '--streams', '3', '--duration', '2', '--max-tokens', '7'];
    const { code, stdout } = await load(
      '--base-url',
      baseUrl(),
      '--key',
      'svc_test',
      ...args,
      '--json',
    );
    t.equal(code, 0);
    const result = JSON.parse(stdout);
    t.match(result, {
      model: 'the-model',
      unanswered: 0,
      requests: { errors: {} },
      streams: { errors: {} },
    });
    t.ok(
      result.requests.done > 0 && result.requests.done <= 50 * result.seconds + 1,
      'no more than wanted',
    );
    t.equal(result.requests.statuses['200'], result.requests.done);
    t.ok(
      result.streams.done > 0 && result.streams.events >= 2 * result.streams.done,
      'streams ended whole',
    );
  },
);

t.test('shows its progress and a report for people', async (t) => {
  const args = ['--rate', '20', '--duration', '1', '--max-tokens', '7', '--model', 'the-model'];
  const { code, stdout, stderr } = await load(
    '--base-url',
    `${baseUrl()}/`,
    '--key',
    'svc_test',
    ...args,
  );
  t.equal(code, 0);
  t.match(stderr, /^ {3}1 s {3}\d+ answers\/s.*\n$/, 'one line a second');
  t.match(stdout, /whole answers/);
  t.match(stdout, /statuses +200: \d+/);
});

t.test('speaks every dialect, whole and in streams', async (t) => {
  const args = ['--base-url', baseUrl(), '--key', 'svc_test', '--rate', '20', '--max-tokens', '7'];
  for (const endpoint of ['responses', 'messages', 'embeddings']) {
    asked = [];
    const streams = endpoint === 'embeddings' ? [] : ['--streams', '2'];
    let isAnswered = false;
    for (let seconds = 0.5; !isAnswered; seconds *= 2) {
      const { stdout } = await load(
        ...args,
        '--duration',
        `${seconds}`,
        '--endpoint',
        endpoint,
        ...streams,
        '--json',
      );
      const result = JSON.parse(stdout);
      t.strictSame([result.requests.errors, result.streams.errors], [{}, {}], endpoint);
      isAnswered = result.requests.done > 0 && result.streams.done > 0 === streams.length > 0;
    }
    const version = endpoint === 'messages' ? '2023-06-01' : undefined;
    t.strictSame(new Set(asked.map((one) => JSON.stringify(one))).size, 1);
    t.strictSame(asked[0], { path: `/v1/${endpoint}`, version });
  }
  t.match(await load(...args, '--endpoint', 'images'), {
    code: 64,
    stderr: /--endpoint must be one of chat, resp/,
  });
  t.match(await load(...args, '--endpoint', 'embeddings', '--streams', '1'), {
    code: 64,
    stderr: /not streamed/,
  });
});

t.test('sends the requests of the warm-up, and does not count them', async (t) => {
  asked = [];
  const args = [
    '--rate',
    '50',
    '--duration',
    '1',
    '--warmup',
    '1',
    '--max-tokens',
    '7',
    '--model',
    'the-model',
  ];
  const run = await load('--base-url', baseUrl(), '--key', 'svc_test', ...args);
  t.match(run.stderr, /^warm-up +1 s .*\n +1 s .*\n$/);
  const done = Number(/requests: (\d+) whole/.exec(run.stdout)?.[1]);
  const seconds = Number(/the-model {2}([\d.]+) s/.exec(run.stdout)?.[1]);
  t.ok(done > 0 && done <= 50 * (seconds + 0.1) + 1, 'as many as are due in the time that counts');
  t.ok(asked.length > done, 'more were sent');
});

t.test('what was counted is reported after Ctrl-C', async (t) => {
  const args = ['--base-url', baseUrl(), '--key', 'svc_test', '--rate', '50', '--max-tokens', '7'];
  const child = spawn(process.execPath, [LOAD, ...args]);
  child.stderr.once('data', () => child.kill('SIGINT'));
  const [report, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  t.equal(code, 130);
  t.match(report, /requests: \d+ whole answers/);
});

t.test(
  'a service that fails or never answers is told by the exit status and has no latency',
  async (t) => {
    const args = ['--key', 'svc_test', '--duration', '0.2', '--model', 'silent'];
    const silent = await load('--base-url', baseUrl(), ...args);
    t.match(silent, {
      code: 1,
      stderr: /0 answers\/s {3}16 waiting\n/,
      stdout: /under way +16 at the end/,
    });
    const long = ['--duration', '2']; // some answers come in this time on a busy machine, too
    const none = await load('--base-url', baseUrl(), ...args, ...long, '--model', 'none', '--json');
    const { requests } = JSON.parse(none.stdout);
    t.match(
      { code: none.code, requests },
      { code: 1, requests: { done: 0, p99: null, errors: { 'HTTP 400': /./ } } },
    );
    const refused = await load(
      '--base-url',
      'http://127.0.0.1:9/v1',
      '--key',
      'k',
      '--duration',
      '0.1',
    );
    t.match(refused, { code: 1, stderr: /^load: http:\/\/127\.0\.0\.1:9\/v1\/models: .+\n$/ });
  },
);

t.test('says what is wrong, and never the key', async (t) => {
  const wrongKey = await load('--base-url', baseUrl(), '--key', 'svc_wrong');
  t.match(wrongKey, { code: 1, stderr: /Wrong key\./ });
  t.notMatch(wrongKey.stderr, /svc_wrong/);
  t.match(await load('--key', 'svc_test'), { code: 64, stderr: /--base-url/ });
  t.match(await load('--base-url', baseUrl()), { code: 64, stderr: /--key/ });
  for (const [name, value] of Object.entries({
    rate: 'Infinity',
    duration: '',
    streams: '2.5',
    key: 'svc_test\r',
    'base-url': 'ftp://a',
  })) {
    const wrong = await load('--base-url', baseUrl(), '--key', 'k', `--${name}`, value);
    t.match(wrong, {
      code: 64,
      stderr: name === 'base-url' ? /neither http/ : RegExp(`^--${name} (must be|is missing, or)`),
    });
  }
});

t.test('the help of both programs fits 80 columns', async (t) => {
  for (const program of [LOAD, MAIN]) {
    const { promise, resolve } = Promise.withResolvers<string>();
    execFile(process.execPath, [program, '--help'], (_error, stdout) => resolve(stdout));
    const help = await promise;
    t.match(help, '--base');
    const wide = help.split('\n').filter((line) => line.length > 80);
    t.same(wide, []);
  }
});
