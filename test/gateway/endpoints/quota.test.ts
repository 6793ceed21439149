import t from 'tap';
import { Calendar } from '../../../src/domain/month.ts';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import { type Answer, type Ask, ask } from '../../support/client.ts';
import { WAYS } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { CHAT, startWorld } from '../../support/world.ts';

/** QUOTA_HEADERS: each answer to a key with a budget, its own or its company's, tells the nearest one. */

const calendar = new Calendar('UTC');
const ends = () => ({ month: calendar.monthEnd(Date.now()), day: calendar.dayEnd(Date.now()) });
const toldBy = ({ headers }: Answer) =>
  ['limit-eur', 'remaining-eur', 'resets-at'].map((name) => headers.get(`x-budget-${name}`));
const NOTHING = [null, null, null];

for (const way of WAYS) {
  t.test(`FAST_HTTP=${way}`, async (t) => {
    const world = await startWorld(t, { QUOTA_HEADERS: 'on', FAST_HTTP: way });
    const { sql, url, upstream } = world;
    const free = { input: '0', output: '0' };
    await world.model('free', { upstream: upstream.parts.chat, ...free });
    await world.model('free-rank', { upstream: 'internal-demo-rank', kind: 'rerank', ...free });
    await world.model('free-vectors', {
      upstream: upstream.parts.embedding,
      kind: 'embedding',
      ...free,
    });
    /** A company of which an amount was spent in its application, and a key of it. */
    const spender = async (settings: object, spent: string) => {
      const customer = await world.newCustomer();
      const { company } = customer;
      await sql`update companies set ${sql(settings as Record<string, string>)} where id = ${company}`;
      await sql`insert into chat_usage (company_id, cost_eur) values (${company}, ${spent})`;
      const [row] = await sql`select id from api_keys where company_id = ${company}`;
      return { ...customer, keyId: row?.id as string };
    };
    const messages = [{ role: 'user', content: 'x' }];

    t.test(
      'every answer tells it, whole and streamed, of every endpoint, errors too',
      async (t) => {
        const { company, key } = await spender(
          { monthly_budget_eur: '10.50' },
          '2.250000000000001',
        );
        const assistant = await world.assistant(company, { model: 'free' });
        const ranking = await world.key(company, ['rerank']);
        const told = ['10.5', '8.249999999999999', ends().month];
        const chat = { model: 'free', messages };
        const input = { model: 'free', input: 'x' };
        const asked: [path: string, status: number, more?: Ask][] = [
          ['/models', 200],
          ['/models/free', 200],
          ['/models/none', 404],
          ['/usage', 200],
          ...[{}, { stream: true }].flatMap((how): [string, number, Ask][] => [
            ['/chat/completions', 200, { body: { ...chat, ...how } }],
            ['/responses', 200, { body: { ...input, ...how } }],
            ['/messages', 200, { body: { ...chat, max_tokens: 5, ...how } }],
            ['/completions', 200, { body: { model: 'free', prompt: 'x', ...how } }],
          ]),
          ['/messages/count_tokens', 200, { body: chat }],
          ['/embeddings', 200, { body: { model: 'free-vectors', input: 'x' } }],
          [
            '/rerank',
            200,
            { key: ranking, body: { model: 'free-rank', query: 'x', documents: ['x', 'y'] } },
          ],
          [`/assistants/${assistant}/run`, 200, { body: { messages } }],
          ['/chat/completions', 400, { body: { model: 'free' } }],
          ['/chat/completions', 404, { body: { ...chat, model: 'none' } }],
          ['/messages', 404, { body: { ...chat, model: 'none', max_tokens: 5 } }],
          ['/chat/completions', 415, { body: 'x', headers: { 'content-type': 'text/plain' } }],
        ];
        for (const [path, status, more] of asked) {
          const answer = await ask(url + path, { key, ...more });
          t.equal(answer.status, status, `${path}: ${answer.text}`);
          t.same(toldBy(answer), told, `${path} ${status}`);
        }
      },
    );

    t.test('nobody without a budget, and nobody who is not let in', async (t) => {
      const { key } = await spender({ monthly_budget_eur: 0 }, '5');
      t.same(toldBy(await ask(`${url}/models`, { key })), NOTHING);
      t.same(
        toldBy(await ask(`${url}/chat/completions`, { key, body: { model: 'free', messages } })),
        NOTHING,
      );
      const limited = await spender({ monthly_budget_eur: 10 }, '5');
      t.same(toldBy(await ask(`${url}/models`, { key: `${limited.key}x` })), NOTHING);
      t.same(toldBy(await ask(`${url}/nowhere`, { key: limited.key })), NOTHING);
      await sql`update api_keys set revoked_at = now() where id = ${limited.keyId}`;
      const refused = () => ask(`${url}/models`, { key: limited.key });
      t.same(
        toldBy(await until(refused, 'it is refused', ({ status }) => status === 401)),
        NOTHING,
      );
    });

    t.test(
      'the nearest of all that hold: the least left, and of equals the one that begins anew last',
      async () => {
        const { company, key, keyId } = await spender(
          { monthly_budget_eur: 10, daily_budget_eur: 9 },
          '2',
        );
        const tells = (told: readonly (string | null)[], what: string) =>
          until(
            async () =>
              toldBy(
                await ask(`${url}/chat/completions`, { key, body: { model: 'free', messages } }),
              ),
            `${what}: ${told}`,
            (got) => `${got}` === `${told}`,
          );
        const { month, day } = ends();
        await tells(['9', '7', day], 'of the day');
        await sql`update companies set daily_budget_eur = 10 where id = ${company}`;
        await tells(['10', '8', month], 'of both, which have the same left, the month');
        await sql`update api_keys set monthly_budget_eur = 3 where id = ${keyId}`;
        await tells(['3', '3', month], 'of the key');
        await sql`update api_keys set daily_budget_eur = 0.5 where id = ${keyId}`;
        await tells(['0.5', '0.5', day], 'of its day');
        await sql`update companies set credit_limit_eur = 2.25, monthly_budget_eur = null where id = ${company}`;
        await tells(['2.25', '0.25', month], 'of the credit limit');
      },
    );

    t.test(
      'what is left is what it was before the call, for whole answers and streams alike',
      async (t) => {
        const { key } = await spender({ monthly_budget_eur: 10 }, '0');
        let left = parseEur('10');
        for (const how of [{}, { stream: true }, {}, { stream: true }, {}]) {
          const answer = await ask(`${url}/chat/completions`, {
            key,
            body: { model: CHAT, messages, ...how },
          });
          t.same(toldBy(answer).slice(0, 2), ['10', formatEur(left)]);
          const one = await ask(`${url}/usage/${answer.headers.get('x-request-id')}`, { key });
          t.not(one.json.cost_eur, '0');
          left -= parseEur(one.json.cost_eur);
        }
      },
    );

    t.test('402 tells the budget that refused, with nothing left, never less', async (t) => {
      const { company, key, keyId } = await spender({ monthly_budget_eur: 2 }, '5');
      const refused = async (told: readonly string[]) => {
        const send = () =>
          ask(`${url}/chat/completions`, {
            key,
            body: { model: 'free', messages, max_tokens: 100 },
          });
        const answer = await until(send, `${told}`, (got) => `${toldBy(got)}` === `${told}`);
        t.equal(answer.status, 402);
      };
      const { month, day } = ends();
      await refused(['2', '0', month]);
      await sql`update companies set monthly_budget_eur = null, daily_budget_eur = 5 where id = ${company}`;
      await refused(['5', '0', day]);
      await sql`update companies set daily_budget_eur = null where id = ${company}`;
      // by calls that cost nothing, so that none is admitted before the budget is known
      const isTold = async (limit: string | null) =>
        until(async () => toldBy(await ask(`${url}/usage`, { key }))[0] === limit, `${limit}`);
      await isTold(null);
      // strict: what is left does not suffice
      await sql`update companies set monthly_budget_eur = 5.000001, budget_mode = 'strict' where id = ${company}`;
      await isTold('5.000001');
      await sql`update api_keys set monthly_budget_eur = 0.0000001 where id = ${keyId}`;
      await isTold('0.0000001');
      const answer = await ask(`${url}/chat/completions`, {
        key,
        body: { model: CHAT, messages, max_tokens: 10_000 },
      });
      t.equal(answer.status, 402);
      t.same(
        toldBy(answer),
        ['5.000001', '0.000001', month],
        'not the key, whose budget is nearer',
      );
    });
  });
}

t.test(
  'off, which is the default, no answer has them but for the end of the budget in a 402',
  async (t) => {
    const world = await startWorld(t);
    const customer = await world.newCustomer({ budget: '10' });
    for (const more of [{}, { stream: true }]) t.same(toldBy(await customer.chat(more)), NOTHING);
    await world.sql`insert into chat_usage (company_id, cost_eur) values (${customer.company}, 11)`;
    const refused = await until(
      () => customer.chat(),
      'it is refused',
      ({ status }) => status === 402,
    );
    t.same(toldBy(refused), [null, null, ends().month]);
  },
);
