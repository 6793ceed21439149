import type { ServerResponse } from 'node:http';
import t from 'tap';
import { ask } from '../support/client.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { scriptedUpstream } from '../support/upstream.ts';

const upstream = await scriptedUpstream(t);
const ANSWER = '{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":5}}';

/** A call of a company of its own whose client leaves when the upstream has it; `res` is the upstream's to answer. */
async function leftCall(gateway: TestGateway) {
  const company = await gateway.company();
  const begun = upstream.received.length;
  const left: { res: ServerResponse | null; closed: boolean } = { res: null, closed: false };
  upstream.answer((res) => {
    left.res = res;
    res.on('close', () => {
      left.closed = true;
    });
  });
  const leaving = new AbortController();
  const body = { model: 'whole', messages: [{ role: 'user', content: 'x' }] };
  const asked = { key: await gateway.key(company), body, signal: leaving.signal };
  const over = ask(`${gateway.url}/chat/completions`, asked).catch(() => {});
  await until(() => upstream.received.length > begun && left.res !== null, 'the upstream has the call');
  leaving.abort();
  await over;
  return { company, left };
}

t.test(
  'READ_ON_SECONDS: an answer whose client left is awaited for exact usage, or not, for a free slot',
  async (t) => {
    for (const [seconds, rows] of [
      ['3,3600', { usage_source: 'upstream', prompt_tokens: 7, completion_tokens: 5 }],
      ['3,0', { usage_source: 'estimated', completion_tokens: 0 }],
      ['3,1', { usage_source: 'estimated', completion_tokens: 0 }],
    ] as const) {
      const gateway = await startGateway(t, upstream.url, { READ_ON_SECONDS: seconds });
      await gateway.model('whole', { upstream: 'internal-whole' });
      const { company, left } = await leftCall(gateway);
      if (rows.usage_source === 'upstream') {
        await until(() => gateway.logged.some((line) => line.includes(company)), 'the gateway saw the client leave');
        t.notOk(left.closed, 'the upstream may go on');
        left.res?.writeHead(200, { 'content-type': 'application/json' }).end(ANSWER);
      } else await until(() => left.closed, 'the upstream is let go');
      t.match(await gateway.ledger(company, 1), [{ outcome: 'client_aborted', ...rows }], seconds);
    }
  },
);
