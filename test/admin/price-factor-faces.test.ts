import { gunzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { OPERATIONS } from '../../src/operations/list.ts';
import { until } from '../support/until.ts';
import { CHAT } from '../support/world.ts';
import { newToken } from './api/tokens.ts';
import { type Person, signedIn, startOwnOffice } from './people.ts';

/**
 * A company pays list prices times a factor, and is told neither. Every page, export and answer that its people and
 * tokens may read is searched for the digits of both.
 */

const office = await startOwnOffice(t);
const { sql, customer } = office;
const { company } = customer;
const [FACTOR, LATER, COMING] = ['0.7319', '0.8127', '0.6781'];
const [OWN, CHANGED, NEXT, SHARED] = ['0.0123457', '0.0234571', '0.0456719', '0.0345673'];
const [RATE, NEXT_RATE] = ['0.0567127', '0.0671293'];
const ratesAt = (price: string) =>
  sql`jsonb_build_array(jsonb_build_object('tier', 'priority', 'input', ${price}::text, 'output', ${price}::text))`;
/** What the company pays for a price at a factor. */
const paid = (price: string, factor: string) => (Number(price) * Number(factor)).toFixed(11);
const WAYS = [
  ...[FACTOR, LATER, COMING, OWN, CHANGED, NEXT, SHARED, RATE, NEXT_RATE],
  ...[OWN, CHANGED, NEXT, SHARED, RATE, NEXT_RATE].map((price) => `${Number(price) * 1000}`), // for 1,000,000 tokens
];
const slug = await office.part(customer, 'own-chat', 'internal-demo-chat');

await sql`update models set cost_eur_per_1k_input = ${SHARED} where slug = ${CHAT}`;
const setOwn = (price: string) =>
  sql`update models set cost_eur_per_1k_input = ${price}, cost_eur_per_1k_output = ${price} where slug = ${slug}`;
await sql`update companies set price_factor = ${FACTOR} where id = ${company}`;
await setOwn(OWN);
await setOwn(CHANGED);
await sql`update models set rates = ${ratesAt(RATE)} where slug = ${slug}`;
await sql`insert into model_prices (slug, company_id, valid_from, input, output, rates)
  values (${slug}, ${company}, now() + interval '2 days', ${NEXT}, ${NEXT}, ${ratesAt(NEXT_RATE)})`;
await sql`insert into company_price_factors (company_id, valid_from, factor)
  values (${company}, now() + interval '1 day', ${COMING})`;
await until(async () => {
  const { json } = await customer.chat({ model: slug });
  return json.usage !== undefined;
}, 'a call with it');
await customer.chat();
await customer.chat({ model: slug, service_tier: 'priority' });
await office.ledger(company, 3);
await sql`update companies set price_factor = ${LATER} where id = ${company}`;

function tells(t: Test, what: string, text: string): void {
  const found = WAYS.filter((digits) => text.includes(digits));
  t.same(found, [], what);
}

const textOfBytes = (bytes: Buffer) =>
  (bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes).toString();

/** All that somebody gets to by links, from some pages on; of pages that differ in their question alone, some. */
async function walk(person: Person, ...from: string[]): Promise<Map<string, string>> {
  const seen = new Map<string, string>();
  const kinds = new Map<string, number>();
  const waiting = from;
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const [address = ''] = path.split('#');
    const kind = (address.split('?')[0] as string).replace(/[\da-f-]{36}/g, ':id');
    if (seen.has(address) || (kinds.get(kind) ?? 0) >= 6) continue;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    const cookie = [...person.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(office.adminUrl + address, {
      headers: { cookie },
      redirect: 'manual',
    });
    const text = textOfBytes(Buffer.from(await answer.arrayBuffer()));
    seen.set(address, text);
    const location = answer.headers.get('location');
    if (location?.startsWith('/') === true) waiting.push(location);
    for (const [, href = ''] of text.matchAll(/<a [^>]*?href="([^"]+)"/g))
      if (/^\/(?!sign-out)/.test(href)) waiting.push(href.replaceAll('&amp;', '&'));
  }
  return seen;
}

for (const role of ['owner', 'administrator', 'member'] as const) {
  t.test(`no page tells ${role} a list price or the factor`, async (t) => {
    const files = ['ledger', 'usage'].map((name) => `/companies/${company}/${name}.csv`); // a form leads there
    const pages = await walk(await signedIn(office, role), ...files, '/');
    t.ok(pages.size > (role === 'member' ? 5 : 25), `${pages.size} pages`);
    for (const [path, text] of pages) tells(t, path, text);
    if (role === 'owner') {
      const all = [...pages.values()].join('\n');
      t.ok(all.includes(paid(CHANGED, FACTOR)), 'but what the company pays');
      t.match(all, /tier priority</, 'rates too');
      t.match(all, /^.*,priority,.*$/m, 'and of a call');
    }
  });
}

t.test('nor the audit log, whatever is searched there', async (t) => {
  const owner = await signedIn(office, 'owner');
  for (const q of ['price', 'factor', 'changed', 'input', FACTOR, OWN, 'companies', 'model']) {
    const { text } = await owner.get(`/companies/${company}/audit?${new URLSearchParams({ q })}`);
    // what was searched for is said again
    tells(t, q, text.replaceAll(q, ''));
  }
  const rows = await sql`
    select from audit_log where company_id = ${company} and subject = 'companies' and action = 'update'`;
  t.ok(rows.count >= 2, 'the factor was set twice');
  const { text } = await owner.get(`/companies/${company}/audit?subject=companies`);
  t.notMatch(text, /<td[^>]*>[^<]*changed the company/i);
});

t.test('nor an answer over HTTP', async (t) => {
  const token = await newToken(office, { company_id: company });
  const gets = OPERATIONS.filter(({ method }) => method === 'get');
  let answered = 0;
  for (const { path } of gets) {
    const [request] = await sql`select request_id from api_usage where company_id = ${company}`;
    const address = path
      .replace('{company}', company)
      .replace('{request}', `${request?.request_id}`)
      .replace('{model}', slug)
      .replace('{slug}', slug)
      .replace('{month}', new Date().toISOString().slice(0, 7));
    const query = /focus/.test(path) ? `?month=${new Date().toISOString().slice(0, 7)}` : '';
    const answer = await fetch(`${office.adminUrl}/api/v1${address}${query}`, {
      headers: { authorization: `Bearer ${token}` },
    });
    const text = textOfBytes(Buffer.from(await answer.arrayBuffer()));
    if (answer.status === 200 && !path.includes('openapi')) answered++;
    tells(t, `${answer.status} ${address}`, text);
  }
  t.ok(answered > 15, `${answered} answers`);
});

t.test('the archive of a company has the prices of their moments', async (t) => {
  const owner = await signedIn(office, 'owner');
  const cookie = [...owner.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const answer = await fetch(`${office.adminUrl}/companies/${company}/export.tar.gz`, {
    headers: { cookie },
  });
  const text = textOfBytes(Buffer.from(await answer.arrayBuffer()));
  tells(t, 'archive', text);
  for (const [price, factor] of [
    [OWN, FACTOR],
    [CHANGED, FACTOR], // then
    [CHANGED, LATER], // now
    [NEXT, COMING],
  ] as const)
    t.ok(text.includes(paid(price, factor)), `${price} x ${factor}`);
});
