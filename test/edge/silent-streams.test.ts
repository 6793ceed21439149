import { once } from 'node:events';
import t, { type Test } from 'tap';
import { open } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { scriptedUpstream } from '../support/upstream.ts';
import { PROXIES } from './proxies.ts';

/** After how many seconds of silence the proxies take a gateway for dead: enough for a busy machine. */
const SILENT_SECONDS = 5;
/** More keepalives than a proxy waits seconds. */
const KEEPALIVES = SILENT_SECONDS + 2;

const EVENT =
  'data: {"model":"internal-fast","choices":[{"index":0,"delta":{"content":"one"}}]}\n\n';
const REST =
  'data: {"choices":[{"index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\ndata: [DONE]\n\n';

/** A stream through a proxy that is silent until the client has all keepalives, or the proxy has cut it. */
async function silentStream(
  t: Test,
  start: (typeof PROXIES)['nginx']['start'],
  keepaliveSeconds: string,
) {
  const upstream = await scriptedUpstream(t);
  const gateway = await startGateway(t, upstream.url, {
    STREAM_KEEPALIVE_SECONDS: keepaliveSeconds,
  });
  await gateway.model('fast', { upstream: 'internal-fast', input: '1', output: '2' });
  const company = await gateway.company();
  const key = await gateway.key(company);
  const heard = Promise.withResolvers<void>();
  upstream.answer(async (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' }).write(EVENT);
    await Promise.race([heard.promise, once(res, 'close')]);
    res.end(REST);
  });
  const url = `${await start(t, gateway.url, SILENT_SECONDS)}/chat/completions`;
  const body = { model: 'fast', messages: [{ role: 'user', content: 'x' }], stream: true };
  const answer = await open(url, { key, body });
  let text = '';
  let broken = false;
  try {
    for await (const chunk of answer.body as ReadableStream<Uint8Array>) {
      text += Buffer.from(chunk).toString();
      if (text.split(': keepalive\n\n').length > KEEPALIVES) heard.resolve();
    }
  } catch {
    broken = true;
  }
  const [row] = await gateway.ledger(company, 1);
  return { text, broken, outcome: row?.outcome };
}

for (const name of ['nginx', 'haproxy'] as const) {
  const { program, start } = PROXIES[name];
  t.test(
    `a stream that is silent for longer than ${name} waits`,
    { skip: program === null && `no ${name} here` },
    async (t) => {
      const [kept, cut] = await Promise.all([
        silentStream(t, start, '1'),
        silentStream(t, start, '0'),
      ]);
      t.match(kept, { broken: false, outcome: 'completed' });
      t.equal(
        kept.text.replaceAll(': keepalive\n\n', ''),
        EVENT.replace('internal-fast', 'fast') + REST,
      );
      t.match(cut, { broken: true, outcome: 'client_aborted' });
    },
  );
}
