import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { tollgate } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests } from '../../support/requests.ts';
import { until } from '../../support/until.ts';
import { signedIn, startOffice, textOf } from '../people.ts';

const office = await startOffice(t);
const operator = await signedIn(office, 'operator');
const db = openDatabase({ url: office.databaseUrl });
t.teardown(() => db.close());
await until(async () => (await office.sql`select from gateways`).count === 1, 'the gateway beats');
const { company } = office.customer;
const first = async () => (await operator.get('/', { 'accept-language': 'en' })).text;
const status = (...more: string[]) =>
  tollgate(['status', ...more], { env: { DATABASE_URL: office.databaseUrl } });

t.test('the first page of others is what is theirs', async (t) => {
  const of = async (role: 'owner' | 'administrator' | 'member') =>
    (await (await signedIn(office, role)).get('/')).headers.get('location');
  t.equal(await of('owner'), `/companies/${company}/usage`);
  t.equal(await of('administrator'), `/companies/${company}/usage`);
  t.equal(await of('member'), `/companies/${company}/own/keys`);
});

t.test('an operator sees that all is well, figures of today, and whose budget ends', async (t) => {
  await office.sql`update companies set name = 'Nord <b>', monthly_budget_eur = 0.0000001 where id = ${company}`;
  await office.customer.chat();
  const [call] = await office.ledger(company, 1);
  const html = await first();
  const text = textOf(html);
  t.match(
    text,
    /Overview All is well with gateways, .* Refused requests and budgets are not judged here: /,
  );
  t.match(text, /1 budget has reached 80% or will be passed at this pace\. Used up: 1\./);
  t.match(
    html,
    `<a href="/companies/${company}/settings">Change`,
    'and leads to where it is changed',
  );
  t.match(text, /Spent today €[\d.]+ .*yesterday at this time €0\.00 · \w+ \d{4} €/);
  t.match(
    text,
    /running Gateway \S+ runs, version 0\.1\.0\. Requests in flight: \d+, records waiting: \d+\./,
  );
  t.notMatch(text, 'In flight', 'one line while all is well');
  const run = await status();
  t.match(run, {
    code: 0,
    out: /^All is well with .*\n\nAPI CALLS +EUR +REQUESTS +TOKENS\ntoday, /,
  });
  t.match(
    run.out,
    new RegExp(
      `TOP SPENDERS TODAY +EUR +SHARE % +ID\nNord <b> +${call?.cost_eur} +100 +${company}\n`,
    ),
  );
  t.match(await status('--json'), {
    code: 0,
    json: {
      ok: true,
      problems: [],
      today: { requests: 1, cost_eur: call?.cost_eur, spenders: [{ id: company }] },
    },
  });
});

t.test('a model that fails leads to the requests that failed', async (t) => {
  const calls = Array.from({ length: 20 }, (_, i) => ({
    company,
    model: 'lame/duck',
    ...(i < 3 && {
      status: 502,
      code: 'upstream_error',
      outcome: 'upstream_failed',
      upstreamStatus: 500,
    }),
  }));
  await addRequests(trailStore(db), calls);
  const html = await first();
  const [, wrong] =
    /<a href="([^"]+)">The upstream failed 3 of 20 requests for lame\/duck/.exec(html) ?? [];
  t.match(
    wrong,
    /^\/requests\?model=lame%2Fduck&amp;status=upstream_failed&amp;from=\d{4}-\d\d-\d\dT\d\d%3A00%3A00\.000Z$/,
  );
  t.match((await status()).out, /\nlame\/duck +20 +0 +3 /);
  await office.sql`delete from request_hours where model_slug = 'lame/duck'`;
  await office.sql`delete from request_days where model_slug = 'lame/duck'`;
});

t.test('members of a usage that are not read are named with their model', async (t) => {
  t.notMatch(textOf(await first()), 'usage not read');
  t.match(
    (await status()).out,
    /\nEach member of a usage that tells tokens is read, and each tier that served a call has a rate\.\n/,
  );
  const unread = JSON.stringify([{ slug: 'odd', members: ['cache_used', 'tool_tokens'] }]);
  await office.sql`insert into gateways (id, name, version, unread_usage)
    select gen_random_uuid(), 'other', version, ${unread}::text::jsonb from gateways`;
  t.match(
    textOf(await first()),
    /usage not read odd : cache_used, tool_tokens: the upstream counts tokens by these names/,
  );
  t.match((await status()).out, /\nUSAGE NOT READ +MEMBERS\nodd +cache_used, tool_tokens\n/);
  await office.sql`delete from gateways where name = 'other'`;
});

t.test('a model that tells no usage is named, with how many answers are estimated', async (t) => {
  t.notMatch(textOf(await first()), 'tells no usage');
  t.match(
    (await status()).out,
    /\nThe upstream told the usage of each whole answer since yesterday\.\n/,
  );
  await office.sql`
    insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
      completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
    select billing_month(now()), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mute', 'u', 'messages', 1, 1, 0, 0, 0,
      source, 'completed', now()
    from generate_series(1, 2), unnest('{estimated,estimated,upstream}'::text[]) source`;
  t.match(
    textOf(await first()),
    /tells no usage mute : 4 of 6: whole answers since yesterday that are estimated/,
  );
  t.match(
    (await status()).out,
    /\nUSAGE NOT TOLD SINCE YESTERDAY +ESTIMATED +OF ANSWERS\nmute +4 +6\n/,
  );
  t.match((await status('--json')).json, {
    untold_usage: [{ slug: 'mute', requests: 6, estimated: 4 }],
  });
  await office.sql`
    insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
      completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
    select billing_month(now()), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'quiet-' || n, 'u', 'messages', 1, 1, 0, 0, 0,
      'estimated', 'completed', now()
    from generate_series(1, 4) n`;
  t.match(
    textOf(await first()),
    /tells no usage mute : 4 of 6, quiet-1 : 1 of 1, quiet-2 : 1 of 1 and others: whole answers since yesterday that are estimated/,
    'one line, however many',
  );
});

t.test('what callers did wrong is refused, and no failure of the upstream', async (t) => {
  const mistake = {
    status: 400,
    code: 'context_length_exceeded',
    outcome: 'upstream_failed',
    upstreamStatus: 400,
  };
  await addRequests(
    trailStore(db),
    Array.from({ length: 25 }, () => ({ company, model: 'short', ...mistake })),
  );
  const html = await first();
  t.match(
    textOf(html),
    /Overview All is well .* \d+ of \d+ requests were refused in the last 24 hours, 25 of them/,
  );
  t.match(await status(), { code: 0, out: /\nshort +25 +25 +0 +0 / });
  await office.sql`delete from request_hours where model_slug = 'short'`;
  await office.sql`delete from request_days where model_slug = 'short'`;
});

t.test('refused requests are told by their reasons, and lead to themselves', async (t) => {
  const broke = {
    company,
    status: 402,
    code: 'insufficient_quota',
    param: 'company.monthly_budget_eur',
    model: 'dear',
  };
  const ids = await addRequests(trailStore(db), [
    ...Array.from({ length: 30 }, () => broke),
    ...Array.from({ length: 3 }, () => ({ company, status: 401, code: 'invalid_api_key' })),
    ...Array.from({ length: 2 }, () => ({ company, model: 'dear' })),
  ]);
  const listed = (text: string) => ids.filter((id) => text.includes(`/requests/${id}"`)).length;
  const html = await first();
  t.match(
    textOf(html),
    /All is well with .* \d+ of \d+ requests were refused in the last 24 hours, 30 of them for “Budget reached”\./,
  );
  const [, which = ''] = /<a href="([^"]+)">Which<\/a>/.exec(html) ?? [];
  t.equal(
    listed((await operator.get(which.replaceAll('&amp;', '&'))).text),
    33,
    'all that were refused',
  );
  const [, now = ''] = /href="([^"]+)">30<span/.exec(html) ?? [];
  t.equal(listed((await operator.get(now.replaceAll('&amp;', '&'))).text), 30);
  const run = await status();
  t.match(run, { code: 0, out: /^All is well with .*\d+ of \d+ requests/ });
  t.match(run.out, /\nBudget reached +insufficient_quota +402 +30 +1 +Nord <b>: 30\n/);
  t.match((await status('--json')).json, {
    ok: true,
    last_day: {
      reasons: [
        { code: 'insufficient_quota', requests: 30, companies: 1, most: { id: company } },
        {},
      ],
    },
  });

  const owner = await signedIn(office, 'owner');
  const usage = (await owner.get(`/companies/${company}/usage`, { 'accept-language': 'en' })).text;
  const [, own = ''] = /<section id="reasons">(.*?)<\/section>/s.exec(usage) ?? [];
  t.match(textOf(own), /3\d of \d\d requests were refused, and 0 failed\./);
  t.match(textOf(own), /Budget reached insufficient_quota 402 30 /);
  const [, href = ''] = /href="([^"]+code=insufficient_quota)"/.exec(own) ?? [];
  t.equal(
    listed((await owner.get(`/companies/${company}/${href.replaceAll('&amp;', '&')}`)).text),
    30,
  );
  const filtered = await owner.get(`/companies/${company}/usage?model=dear`, {
    'accept-language': 'en',
  });
  t.match(
    textOf(filtered.text),
    /Refused · failed 30 · 0 93\.8% and 0% of all 32 requests · why Response time \d+ ms p50 p95: \d+ ms/,
  );
  t.match(textOf(filtered.text), /30 of 32 requests were refused/);
  t.match(
    (await owner.get(`/companies/${company}/requests?code=No`)).text,
    '“code” must be the code of an error',
  );
  await office.sql`delete from request_hours where model_slug in ('dear', '')`;
  await office.sql`delete from request_days where model_slug in ('dear', '')`;
});

t.test(
  'every link of the first page leads to what it speaks of, all of it and nothing else',
  async (t) => {
    const other = await office.newCustomer();
    for (const table of ['request_trail', 'request_hours', 'request_days'])
      await office.sql`delete from ${office.sql(table)}`;
    const of = <T>(count: number, row: T) => Array.from({ length: count }, () => row);
    const lame = { model: 'lame/duck', company };
    const failed = { ...lame, status: 502, upstreamStatus: 500, code: 'upstream_error' };
    const refused = { model: 'lame/duck', company: other.company, status: 402 };
    await addRequests(trailStore(db), [
      ...of(27, failed),
      // the upstream's too, whatever the client was told
      ...of(3, { ...lame, status: 429, upstreamStatus: 429, code: 'rate_limit_exceeded' }),
      ...of(2, { ...lame, status: 0, reason: 'too slow', outcome: 'client_aborted' }),
      ...of(1, { ...lame, status: 200, code: 'upstream_error', reason: 'broke off' }),
      // not the upstream's
      ...of(2, { ...lame, status: 500, code: 'server_error' }),
      ...of(2, { ...lame, status: 400, upstreamStatus: 400, code: 'context_length_exceeded' }),
      ...of(1, { ...lame, status: 429, code: 'rate_limit_exceeded' }),
      ...of(1, { ...lame, status: 0 }),
      ...of(34, { ...lame, prompt: 1 }),
      ...of(12, { ...refused, code: 'budget_exceeded' }), // newer than all that failed
      ...of(4, { status: 401, code: 'invalid_api_key' }),
    ]);
    const deliveries = [
      ...of(2, { state: 'dead', attempts: 12 }),
      ...of(3, { state: 'pending', attempts: 5 }),
      { state: 'pending', attempts: 4 },
      { state: 'delivered', attempts: 6 },
    ];
    for (const { state, attempts } of deliveries)
      await office.sql`
        with event as (
          insert into events (company_id, kind, subject, body, told) values (${company}, 'key.created', 'k', '{}', true) returning id)
        insert into event_deliveries (event_id, channel, recipient, state, attempts)
        select id, 'webhook', '', ${state}, ${attempts} from event`;
    const html = await first();
    const [, main = ''] = /<main[^>]*>(.*)<\/main>/s.exec(html) ?? [];
    const links = [...main.matchAll(/<a [^>]*?href="([^"]+)"[^>]*>(.*?)<\/a>/gs)];
    const counted: Record<string, number> = {};
    for (const [, address = '', inner = ''] of links) {
      const href = address.replaceAll('&amp;', '&');
      const text = textOf(inner);
      if (href.startsWith('mailto:')) continue;
      const [, anchor] = /^\/?#(.+)/.exec(href) ?? [];
      if (anchor !== undefined) {
        t.ok(html.includes(`id="${anchor}"`), `${text}: ${href}`);
        continue;
      }
      const page = await operator.get(href, { 'accept-language': 'en' });
      t.equal(page.status, 200, `${text}: ${href}`);
      const [, said] =
        /^(?:The upstream failed )?(\d+) (?:of|requests|deliveries)/.exec(text) ?? [];
      if (said === undefined) continue;
      const rows = new Set(page.text.match(/\/(?:requests|events)\/[\da-f-]{36}(?=["/])/g)).size;
      t.equal(rows, Number(said), `${text}: ${href}`);
      counted[text.replace(/ in this hour.*/, '')] = rows;
    }
    t.match(counted, { 'The upstream failed 33 of 85 requests for lame/duck': 33 });
    t.match(counted, {
      '3 deliveries of events fail.': 3,
      '2 deliveries of events were given up.': 2,
    });
    t.ok(Object.keys(counted).length >= 6, 'and each row of what is refused now');
    await office.sql`delete from events where subject = 'k'`;
    await office.sql`delete from request_hours where model_slug in ('lame/duck', '')`;
    await office.sql`delete from request_days where model_slug in ('lame/duck', '')`;
  },
);

t.test('the budget of a key is changed on the page of the key', async (t) => {
  const [{ id }] = await office.sql<[{ id: string }]>`
    update api_keys set monthly_budget_eur = 0.0000001 where company_id = ${company} returning id`;
  await office.sql`
    insert into budget_alerts (company_id, api_key_id, billing_month, threshold, budget_eur, spent_eur)
    values (${company}, ${id}, billing_month(now()), '100', 0.0000001, 1) on conflict do nothing`;
  t.match(await first(), `<a href="/companies/${company}/keys/${id}">Change`);
  t.match(
    await first(),
    `<a href="/companies/${company}/usage?key=${id}">Nord`,
    'and its spend is that of the key',
  );
  await office.sql`delete from budget_alerts where api_key_id = ${id}`;
  await office.sql`update api_keys set monthly_budget_eur = null where id = ${id}`;
});

t.test('what is wrong stands on top, with a link to where it is mended', async (t) => {
  await office.sql`
    with event as (
      insert into events (company_id, kind, subject, body, told) values (${company}, 'key.created', 'k', '{}', true) returning id)
    insert into event_deliveries (event_id, channel, recipient, state) select id, 'webhook', '', 'dead' from event`;
  await office.sql`insert into api_usage_set_aside (record, reason) values ('{}', 'wrong')`;
  await office.sql`insert into gateways (id, name, version, last_seen_at, backlog) values
    (gen_random_uuid(), 'pod <i>', '0.0.9', now() - interval '2 minutes', 0),
    (gen_random_uuid(), 'pod-2', '0.0.9', now() - interval '20 days', 4),
    (gen_random_uuid(), 'pod-4', '0.0.9', now() - interval '20 days', 0)`;
  await office.sql`insert into gateways (id, name, version) values (gen_random_uuid(), 'pod-3', '0.0.8')`;
  const html = await first();
  const [, wrong = ''] = /<section class="problem"(.*?)<\/section>/s.exec(html) ?? [];
  t.match(textOf(wrong), /5 things are wrong/);
  const links = [...wrong.matchAll(/<li><a href="([^"]+)">([^<]+)<\/a>/g)].map(
    ([, href, text]) => `${href} ${text}`,
  );
  t.same(links, [
    '/#gateways The database refused 1 usage record, kept aside.',
    '/#gateways pod &lt;i&gt; is gone without a stop.',
    '/#gateways pod-2 is gone, and its spool had 4 usage records.',
    '/#gateways Gateways of different versions run: 0.0.8, 0.1.0.',
    '/events?state=dead A delivery of an event was given up.',
  ]);
  t.match(html, 'id="gateways"');
  t.notMatch(html, 'All is well');
  const run = await status();
  t.match(run, { code: 1, out: /^- The database refused 1 usage record/ });
  t.match(run.out, /\npod <i> +gone +0\.0\.9 /);
  t.match(await status('--json'), { code: 1, json: { ok: false, problems: { length: 5 } } });
});

t.test('who begins is told what is missing before anybody can call the API', async (t) => {
  t.notMatch(await first(), 'First steps');
  await office.sql`delete from models`;
  const steps = /id="first-steps".*?<\/section>/s.exec(await first())?.[0] ?? '';
  t.match(steps, '<a href="/models/new">Add a model</a>');
  t.notMatch(steps, 'Create a company', 'what is there is not asked for');
  const { text } = await operator.get(`/companies/${company}/models`);
  t.match(text, 'No models are offered yet. <a href="/models">Add one</a>');
  const owner = await signedIn(office, 'owner');
  t.match(
    (await owner.get(`/companies/${company}/models`)).text,
    'the operator of this service offers them',
  );
  t.match(
    (await owner.get(`/companies/${company}/playground`)).text,
    `<a href="/companies/${company}/models">Its models</a>`,
  );
  const form = {
    id: randomUUID(),
    claim: randomBytes(32).toString('base64url'),
    name: 'First',
    scope: 'chat',
  };
  const shown = await owner.post(`/companies/${company}/keys/create`, form);
  t.match(shown.text, /can call no model yet: see the <a href="[^"]+\/models">/);
});

t.test('status says that there is no operator, and which command makes one', async (t) => {
  const { url, db: empty } = await testDatabase(t);
  const run = () => tollgate(['status'], { env: { DATABASE_URL: url } });
  const said =
    'There is no operator: nobody can sign in to see all companies. Make one: tollgate user create --role operator';
  t.match((await run()).out, said);
  await empty.run(
    10_000,
    (sql) => sql`insert into users (email, role) values ('o@tollgate.example', 'operator')`,
  );
  t.notMatch((await run()).out, 'no operator');
});
