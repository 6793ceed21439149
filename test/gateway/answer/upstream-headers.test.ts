import t from 'tap';
import { startGateway } from '../../support/gateway.ts';
import { scriptedUpstream } from '../../support/upstream.ts';
import { customerWith } from '../../support/world.ts';

const SECRET = 'pk-Zx81.router/secret';
const CREDENTIAL = 'dXNlcjpwYXNzd29yZA==';
const TOLD = `pool ${SECRET} of Basic ${CREDENTIAL} and ${CREDENTIAL} alone`;

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url, {
  UPSTREAM_HEADERS: `X-Router-Key=${encodeURIComponent(SECRET)},x-router-auth=Basic%20${encodeURIComponent(CREDENTIAL)}`,
});
const company = await gateway.company();
await gateway.model('brand-chat', { upstream: 'internal-chat', company });
const customer = customerWith(gateway.url, company, await gateway.key(company));

const chunk = {
  choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }],
  system_fingerprint: TOLD,
};
const answer = {
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  system_fingerprint: TOLD,
};

t.test(
  'the headers of UPSTREAM_HEADERS go upstream, and their values come back in no answer and no log',
  async (t) => {
    const json = { 'content-type': 'application/json' };
    const scripts: Record<string, readonly [number, Record<string, string>, string]> = {
      whole: [200, { ...json, 'x-router-key': SECRET }, JSON.stringify(answer)],
      stream: [
        200,
        { 'content-type': 'text/event-stream' },
        `data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`,
      ],
      'bad request': [400, json, JSON.stringify({ error: { message: `Rejected: ${TOLD}` } })],
      failure: [500, json, JSON.stringify({ error: { message: TOLD } })],
    };
    for (const [name, [status, headers, body]] of Object.entries(scripts)) {
      upstream.answer((res) => void res.writeHead(status, headers).end(body));
      const { text, headers: sent } = await customer.chat({ stream: name === 'stream' });
      for (const secret of [SECRET, CREDENTIAL])
        t.notOk(`${[...sent]} ${text}`.includes(secret), `${name}: ${text}`);
      t.match(upstream.received.at(-1)?.headers, {
        'x-router-key': SECRET,
        'x-router-auth': `Basic ${CREDENTIAL}`,
      });
    }
    const log = gateway.logged.join('');
    t.match(log, /status 500/);
    for (const secret of [SECRET, CREDENTIAL]) t.notOk(log.includes(secret));
  },
);
