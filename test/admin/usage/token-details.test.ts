import t from 'tap';
import { until } from '../../support/until.ts';
import { CHAT } from '../../support/world.ts';
import { signedIn, startOffice, textOf } from '../people.ts';

/** Who sees what upstreams told: companies the details of their tokens, operators also the upstream's own cost. */

const office = await startOffice(t, { UPSTREAM_RATE: '0.5' });
const { company } = office.customer;
const [owner, operator] = [await signedIn(office, 'owner'), await signedIn(office, 'operator')];
const english = { 'accept-language': 'en-GB' };

const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Hello there' },
];
const answer = await office.customer.chat({ messages });
const id = answer.headers.get('x-request-id') as string;
await office.ledger(company, 1);
const [told] = (await office.sql`
  select cached_tokens::integer as cached, prompt_tokens::integer as prompt, trim_scale(cost)::text as cost,
    trim_scale(round(cost * 0.5, 20))::text as eur
  from api_usage join upstream_costs using (company_id, billing_month, request_id)`) as unknown as [
  { cached: number; prompt: number; cost: string; eur: string },
];
await until(
  async () => (await owner.get(`/companies/${company}/requests/${id}`)).status === 200,
  'the request is kept',
);

t.test('the usage page, its exports and the page of a request show token details', async (t) => {
  t.ok(told.cached > 0 && told.cached < told.prompt);
  const share = `${((told.cached * 100) / told.prompt).toFixed(1).replace('.0', '')}%`;
  const usage = textOf(await owner.get(`/companies/${company}/usage`, english));
  t.match(usage, `${CHAT} 1 ${told.cached} ${share} 0 0 0 0`);
  const [{ key }] = (await office.sql`select api_key_id as key from api_usage`) as unknown as [
    { key: string },
  ];
  const ofKey = textOf(await owner.get(`/companies/${company}/usage?key=${key}`, english));
  t.notMatch(ofKey, 'Token details');
  const sums = (await owner.get(`/companies/${company}/usage.csv`)).text.split('\n');
  t.match(
    sums[0],
    /,cached_tokens,cache_write_tokens,audio_prompt_tokens,reasoning_tokens,audio_completion_tokens$/,
  );
  t.match(sums[1], new RegExp(`^${CHAT},.*,${told.cached},0,0,0,0$`));
  const request = textOf(await owner.get(`/companies/${company}/requests/${id}`, english));
  t.match(request, `Of the prompt tokens ${told.cached} from the cache, 0 audio`);
});

t.test('the upstream’s own cost is for operators', async (t) => {
  const pages = ['usage', 'usage.csv', 'ledger.csv', 'requests', `requests/${id}`].map(
    (page) => `/companies/${company}/${page}`,
  );
  for (const page of pages) {
    const { status, text } = await owner.get(page);
    t.equal(status, 200, page);
    t.notMatch(text, new RegExp(`${told.cost.replace('.', '[.,]')}|upstream_cost|USD`), page);
  }
  t.equal((await owner.get('/margin')).status, 403);
  t.match(
    textOf(await operator.get(`/requests/${id}`, english)),
    `Upstream's cost ${told.cost} USD`,
  );
  const [heading, row] = (await operator.get(`/companies/${company}/ledger.csv`)).text.split('\n');
  t.match(heading, /,upstream_cost,upstream_currency$/);
  t.match(row, new RegExp(`,${told.cached},,0,0,0,${told.cost.replace('.', '\\.')},USD$`));
  const margin = await operator.get('/margin', english);
  t.match(textOf(margin).replaceAll(' ', ''), `€${told.eur}`, 'exact, in EUR');
  t.match(textOf(margin), /1 USD is counted as 0\.5 EUR in every month\./);
  t.match(textOf(margin), "Margin by upstream's cost");
});
