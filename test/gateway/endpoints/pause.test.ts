import t from 'tap';
import { completion } from '../../support/answers.ts';
import { ask } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

/** Keys and companies that are paused: 403 at every address, behind authentication, in front of everything else. */

const upstream = await scriptedUpstream(t);
/** Called when the upstream has a call; its answer waits for what it returns. */
let meanwhile = async (): Promise<void> => {};
upstream.answer(async (res) => {
  await meanwhile();
  const usage = { prompt_tokens: 1000, completion_tokens: 0, total_tokens: 1000 };
  res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(completion(usage)));
});
const { url, sql, ...gateway } = await startGateway(t, upstream.url);
await gateway.model('fast', { upstream: 'internal', input: '1', output: '0' });

const body = { model: 'fast', messages: [{ role: 'user', content: 'x' }] };
const ofKey = (key: string) => sql`digest = sha256(${key}::text::bytea)`;
const answered = (key: string, status: number, code: string | null = null) =>
  until(
    async () => {
      const { status, json } = await ask(`${url}/models`, { key });
      return [status, json.error?.code ?? null] as const;
    },
    `the gateway answers ${status} ${code}`,
    ([got, why]) => got === status && why === code,
  );

t.test(
  'every address answers 403 in its own shape, without the reason, and 200 when the pause ends',
  async (t) => {
    const company = await gateway.company();
    const key = await gateway.key(company);
    const other = await gateway.key(company);
    const assistant = await gateway.assistant(company, { model: 'fast' });
    const sent = upstream.received.length;
    const refusedEverywhere = async (code: string) => {
      for (const path of ['/models', '/models/fast', '/models/none', '/usage', '/usage/x']) {
        const { status, json } = await ask(url + path, { key });
        t.match(
          { status, json },
          { status: 403, json: { error: { type: 'permission_error', code, param: null } } },
          path,
        );
      }
      const posts = [
        '/chat/completions',
        '/responses',
        '/embeddings',
        '/rerank',
        '/completions',
        `/assistants/${assistant}/run`,
      ];
      for (const path of posts) {
        const { status, json, text } = await ask(url + path, { key, body: { not: 'even valid' } });
        t.match(
          { status, json },
          { status: 403, json: { error: { type: 'permission_error', code } } },
          path,
        );
        t.notMatch(text, /unpaid/i);
      }
      for (const path of ['/messages', '/messages/count_tokens']) {
        const { status, json } = await ask(url + path, { headers: { 'x-api-key': key }, body: {} });
        t.match(
          { status, json },
          { status: 403, json: { type: 'error', error: { type: 'permission_error' } } },
          path,
        );
      }
      t.equal(
        (await ask(`${url}/chat/completions`, { key, body: { ...body, stream: true } })).status,
        403,
      );
    };
    await sql`update api_keys set paused_at = now(), pause_reason = 'Unpaid' where ${ofKey(key)}`;
    await answered(key, 403, 'key_paused');
    await refusedEverywhere('key_paused');
    await answered(other, 200);
    await sql`update companies set paused_at = now(), pause_reason = 'Unpaid' where id = ${company}`;
    await answered(key, 403, 'account_paused');
    await answered(other, 403, 'account_paused');
    await refusedEverywhere('account_paused');
    t.equal((await ask(`${url}/nowhere`, { key })).status, 404, 'no address, no key');
    await sql`update companies set paused_at = null where id = ${company}`;
    await answered(key, 403, 'key_paused');
    await answered(other, 200);
    await sql`update api_keys set paused_at = null where ${ofKey(key)}`;
    await answered(key, 200);
    t.equal(upstream.received.length, sent, 'nothing was sent upstream');
    t.equal((await ask(`${url}/chat/completions`, { key, body })).status, 200);
    const seen = gateway.logged.join('\n');
    t.match(seen, /key_paused/);
    t.notMatch(seen, /Unpaid/);
  },
);

t.test('whose key would get 401 without the pause gets it with the pause, too', async (t) => {
  const company = await gateway.company();
  const [revoked, expired, elsewhere, ending] = [
    await gateway.key(company),
    await gateway.key(company, ['chat'], new Date(Date.now() - 1000)),
    await gateway.key(company),
    await gateway.key(company, ['chat'], new Date(Date.now() + 1500)),
  ] as const;
  await sql`update api_keys set revoked_at = now() where ${ofKey(revoked)}`;
  await sql`update api_keys set allowed_cidrs = '{192.0.2.0/24}' where ${ofKey(elsewhere)}`;
  const narrow = await gateway.key(company, ['embeddings']);
  await sql`update companies set paused_at = now() where id = ${company}`;
  await answered(narrow, 403, 'account_paused');
  for (const key of [revoked, expired, elsewhere]) await answered(key, 401, 'invalid_api_key');
  const { json } = await ask(`${url}/chat/completions`, { key: narrow, body });
  t.equal(json.error.code, 'account_paused', 'the pause comes before the scope');
  await answered(ending, 401, 'invalid_api_key');
});

t.test('a call in flight runs to its end, and is booked', async (t) => {
  const company = await gateway.company();
  const key = await gateway.key(company);
  meanwhile = async () => {
    await sql`update companies set paused_at = now() where id = ${company}`;
    await answered(key, 403, 'account_paused');
  };
  t.equal((await ask(`${url}/chat/completions`, { key, body })).status, 200);
  meanwhile = async () => {};
  t.match(await gateway.ledger(company, 1), [{ cost_eur: '1', outcome: 'completed' }]);
});
