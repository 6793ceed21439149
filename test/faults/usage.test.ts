import t from 'tap';
import { formatEur, parseEur } from '../../src/domain/pricing/money.ts';
import { ask } from '../support/client.ts';
import { until } from '../support/until.ts';
import { metric } from './gateway.ts';
import { type Journalled, startLoad } from './load.ts';
import { note } from './results.ts';
import { faultWorld, LONG } from './world.ts';

const CALLS = LONG ? 3000 : 200;
const WORKERS = 8;

interface Shown {
  readonly id: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cost_eur: string;
}

t.test('what the holder of a key is told of costs is the ledger, to the last digit', async (t) => {
  const world = await faultWorld(t);
  await world.model('failing', 'internal-failing!error-500');
  await world.model('breaking', 'internal-breaking!events-20!cut-after-3');
  const gateways = [await world.gateway(), await world.gateway()] as const;
  for (const gateway of gateways) await world.served(gateway, 'breaking');
  const get = (n: number, path: string) =>
    ask(`${gateways[n === 0 ? 0 : 1].url}${path}`, { key: world.key });

  // calls of every kind on both gateways, while the key's usage is asked for all the time
  const options = { urls: () => gateways.map(({ url }) => url), key: world.key, workers: WORKERS };
  let turn = 0;
  const models = ['brand-chat', 'brand-chat', 'brand-chat', 'failing', 'breaking'];
  const load = startLoad({
    ...options,
    get chatModel() {
      return models[turn++ % models.length] as string;
    },
    leaveAfter: () => (turn % 7 === 0 ? 300 : null),
  });
  let looks = 0;
  const seen: number[] = [0, 0];
  const shrunk: string[] = [];
  const looking = (async () => {
    while (load.journal.length < CALLS) {
      const n = looks++ % 2;
      const { json } = await get(n, '/usage');
      if (json.key.requests < (seen[n] as number)) shrunk.push(`${seen[n]} > ${json.key.requests}`);
      seen[n] = json.key.requests;
    }
  })();
  await load.more(CALLS, 'of every kind');
  const journal = await load.stop();
  await looking;
  t.same(shrunk, [], `${looks} looks meanwhile`);
  for (const gateway of gateways)
    await until(
      async () => (await metric(gateway, 'tollgate_requests_in_flight')) === 0,
      'nothing is in flight',
    );

  // each call, asked for at the gateway that did not serve it
  const shown = new Map<string, Shown>();
  const wrong: string[] = [];
  const queue = journal.filter(({ requestId }) => requestId !== null);
  const lookUp = async (): Promise<void> => {
    for (let one = queue.pop(); one !== undefined; one = queue.pop()) {
      const { requestId, url, cost } = one as Journalled & { requestId: string };
      const { status, json } = await get(url === gateways[0].url ? 1 : 0, `/usage/${requestId}`);
      if (status === 200) shown.set(requestId, json);
      else if (status !== 404) wrong.push(`${requestId}: ${status}`);
      if (cost !== null && cost !== json.cost_eur)
        wrong.push(`${requestId}: ${cost} is shown as ${json.cost_eur}`);
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, lookUp));
  t.same(wrong, []);

  const rows = await world.sql<Shown[]>`
    select request_id::text as id, prompt_tokens::integer, completion_tokens::integer, trim_scale(cost_eur)::text as cost_eur
    from api_usage where company_id = ${world.company}`;
  t.same(
    [...shown.values()].map(lineOf).sort(),
    rows.map(lineOf).sort(),
    'every row is shown, and nothing that is no row',
  );
  const total = sumOf(rows.map(({ cost_eur }) => cost_eur));
  for (const n of [0, 1]) {
    const { json } = await until(
      () => get(n, '/usage'),
      'the figures kept for a second are over',
      (usage) => usage.json.key.requests === rows.length,
    );
    t.equal(json.key.cost_eur, total);
    t.equal(
      json.key.prompt_tokens,
      rows.reduce((sum, row) => sum + row.prompt_tokens, 0),
    );
    t.equal(
      json.key.completion_tokens,
      rows.reduce((sum, row) => sum + row.completion_tokens, 0),
    );
  }
  const whole = journal.filter(
    ({ kind, status, complete }) => kind !== 'stream' && status === 200 && complete,
  );
  const told = journal.filter(({ cost }) => cost !== null);
  t.ok(
    whole.every(({ cost }) => cost !== null),
    'every whole answer says its cost',
  );
  t.ok(told.every(({ kind }) => kind !== 'stream'));
  const failed = journal.filter(({ status }) => status !== 200);
  t.ok(whole.length > CALLS / 10 && failed.length > CALLS / 20 && rows.length > told.length);
  const others = rows.filter(({ id }) => !told.some(({ requestId }) => requestId === id));
  t.equal(
    sumOf([...told.map(({ cost }) => cost as string), ...others.map(({ cost_eur }) => cost_eur)]),
    total,
  );
  note(
    'What a key holder is told is the ledger',
    `${journal.length} calls on two gateways (streams, whole answers, embeddings, failures, clients that leave), \`GET /usage\` asked for ${looks} times meanwhile`,
    `${told.length} \`x-cost-eur\`, ${shown.size} \`GET /usage/{id}\` at the other gateway, \`GET /usage\` of both and ${rows.length} rows agree: ${total} EUR`,
  );
});

function lineOf({ id, prompt_tokens, completion_tokens, cost_eur }: Shown): string {
  return `${id} ${prompt_tokens} ${completion_tokens} ${cost_eur}`;
}

function sumOf(amounts: readonly string[]): string {
  return formatEur(amounts.reduce((sum, amount) => sum + parseEur(amount), 0n));
}
