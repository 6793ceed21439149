import t from 'tap';
import { signedIn, startOffice } from './people.ts';

const office = await startOffice(t);
const { company } = office.customer;
const ROLES = ['owner', 'administrator'] as const;

/** The figures of the access page by their titles, as text. */
async function summaryFor(
  role: (typeof ROLES)[number],
  of = company,
): Promise<Record<string, string>> {
  const { text } = await (await signedIn(office, role)).get(`/companies/${of}/keys`);
  const cards = text.matchAll(/<h2>(Spent|Requests|Tokens)<\/h2><p class="big">(.*?)<\/p>/gs);
  return Object.fromEntries(
    [...cards].map(([, title, value]) => [title, (value as string).replace(/<[^>]*>/g, '')]),
  );
}

t.test(
  '5.6 owners and administrators see requests, tokens and EUR of the month in the access section',
  async (t) => {
    for (const role of ROLES)
      t.match(await summaryFor(role), { Requests: '0', Tokens: '0', Spent: /\b0[.,]00/ }, role);
    await office.customer.embed();
    await office.customer.chat();
    const rows = await office.ledger(company, 2);
    await office.sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${company}, '2020-02-03', 500)`;
    const tokens = rows.reduce((sum, row) => sum + row.prompt_tokens + row.completion_tokens, 0);
    const eur = rows.reduce((sum, row) => sum + Number(row.cost_eur), 0);
    for (const role of ROLES) {
      const { Requests, Tokens, Spent } = await summaryFor(role);
      t.same([Requests, Tokens], ['2', `${tokens}`], role);
      t.ok(
        Math.abs(Number(/\d+\.\d+/.exec(Spent as string)?.[0]) - eur) < 0.01,
        `${role}: ${Spent} is ${eur}`,
      );
    }
  },
);

t.test('5.6 nobody else sees the summary', async (t) => {
  const { company: foreign } = await office.newCustomer();
  t.not((await (await signedIn(office, 'member')).get(`/companies/${company}/keys`)).status, 200);
  t.not((await (await signedIn(office, 'owner')).get(`/companies/${foreign}/keys`)).status, 200);
});

t.test('an operator says in the form of a model whether it takes token ids', async (t) => {
  const operator = await signedIn(office, 'operator');
  const fields = {
    upstream: 'internal-x',
    kind: 'embedding',
    eu_hosted: 'true',
    input: '0.1',
    output: '0',
  };
  const [row] = await office.sql`select id from models where token_input = 'refuse' limit 1`;
  t.equal(
    (await operator.post(`/models/${row?.id}`, { ...fields, token_input: 'true' })).status,
    303,
  );
  t.match(await office.sql`select token_input from models where id = ${row?.id}`, [
    { token_input: 'accept' },
  ]);
  t.match(
    (await operator.get(`/models/${row?.id}`)).text,
    /name="token_input" value="true" checked/,
  );
  t.equal((await operator.post(`/models/${row?.id}`, fields)).status, 303);
  t.match(await office.sql`select token_input from models where id = ${row?.id}`, [
    { token_input: 'refuse' },
  ]);
  t.notMatch(
    (await operator.get(`/models/${row?.id}`)).text,
    /name="token_input" value="true" checked/,
  );
});
