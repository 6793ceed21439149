import t from 'tap';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { addRequests } from '../../support/requests.ts';
import { addUsage } from '../../support/usage.ts';
import { type Person, signedIn, startOffice } from '../people.ts';
import { insertUsage } from '../rows.ts';

/** Lists with many rows: pages of 50, with search and order in the address. */

const MOST_BYTES = 300_000;

const office = await startOffice(t);
const { sql } = office;
const db = openDatabase({ url: office.databaseUrl });
t.teardown(() => db.close());
const company = office.customer.company;
const base = `/companies/${company}`;
await sql`insert into companies (name) select 'Company ' || i from generate_series(1, 2000) as i`;
const keys = await sql<{ id: string }[]>`
  insert into api_keys (company_id, name, digest, prefix, scopes, created_by, created_at)
  select ${company}, 'Key ' || i, sha256(('key ' || i)::bytea), 'svc_' || left(md5(i::text), 4),
    '{chat,embeddings,assistants}', 'owen@customer.example', now() - i * interval '1 minute'
  from generate_series(1, 2000) as i returning id`;
await sql`insert into users (email, role, company_id)
  select 'user' || i || '@customer.example', 'member', ${company} from generate_series(1, 2000) as i`;
await sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
  select 'model-' || i, ${company}, 'internal-' || i, 'chat', true, 1, 2 from generate_series(1, 400) as i`;
await sql`insert into assistants (company_id, name, system_prompt)
  select ${company}, 'Assistant ' || i, repeat('Be brief. ', 1000) from generate_series(1, 1000) as i`;
await sql`update api_keys set requests_per_minute = 1000000000, tokens_per_minute = 1000000000000, max_concurrent = 1000000,
  monthly_budget_eur = 123456789012.123456789012345, allowed_cidrs = array_fill('2001:db8::/32'::cidr, array[100]),
  allowed_model_slugs = (select array_agg(slug order by length(slug), slug) from models where company_id = ${company})
  where company_id = ${company} and created_at > now() - interval '1 hour'`;
const operator = await signedIn(office, 'operator');
const [row] = await sql<[{ month: string }]>`select billing_month(now())::text as month`;

/** Asserts that a page is small. */
async function get(person: Person, path: string): Promise<string> {
  const { status, text } = await person.get(path);
  t.equal(status, 200, path);
  t.ok(Buffer.byteLength(text) < MOST_BYTES, `${path} has ${Buffer.byteLength(text)} bytes`);
  return text;
}

/** The first cell of each row, without markup. */
function firsts(text: string): string[] {
  return [...text.matchAll(/<th role="rowheader" scope="row">(.*?)<\/th>/gs)].map(([, cell]) =>
    (cell as string).replace(/ <code.*/s, '').replace(/<[^>]*>/g, ''),
  );
}

t.test('no page is large, and each list has 50 rows', async (t) => {
  const lists = [
    '/companies',
    `${base}/keys`,
    `${base}/models`,
    `${base}/assistants`,
    '/models',
    '/users',
    '/audit',
  ];
  for (const path of lists) t.equal(firsts(await get(operator, path)).length, 50, path);
  for (const path of ['/settings', '/usage', '/assistants/new']) await get(operator, base + path);
  const edit = await get(operator, `${base}/keys/${keys[0]?.id}`);
  t.match(
    edit,
    /<textarea id="f-model".*\nmodel-1\nmodel-2\n/s,
    'four hundred checkboxes would be much',
  );
  const ids = keys.map(({ id }) => id);
  await insertUsage(sql, {
    companies: [company],
    keys: ids,
    rows: 2000,
    seed: 1,
    month: row.month,
  });
  const usage = await get(operator, `${base}/usage`);
  t.match(usage, /1,990 others.*The first 50 of 2,000 keys/s);
  t.match(await get(operator, `${base}/usage?all=key`), /1,950 others.*Only the first 10</s);
  await sql`insert into usage_company_days
    select ${company}, ${row.month}::date, ${row.month}::date + day, 'model-' || i, 'embeddings', 'upstream', 'completed', '', 1, 1, 0, i
    from generate_series(1, 300) as i, generate_series(0, 27) as day`;
  t.match(await get(operator, `${base}/usage`), /and 29\d more/, '300 models a day');
});

t.test('pages follow each other, without a gap or a repetition', async (t) => {
  const seen: string[] = [];
  let path: string | undefined = `${base}/keys?q=KEY+19`;
  while (path !== undefined) {
    const text: string = await get(operator, path);
    seen.push(...firsts(text));
    path = /rel="next" href="([^"]+)"/.exec(text)?.[1]?.replaceAll('&amp;', '&');
  }
  const wanted = Array.from({ length: 2000 }, (_, i) => `Key ${i + 1}`).filter((name) =>
    name.includes('Key 19'),
  );
  t.same(seen, wanted, 'newest first');
  t.same(
    firsts(await get(operator, `${base}/keys?q=Key+19&page=7`)),
    firsts(await get(operator, `${base}/keys?q=Key+19`)),
  );
});

t.test('search and order', async (t) => {
  t.same(firsts(await get(operator, '/companies?q=company+1999')), ['Company 1999']);
  t.same(firsts(await get(operator, '/companies?q=%25')), [], 'a sign of patterns is text');
  t.match(await get(operator, '/companies?q=%25'), 'Nothing matches the search.');
  t.equal(firsts(await get(operator, `${base}/keys?sort=name`))[0], 'Key 1');
  t.equal(firsts(await get(operator, `${base}/keys?sort=-cost&page=40`)).length, 50);
  t.equal(
    firsts(await get(operator, `${base}/models?sort=-slug`))[0],
    'model-99own'.replace('own', ' own'),
  );
  t.same(firsts(await get(operator, '/users?q=USER1999')), ['user1999@customer.example']);
  t.same(firsts(await get(operator, `${base}/assistants?q=assistant+777`)), ['Assistant 777']);
  t.equal(
    firsts(await get(operator, '/models?q=nordlicht')).length,
    50,
    'by the name of the owner',
  );
  t.match((await get(operator, '/companies?q="><b>')).toLowerCase(), 'value="&quot;&gt;&lt;b&gt;"');
  for (const odd of ['?sort=constructor', '?page=-1', '?page=99999999', '?q=%00', '?sort=--name']) {
    t.equal((await operator.get(`${base}/keys${odd}`)).status, 200, odd);
  }
});

t.test(
  'customers are sorted by a click on a heading, and chosen by their state, which stay in the address',
  async (t) => {
    const ids = (
      await sql<{ id: string }[]>`
    insert into companies (name, monthly_budget_eur, closed_at) values
      ('Heading A', 10, null), ('Heading B', 100, null), ('Heading C', null, now()), ('Heading D', 10, null) returning id`
    ).map(({ id }) => id);
    const [a = '', b = '', , d = ''] = ids;
    await addUsage(sql, [
      { company: a, prompt: 8500, input: '1', month: row.month, at: new Date().toISOString() },
      { company: b, prompt: 99000, input: '1', month: row.month, at: new Date().toISOString() },
      { company: d, prompt: 10000, input: '1', month: row.month, at: new Date().toISOString() },
    ]);
    const refusal = { company: a, status: 402, code: 'insufficient_quota' };
    await addRequests(trailStore(db), [
      refusal,
      refusal,
      { ...refusal, company: b },
      { company: d },
    ]);
    await sql`insert into api_keys (company_id, name, digest, prefix, scopes, last_used_at)
    values (${b}, 'used', sha256('used'), 'svc_used', '{chat}', now() - interval '1 hour'),
      (${d}, 'used', sha256('used too'), 'svc_used', '{chat}', now() - interval '40 days')`;
    const found = async (query: string) =>
      firsts(await get(operator, `/companies?q=heading&${query}`)).map((name) => name.slice(8));
    t.same(await found('sort=name'), ['A', 'B', 'C closed', 'D used up']);
    t.same(await found('sort=-name'), ['D used up', 'C closed', 'B', 'A']);
    t.same(await found('sort=-spent'), ['B', 'D used up', 'A', 'C closed']);
    t.same(
      await found('sort=-share'),
      ['D used up', 'B', 'A', 'C closed'],
      'without a budget, the last',
    );
    t.same((await found('sort=-refused')).slice(0, 2), ['A', 'B']);
    t.same((await found('sort=-called')).slice(0, 2), ['B', 'D used up']);
    for (const [state, names] of Object.entries({
      near: ['A', 'B', 'D used up'],
      'used-up': ['D used up'],
      refused: ['A', 'B'],
      quiet: ['A', 'D used up'],
      closed: ['C closed'],
      'non-eu': [],
      new: ['A', 'B', 'C closed', 'D used up'],
      nonsense: ['A', 'B', 'C closed', 'D used up'],
    }))
      t.same(await found(`show=${state}`), names, state);

    const page = await get(operator, '/companies?q=heading&sort=-refused&show=near');
    t.match(
      page,
      'aria-sort="descending"><a href="/companies?q=heading&amp;sort=refused&amp;show=near">Refused today</a>',
    );
    t.match(
      page,
      '<a href="/companies?q=heading&amp;sort=-spent&amp;show=near">Spent this month</a>',
    );
    t.match(page, '<input type="hidden" name="sort" value="-refused">');
    t.match(page, '<option value="near" selected>');
    const [, cells = ''] = /Heading A<\/a>.*?<\/th>(.*?)<\/tr>/s.exec(page) ?? [];
    t.match(
      cells.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' '),
      /€8\.50 85% of €10\.00 2 refused never/,
    );
    t.match(cells, /aria-label="most on \d+ \w+: €8\.50"/);
    await sql`delete from request_days`;
  },
);

t.test(
  'of keys by their end, those that end come first, the next of them first; then those that never end',
  async (t) => {
    const company = (await office.newCustomer()).company; // with one key that never ends
    await sql`insert into api_keys (company_id, name, digest, prefix, scopes, expires_at)
    select ${company}, 'Ends in ' || days, sha256(('ends ' || days)::bytea), 'svc_ends', '{chat}', now() + make_interval(days => days)
    from unnest(array[30, 1, 7]) as days`;
    const names = firsts(await get(operator, `/companies/${company}/keys?sort=expires`));
    t.same(names, ['Ends in 1', 'Ends in 7', 'Ends in 30', 'test']);
  },
);

t.test(
  'the audit log is searched by person, name and company, and goes on where it ended',
  async (t) => {
    t.match(
      await get(operator, '/audit?q=company+1234'),
      /title="company Company 1234">company Company 1234</,
    );
    t.equal(firsts(await get(operator, '/audit?sort=id')).length, 50);
    t.equal(firsts(await get(operator, '/audit?sort=id&q=nordlicht')).length, 50);
    await sql`insert into audit_log (actor, action, subject) select 'noise', 'truncate', 'models' from generate_series(1, 100000)`;
    const first = await get(operator, '/audit?q=company+1234');
    t.match(first, 'None of 100,000 changes matches the search.');
    const next = /rel="next" href="([^"]+)"/.exec(first)?.[1]?.replaceAll('&amp;', '&');
    t.match(next, /^\/audit\?q=company\+1234&after=\d+$/, 'there are older changes to search');
    t.match(
      await get(operator, next as string),
      /title="company Company 1234">company Company 1234</,
    );
  },
);

t.test(
  'every list is searched whatever the case and the accents, and companies by their people and keys',
  async (t) => {
    const [{ id }] = await sql<
      [{ id: string }]
    >`insert into companies (name) values ('Grüne Łódź Müller') returning id`;
    await sql`insert into users (email, role, company_id) values ('owner.of.it@gruen.example', 'owner', ${id})`;
    await sql`insert into invitations (company_id, email, role, digest, expires_at)
    values (${id}, 'invited@gruen.example', 'member', sha256('invited'), now() + interval '1 day')`;
    await sql`insert into api_keys (company_id, name, digest, prefix, scopes)
    values (${id}, 'Schlüssel für Jürgen', sha256('umlauts'), 'svc_Zz9Q', '{chat}')`;
    await sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    values ('umlaut-chat', ${id}, 'internal-ü', 'chat', true, 1, 2)`;
    await sql`insert into assistants (company_id, name, system_prompt) values (${id}, 'Übersetzer', 'x')`;
    await sql`insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
      prompt_tokens, completion_tokens, price_input, price_output, cost_eur, usage_source, outcome, occurred_at)
    values ('2026-09-01', gen_random_uuid(), ${id}, gen_random_uuid(), 'm', 'm', 'embeddings', 1, 0, 0, 0, 0, 'upstream', 'completed', '2026-09-15')`;
    const name = 'Grüne Łódź Müller';
    const finds = async (path: string, search: string, first: string) => {
      const found = firsts(
        await get(
          operator,
          `${path}${path.includes('?') ? '&' : '?'}q=${encodeURIComponent(search)}`,
        ),
      );
      t.same(found, [first], `${path} ${search}`);
    };
    const people = [
      'owner.of.it',
      'OWNER.of.it@gruen.example',
      'invited@gruen',
      'svc_Zz9Q',
      'svc_zz9q…',
      'Zz9Q',
    ];
    for (const search of [
      'muller',
      'mueller',
      'gruene',
      'grune',
      'lodz',
      'ŁÓDŹ',
      'grüne lódz',
      id,
      ...people,
    ])
      await finds('/companies', search, name);
    await finds(`/companies/${id}/keys`, 'schluessel fur juergen', 'Schlüssel für Jürgen');
    await finds(`/companies/${id}/assistants`, 'uebersetzer', 'Übersetzer');
    await finds('/models', 'gruene', 'umlaut-chat');
    await finds('/users', 'lodz', 'owner.of.it@gruen.example');
    await finds('/users', 'OWNER.of.it', 'owner.of.it@gruen.example');
    await finds('/month-end?month=2026-09', 'mueller', name);
  },
);

t.test('the audit log is narrowed by kind, person and day', async (t) => {
  const [{ id }] = await sql<
    [{ id: string }]
  >`insert into companies (name) values ('Filtered') returning id`;
  const path = `/companies/${id}/audit`;
  await sql.begin(async (as) => {
    await as`select set_config('tollgate.actor', 'fay@filtered.example', true)`;
    await as`insert into users (email, company_id, role) values ('fay@filtered.example', ${id}, 'owner')`;
    await as`update companies set requests_per_minute = 5 where id = ${id}`;
  });
  const found = async (query: string) =>
    [...(await get(operator, `${path}?${query}`)).matchAll(/<tr role="row"><th role="rowheader"/g)]
      .length;
  t.equal(await found(''), 3);
  t.equal(await found('subject=users'), 1);
  t.equal(await found('actor=fay@filtered.example'), 2);
  t.equal(await found('actor=fay@filtered.example&subject=companies'), 1);
  t.equal(await found('q=minute&subject=companies'), 1);
  const [{ today }] = await sql<
    [{ today: string }]
  >`select to_char(now() at time zone 'UTC', 'YYYY-MM-DD') as today`;
  t.equal(await found(`from=${today}&to=${today}`), 3);
  t.equal(await found('to=2020-01-01'), 0);
  t.equal(await found('from=2999-01-01'), 0);
  for (const wrong of ['subject=keys', 'from=today', 'to=2026-02-30'])
    t.match(await get(operator, `${path}?${wrong}`), 'aria-invalid="true"', wrong);
});

t.test('the audit log is searched by what happened', async (t) => {
  const [{ id }] = await sql<
    [{ id: string }]
  >`insert into companies (name) values ('Wortmann') returning id`;
  const [key] = await sql<
    [{ id: string }]
  >`insert into api_keys (company_id, name, digest, prefix, scopes)
    values (${id}, 'CI', sha256('ci'), 'svc_ci12', '{chat}') returning id`;
  const own = { slug: 'wort-chat', upstream_model: 'internal-w', cost_eur_per_1k_output: '2' };
  await sql`insert into models ${sql({ ...own, company_id: id, kind: 'chat', eu_hosted: true, cost_eur_per_1k_input: '1' })}`;
  const count = async (search: string, path = `/companies/${id}/audit`) =>
    (await operator.get(`${path}?q=${encodeURIComponent(search)}`)).text.match(/<tr/g)?.length ?? 0;
  /** Asserts that the change is found by these words, and was not before; with the row of headings. */
  const finds = async (change: () => PromiseLike<unknown>, ...searches: string[]) => {
    const before = await Promise.all(searches.map((search) => count(search)));
    await change();
    for (const [at, search] of searches.entries())
      t.equal(await count(search), Math.max(1, before[at] as number) + 1, search);
  };
  const updateKey = (column: string, value: string | null) =>
    sql`update api_keys set ${sql({ [column]: value })} where id = ${key.id}`;
  await finds(
    () => sql`update companies set monthly_budget_eur = 500 where id = ${id}`,
    'budget',
    'BUDGET',
    'monthly_budget_eur',
    'monthly budget',
  );
  await finds(() => updateKey('monthly_budget_eur', '5'), 'budget', 'key budget', 'CI budget');
  await finds(() => updateKey('revoked_at', '2026-11-01'), 'revoked', 'revoked key', 'revoked ci');
  await finds(
    () => sql`update models set cost_eur_per_1k_input = 3 where company_id = ${id}`,
    'price',
    'input price',
  );
  await finds(() => sql`update companies set closed_at = now() where id = ${id}`, 'closed');
  await finds(() => sql`update companies set closed_at = null where id = ${id}`, 'reopened');
  await finds(
    () => sql`update companies set allow_non_eu_models = true where id = ${id}`,
    'eu models',
  );
  const people = { email: 'w@w.example', role: 'owner', company_id: id };
  await finds(() => sql`insert into users ${sql(people)}`, 'created user', 'owner');
  await finds(
    () => sql`update users set role = 'member' where email = 'w@w.example'`,
    'role',
    'changed user',
  );
  await finds(() => sql`delete from users where email = 'w@w.example'`, 'removed');
  t.equal(await count('budget', '/audit'), 3, 'of all companies as well');
  t.equal(await count('created company wortmann', '/audit'), 2);
  t.equal(await count('nothing of the kind'), 0);

  const seen = async (search: string) => (await count(search)) - (await count(search, '/nowhere'));
  await sql`update models set upstream_model = 'internal-x' where company_id = ${id}`;
  t.equal(await seen('upstream'), 0, 'an owner finds nothing by what is hidden');
  t.equal(await seen('internal'), 0);
});

t.test("an operator's lists lead from the name of a company to its pages", async (t) => {
  const [{ id }] = await sql<
    [{ id: string }]
  >`insert into companies (name) values ('Hafen <i>') returning id`;
  await sql`insert into users (email, role, company_id) values ('hafen@x.example', 'member', ${id})`;
  await sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    values ('hafen-chat', ${id}, 'internal-h', 'chat', true, 1, 2)`;
  await sql`insert into admin_tokens (name, company_id, digest, access) values ('Hafen', ${id}, sha256('hafen'), 'read')`;
  const lists = {
    'audit?q=hafen': 'usage',
    'users?q=hafen': 'users',
    'models?q=hafen': 'models',
    tokens: 'tokens',
  };
  for (const [list, tab] of Object.entries(lists)) {
    t.match(
      await get(operator, `/${list}`),
      `<a href="/companies/${id}/${tab}">Hafen &lt;i&gt;</a>`,
      list,
    );
  }
});

t.test("an owner's list has the rows of the owner's company alone", async (t) => {
  const other = await office.newCustomer();
  await sql`update api_keys set name = 'Foreign key' where company_id = ${other.company}`;
  const owner = await signedIn(office, 'owner');
  t.same(firsts(await get(owner, `${base}/keys?q=foreign`)), []);
  t.equal((await owner.get(`/companies/${other.company}/keys?q=foreign`)).status, 404);
  const [theirs] = await sql<
    [{ id: string }]
  >`select id from api_keys where company_id = ${other.company}`;
  t.equal((await owner.get(`${base}/keys/${theirs.id}/revoke`)).status, 404);
});

t.test('a company is chosen by its name or id', async (t) => {
  await sql`insert into companies (name) values ('Twin'), ('Twin')`;
  const [one] = await sql<[{ id: string }]>`select id from companies where name = 'Company 17'`;
  const add = (email: string, chosen: string) =>
    operator.post('/users', { email, role: 'owner', company: chosen });
  t.equal((await add('a@x.example', 'Company 17')).status, 303);
  t.equal((await add('b@x.example', one.id.toUpperCase())).status, 303);
  t.match((await add('c@x.example', 'Twin')).text, 'the name of several companies');
  t.match((await add('d@x.example', 'Nobody')).text, 'Company is not known');
  const rows =
    await sql`select from users where email like '%@x.example' and company_id = ${one.id}`;
  t.equal(rows.length, 2);
});
