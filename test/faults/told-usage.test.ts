import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { formatEur, parseEur } from '../../src/domain/pricing/money.ts';
import { until } from '../support/until.ts';
import { note, percent } from './results.ts';
import { LIES, type ThinkingCall, toldUpstream } from './told-upstream.ts';
import { faultWorld, LONG } from './world.ts';

const EACH = LONG ? 15 : 3; // clients that leave, of each dialect and kind
const ROUNDS = LONG ? 6 : 2; // budgets that are used up
const LIMIT = 300;
/** A limit that no answer reaches. */
const ROOM = 12_000;
const LESSONS = 12;
/** Broken answers, which cost nothing. */
const NOT_JSON = ['nan', 'infinite'];
const STRICT_BUDGET = '20';
/**
 * How models think, and the worst error of an estimate. Of one whose thoughts differ in length, none can be near: what
 * was learned is no more than the longest, which are three times the shortest.
 */
const KINDS = [
  ['steady', '!hidden-4000', 0.05],
  ['varying', '!hidden-4000!vary', 2],
  ['unthinking', '', 0.1],
] as const;
/** What a prompt may be told to have beyond its bytes: templates and routers add to it. */
const ADDED = 16_384;

/** The dialects, with what a call of theirs needs beside the model. */
const DIALECTS = {
  chat: { path: 'chat/completions', limit: 'max_tokens', input: 'messages' },
  completions: { path: 'completions', limit: 'max_tokens', input: 'prompt' },
  responses: { path: 'responses', limit: 'max_output_tokens', input: 'input' },
  messages: { path: 'messages', limit: 'max_tokens', input: 'messages' },
} as const;
type Dialect = keyof typeof DIALECTS;
const NAMES = Object.keys(DIALECTS) as Dialect[];

interface Row {
  request_id: string;
  prompt_tokens: number;
  completion_tokens: number;
  usage_source: string;
  outcome: string;
}

interface Sent {
  readonly mark: string;
  readonly status: number;
  readonly requestId: string;
  readonly bytes: number;
}

let marks = 0;

/** One call. @param leaveAfter bytes of the answer after which the client leaves; null: it reads all of it */
function call(
  url: string,
  key: string,
  path: string,
  body: object,
  leaveAfter: number | null = null,
): Promise<Sent> {
  const mark = /mark-\w+-/.exec(JSON.stringify(body))?.[0] ?? '';
  const text = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const req = request(`${url}/${path}`, { method: 'POST', headers, agent: false }, (res) => {
      let seen = 0;
      const requestId = res.headers['x-request-id'] as string;
      const done = () =>
        resolve({ mark, status: res.statusCode as number, requestId, bytes: text.length });
      res.on('data', (data: Buffer) => {
        seen += data.length;
        if (leaveAfter !== null && seen >= leaveAfter) req.destroy();
      });
      res.on('error', done).on('close', done);
    });
    req.on('error', reject).end(text);
  });
}

const bodyOf = (
  dialect: Dialect,
  model: string,
  limit: number | null,
  stream: boolean,
  manner = '',
): object => ({
  model,
  stream,
  ...(limit === null ? {} : { [DIALECTS[dialect].limit]: limit }),
  [DIALECTS[dialect].input]: askedBy(
    dialect,
    `mark-${process.pid}x${++marks}- ${manner} Which way?`,
  ),
});

const askedBy = (dialect: Dialect, content: string) =>
  dialect === 'completions' ? content : [{ role: 'user', content }];

t.test('what was told and what was learned stay within what a call allows', async (t) => {
  const world = await faultWorld(t);
  const upstream = await toldUpstream(t);
  const gateways = await Promise.all(
    [1, 2].map(() => world.gateway({ UPSTREAM_URL: upstream.url })),
  );
  const [url, other] = gateways.map((gateway) => gateway.url) as [string, string];
  const model = async (slug: string, manner: string): Promise<string> => {
    await world.model(slug, `internal-${slug}${manner}`, { input: '1', output: '1' });
    for (const gateway of gateways) await world.served(gateway, slug);
    return slug;
  };
  const rowsOf = async (sent: readonly Sent[]): Promise<Map<string, Row>> => {
    const ids = sent.map(({ requestId }) => requestId);
    const read = () => world.sql<Row[]>`
      select request_id::text, prompt_tokens::float8, completion_tokens::float8, usage_source, outcome from api_usage
      where request_id = any(${ids}::uuid[])`;
    await until(async () => (await read()).length === ids.length, 'every call is booked');
    return new Map((await read()).map((row) => [row.request_id, row]));
  };
  /** Clients leave long streams whose usage is not told in time. */
  const leave = (dialect: Dialect, key: string, slug: string, limit: number): Promise<Sent[]> =>
    Promise.all(
      Array.from({ length: EACH }, () => {
        const body = bodyOf(dialect, slug, limit, true, '!words-2500 !pace-8');
        return call(
          url,
          key,
          DIALECTS[dialect].path,
          body,
          2000 + Math.floor(Math.random() * 20_000),
        );
      }),
    );
  /** How far off estimates are, relative to the truth. */
  const errorsOf = async (sent: readonly Sent[]): Promise<number[]> => {
    const rows = await rowsOf(sent);
    return sent.map(({ mark, requestId }) => {
      const { hidden, sent: words } = upstream.calls.get(mark) as ThinkingCall;
      const { completion_tokens, usage_source, outcome } = rows.get(requestId) as Row;
      t.match({ usage_source, outcome }, { usage_source: 'estimated', outcome: 'client_aborted' });
      return Math.abs(completion_tokens - hidden - words) / (hidden + words);
    });
  };

  for (const dialect of NAMES) {
    await t.test(`${dialect}: clients leave models that think and others`, async (t) => {
      const learned = [];
      for (const [kind, manner, most] of KINDS) {
        const slug = await model(`${dialect}-${kind}`, manner);
        const { key } = await world.newCompany();
        for (let n = 0; n < LESSONS; n++) {
          await call(url, key, DIALECTS[dialect].path, bodyOf(dialect, slug, ROOM, n % 2 === 0));
          await sleep(11); // a lesson is taken every ten milliseconds at most, of whatever company
        }
        learned.push({ kind, most, slug, key });
      }
      const worst = await Promise.all(
        learned.map(async ({ kind, most, slug, key }) => {
          const [left, tight] = await Promise.all(
            [ROOM, LIMIT].map((limit) => leave(dialect, key, slug, limit)),
          );
          const error = Math.max(...(await errorsOf(left as Sent[])));
          t.ok(error <= most, `${kind}: worst error ${percent(error)}`);
          const rows = await rowsOf(tight as Sent[]);
          for (const { completion_tokens } of rows.values())
            t.ok(completion_tokens <= LIMIT, `${completion_tokens}`);
          return `${kind} ${percent(error)}`;
        }),
      );
      note(
        'Leaving early is not free',
        `${dialect}: ${EACH} clients leave streams of each kind of thinking model`,
        `worst error: ${worst.join(', ')}; with a limit of ${LIMIT} tokens none above it`,
      );
    });

    await t.test(`${dialect}: an upstream that lies`, async (t) => {
      const { path } = DIALECTS[dialect];
      const { key } = await world.newCompany();
      const slug = await model(`${dialect}-lies`, '');
      let most = 0;
      for (const [name, [prompt, completion]] of Object.entries(LIES)) {
        const told: Sent[] = [];
        for (const stream of [false, true]) {
          const body = bodyOf(dialect, slug, LIMIT, stream, `!lie-${name}`);
          told.push(await call(url, key, path, body));
          await sleep(11);
        }
        const rows = NOT_JSON.includes(name) ? new Map<string, Row>() : await rowsOf(told);
        for (const { requestId, bytes } of NOT_JSON.includes(name) ? [] : told) {
          const row = rows.get(requestId);
          t.match(row, { usage_source: 'estimated' }, `${name}: ${prompt} and ${completion}`);
          t.ok(
            (row as Row).completion_tokens <= LIMIT && (row as Row).prompt_tokens <= bytes + ADDED,
            JSON.stringify(row),
          );
          most = Math.max(most, (row as Row).completion_tokens);
        }
      }
      const errors = await errorsOf(await leave(dialect, key, slug, ROOM));
      const error = Math.max(...errors);
      t.ok(error <= 0.1, `what was told taught nothing: worst error ${percent(error)}`);
      note(
        'A told usage is no more than the call allows',
        `${dialect}: ${Object.keys(LIES).length} false usages at a limit of ${LIMIT} tokens`,
        `all marked estimated, at most ${most} tokens booked; worst error of later estimates ${percent(error)}`,
      );
    });
  }

  await t.test(
    'every amount is the tokens at their price, and sums are those of the rows',
    async (t) => {
      const counted = await world.sql<{ rows: number; wrong: number; apart: number }[]>`
      select count(*)::integer as rows,
        (count(*) filter (where cost_eur <> (prompt_tokens * price_input + completion_tokens * price_output) / 1000))::integer as wrong,
        (select count(*)::integer from monthly_spend m where m.api_cost_eur <>
          (select sum(cost_eur) from api_usage u where u.company_id = m.company_id and u.billing_month = m.billing_month)) as apart
      from api_usage`;
      t.match(counted, [{ wrong: 0, apart: 0 }]);
      note(
        'Money is exact',
        `${counted[0]?.rows} calls of models that think or tell false usages, at a price of 1 EUR for 1000 tokens`,
        'every amount is the tokens at their price; 0 differences between rows and sums',
      );
    },
  );

  await t.test('a strict budget holds whatever the upstream tells', async (t) => {
    let highest = 0n;
    for (let round = 0; round < ROUNDS; round++) {
      const { company, key } = await world.newCompany({ budget: STRICT_BUDGET, mode: 'strict' });
      const manners = [
        ...Object.keys(LIES).map((name) => `!lie-${name}`),
        '!hidden-4000',
        '!hidden-4000 !silent',
      ];
      const slug = await model(`strict-${round}`, '');
      const vectors = await model(`strict-embed-${round}`, '!lie-trillion');
      const ranks = await model(`strict-rerank-${round}`, '!lie-trillion');
      const work = async (dialect: Dialect, n: number): Promise<number[]> => {
        const statuses: number[] = [];
        for (const [at, manner] of [...manners, ...manners].entries()) {
          const body = bodyOf(dialect, slug, LIMIT, (at + n) % 2 === 0, `${manner} !words-900`);
          const leaving = at % 3 === 0 ? 500 : null;
          statuses.push(
            (await call(n % 2 === 0 ? url : other, key, DIALECTS[dialect].path, body, leaving))
              .status,
          );
          const input = `mark-${process.pid}x${++marks}-`;
          statuses.push((await call(url, key, 'embeddings', { model: vectors, input })).status);
          const documents = ['one', 'two', input];
          statuses.push(
            (await call(url, key, 'rerank', { model: ranks, query: input, documents })).status,
          );
        }
        return statuses;
      };
      const statuses = (
        await Promise.all(NAMES.flatMap((name) => [work(name, 0), work(name, 1)]))
      ).flat();
      t.ok(statuses.includes(402), 'the budget was used up');
      await until(async () => {
        const [open] =
          await world.sql`select count(*)::integer as n from budget_reservations where company_id = ${company}`;
        return open?.n === 0;
      }, 'every call is booked');
      const [row] =
        await world.sql`select coalesce(sum(cost_eur), 0)::text as spent from api_usage where company_id = ${company}`;
      const ranked =
        await world.sql`select from api_usage where company_id = ${company} and endpoint = 'rerank'`;
      t.ok(ranked.length > 0, 'reranking among it');
      const spent = parseEur(row?.spent);
      t.ok(
        spent > 0n && spent <= parseEur(STRICT_BUDGET),
        `${formatEur(spent)} of ${STRICT_BUDGET} EUR`,
      );
      if (spent > highest) highest = spent;
    }
    note(
      'The budget holds on all replicas',
      `2 replicas, strict, all dialects, embeddings and reranking, an upstream that overruns max_tokens, thinks, tells false usages or none, clients that leave, ${ROUNDS} times`,
      `at most ${formatEur(highest)} of ${STRICT_BUDGET} EUR spent`,
    );
  });
});
