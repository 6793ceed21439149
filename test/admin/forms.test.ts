import t from 'tap';
import { ROUTES } from '../../src/admin/pages.ts';
import { Person, signedIn, startOffice } from './people.ts';

/** What forms do besides saving: they ask, come back, and lose nothing that was typed. */

const office = await startOffice(t);
const company = office.customer.company;
const base = `/companies/${company}`;
const owner = await signedIn(office, 'owner');
const operator = await signedIn(office, 'operator');
const stored = async () => (await office.sql`select * from companies where id = ${company}`)[0];

/** The fields of the form of a page that goes to an address, as a browser would send them. */
async function fieldsOf(
  person: Person,
  page: string,
  action = page,
  headers = {},
): Promise<Record<string, string>> {
  const { text } = await person.get(page, headers);
  return fieldsIn(text, action);
}

function fieldsIn(text: string, action: string): Record<string, string> {
  const form =
    text.split('<form ').find((each) => each.startsWith(`method="post" action="${action}"`)) ?? '';
  const inputs = [...(form.split('</form>')[0] as string).matchAll(/<input [^>]*>/g)].map(
    ([input]) => input,
  );
  const attribute = (input: string, name: string) =>
    new RegExp(` ${name}="([^"]*)"`).exec(input)?.[1];
  const sent = inputs.filter((input) => !/type="checkbox"/.test(input) || / checked/.test(input));
  return Object.fromEntries(
    sent.map((input) => [attribute(input, 'name'), attribute(input, 'value') ?? '']),
  );
}

t.test('a form that another person overtook asks, with both values', async (t) => {
  await office.sql`update companies set monthly_budget_eur = null, allow_non_eu_models = false where id = ${company}`;
  const settings = `${base}/settings`;
  const mine = await fieldsOf(owner, settings);
  const theirs = await fieldsOf(operator, settings);
  t.equal((await operator.post(settings, { ...theirs, budget: '250.5' })).status, 303);
  const asked = await owner.post(settings, { ...mine, budget: '1,500.75', allow_non_eu: 'true' });
  t.equal(asked.status, 409);
  t.match(asked.text, /Somebody else saved this first/);
  t.match(asked.text, /saved at <time[^>]*>.*<\/time> by <strong>the operator of this service</);
  t.notMatch(
    asked.text,
    office.people.operator,
    'customers do not learn the addresses of operators',
  );
  const cells = [...asked.text.matchAll(/<td role="cell"[^>]*><span>(.*?)<\/span><\/td>/g)].map(
    ([, cell]) => cell,
  );
  t.same(cells, ['€1,500.75', '€250.50', 'yes', 'no'], 'yours, theirs');
  t.equal((await stored())?.monthly_budget_eur, '250.5', 'nothing is saved');

  const again = fieldsIn(asked.text, settings);
  t.same(again.budget, '1,500.75');
  const changed = await owner.post(settings, { ...again, step: 'show' });
  t.equal(changed.status, 200);
  t.match(changed.text, /This is what you typed. Nothing is saved yet/);
  t.match(changed.text, 'value="1,500.75"');
  const answer = answerIn(asked.text);
  await operator.post(settings, { ...(await fieldsOf(operator, settings)), budget: '300' });
  const later = await owner.post(settings, { ...again, confirmed: answer });
  t.equal(later.status, 409, 'an answer to older values is none');
  const newer = answerIn(later.text);
  t.equal((await owner.post(settings, { ...again, confirmed: newer })).status, 303);
  t.match(await stored(), { monthly_budget_eur: '1500.75', allow_non_eu_models: true });
});

t.test('a form that is sent twice creates one company, one assistant, one token', async (t) => {
  const twice = (page: string, fields: Record<string, string>) =>
    Promise.all([operator.send(page, fields), operator.send(page, fields)]);
  const count = async (table: string) =>
    (await office.sql`select from ${office.sql(table)} where name = 'Twice'`).count;
  for (const [page, table, more] of [
    ['/companies/new', 'companies', { budget: '10' }],
    [`${base}/assistants/new`, 'assistants', { system_prompt: 'Be kind.' }],
  ] as const) {
    const fields = {
      ...(await fieldsOf(operator, page)),
      visibility: 'company',
      name: 'Twice',
      ...more,
    };
    const [first, second] = await twice(page, fields);
    t.same([first?.status, second?.status, await count(table)], [303, 303, 1], page);
    t.equal(first?.headers.get('location'), second?.headers.get('location'));
    await operator.post(page, { ...fields, name: 'Another' });
    t.equal(
      (await office.sql`select from ${office.sql(table)} where name = 'Another'`).count,
      1,
      'changed meanwhile',
    );
  }
  await twice(`${base}/assistants/new`, {
    visibility: 'company',
    name: 'Twice',
    system_prompt: 'Be kind.',
  });
  t.equal(await count('assistants'), 3, 'a script sends no id');

  const page = `${base}/tokens`;
  const fields = { ...(await fieldsOf(operator, page)), name: 'Twice', access: 'read' };
  const sent = await Promise.all([operator.post(page, fields), operator.post(page, fields)]);
  const [shown, refused] = sent.sort((a, b) => a.status - b.status);
  t.match(shown, { status: 200, text: /tga-[a-z2-7]{32}/ });
  t.match(refused, { status: 422, text: /This form was sent twice/ });
  t.equal(await count('admin_tokens'), 1);
  t.equal(
    (await operator.post(page, { ...fieldsIn(refused?.text ?? '', page), access: 'read' })).status,
    200,
  );
  t.equal(await count('admin_tokens'), 2, 'sent again from there it creates another');
});

t.test('a removal that is sent twice is told as done', async (t) => {
  const { sql } = office;
  const one = async (rows: PromiseLike<readonly { id: string }[]>) => (await rows)[0]?.id as string;
  const assistant = await one(sql`
    insert into assistants (company_id, name, system_prompt, visibility) values (${company}, 'Gone', 'Be kind.', 'company') returning id`);
  const model = (slug: string) =>
    one(sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values (${slug}, 'internal', 'chat', true, 1, 2) returning id`);
  const user = (email: string) =>
    one(
      sql`insert into users (email, company_id, role) values (${email}, ${company}, 'member') returning id`,
    );
  const invitation = await one(sql`
    insert into invitations (company_id, email, role, digest, created_by, expires_at)
    values (${company}, 'gone@customer.example', 'member', sha256('gone'), 'cli', now() + interval '1 day') returning id`);
  const [kept, gone] = [await model('priced'), await model('gone')];
  const price = await one(sql`
    insert into model_prices (slug, valid_from, input, output) values ('priced', '2099-01-01', 7, 8) returning id`);
  const cost = await one(sql`
    insert into model_cost_prices (slug, valid_from, input, output) values ('priced', '2026-01-01', 1, 1) returning id`);
  for (const path of [
    `${base}/assistants/${assistant}/remove`,
    `${base}/users/${await user('gone@people.example')}/remove`,
    `${base}/invitations/${invitation}/withdraw`,
    `/users/${await user('gone@users.example')}/remove`,
    `/models/${kept}/prices/${price}/withdraw`,
    `/models/${kept}/costs/${cost}/remove`,
    `/models/${gone}/remove`,
  ]) {
    const answers = [
      ...(await Promise.all([operator.post(path), operator.post(path)])),
      await operator.post(path),
    ];
    t.same([...new Set(answers.map(({ status }) => status))], [303], path);
    t.equal(new Set(answers.map(({ headers }) => headers.get('location'))).size, 1);
    t.match(answers[0]?.headers.get('location'), /\?done=(removed|withdrawn|price-withdrawn)$/);
  }
  t.equal((await sql`select from models where id = ${gone}`).count, 0);
});

t.test('of two who save at once, the second is asked', async (t) => {
  const settings = `${base}/settings`;
  const people = await Promise.all(
    [owner, operator].map(async (person) => [person, await fieldsOf(person, settings)] as const),
  );
  for (let i = 1; i <= 5; i++) {
    const seen = (await fieldsOf(owner, settings)).seen as string;
    const sent = people.map(([person, fields], at) =>
      person.post(settings, { ...fields, seen, budget: `${i}00${at + 1}` }),
    );
    const statuses = (await Promise.all(sent)).map(({ status }) => status);
    t.same(statuses.sort(), [303, 409]);
  }
});

t.test('what the form does not edit, or does not change, needs no question', async (t) => {
  const settings = `${base}/settings`;
  const mine = await fieldsOf(owner, settings);
  await office.sql`update companies set requests_per_minute = 100 where id = ${company}`;
  t.equal((await owner.post(settings, mine)).status, 303, 'limits are another form');
  const other = await fieldsOf(owner, settings);
  await office.sql`update companies set monthly_budget_eur = 77 where id = ${company}`;
  t.equal(
    (await owner.post(settings, { ...other, budget: '77.00' })).status,
    303,
    'both want the same',
  );
  t.equal(
    (await owner.post(settings, { csrf: mine.csrf ?? '', budget: '78' })).status,
    303,
    'a script sends no digest',
  );
});

t.test('limits, names, keys, models and assistants notice it, too', async (t) => {
  const [key] = await office.sql`select id from api_keys where company_id = ${company} limit 1`;
  const [model] = await office.sql`select id from models where company_id is null limit 1`;
  const [assistant] = await office.sql`
    insert into assistants (company_id, name, system_prompt) values (${company}, 'Old', 'Be brief.') returning id`;
  for (const [person, page, action, change, fields, yours] of [
    [
      operator,
      `${base}/settings`,
      `${base}/limits`,
      office.sql`update companies set max_concurrent = 9 where id = ${company}`,
      { max_concurrent: '3' },
      '3',
    ],
    [
      operator,
      `${base}/settings`,
      `${base}/name`,
      office.sql`update companies set name = 'Theirs' where id = ${company}`,
      { name: 'Mine' },
      'Mine',
    ],
    [
      owner,
      `${base}/keys/${key?.id}`,
      undefined,
      office.sql`update api_keys set max_concurrent = 9 where id = ${key?.id}`,
      { name: 'Mine', scope: 'chat' },
      'none',
    ],
    [
      operator,
      `/models/${model?.id}`,
      undefined,
      office.sql`update models set cost_eur_per_1k_input = 9 where id = ${model?.id}`,
      { upstream: 'mine' },
      'mine',
    ],
    [
      owner,
      `${base}/assistants/${assistant?.id}`,
      undefined,
      office.sql`update assistants set name = 'Theirs' where id = ${assistant?.id}`,
      { name: 'Mine', system_prompt: 'Be brief.', visibility: 'company' },
      'Mine',
    ],
  ] as const) {
    const seen = { kind: 'chat', ...(await fieldsOf(person, page, action)) };
    await change;
    const { status, text } = await person.post(action ?? page, { ...seen, ...fields });
    t.equal(status, 409, action ?? page);
    t.match(text, yours);
    const confirmed = answerIn(text);
    t.equal(
      (await person.post(action ?? page, { ...seen, ...fields, confirmed })).status,
      303,
      'saved anyway',
    );
  }
});

t.test('a budget below what is spent asks; other changes do not', async (t) => {
  const { company, key } = await spender();
  const settings = `/companies/${company}/settings`;
  const send = async (page: string, fields: Record<string, string | string[]>) =>
    operator.post(page, { csrf: await operator.csrf(), ...fields });
  const asked = await send(settings, { budget: '12.5' });
  t.equal(asked.status, 409);
  t.match(asked.text, /has spent .*€12\.50.* calls get 402 at once/s);
  const fields = { ...fieldsIn(asked.text, settings), confirmed: 'monthly budget 12.5' };
  t.equal(
    (await send(settings, { ...fields, budget: '12' })).status,
    409,
    'another amount is another question',
  );
  t.equal((await send(settings, fields)).status, 303);
  t.equal(
    (await send(settings, { budget: '12.50', allow_non_eu: 'true' })).status,
    303,
    'it is the same budget',
  );
  t.equal(
    (await send(settings, { budget: '12.500000000000001' })).status,
    303,
    'more than is spent',
  );
  t.equal((await send(settings, { budget: '0' })).status, 303, 'unlimited');
  const page = `/companies/${company}/keys/${key}`;
  const ofKey = await send(page, { name: 'Spender', scope: 'chat', budget: '1' });
  t.equal(ofKey.status, 409);
  t.match(ofKey.text, /The key .* has spent .*€2\.50/s, 'its own calls only');
  t.equal((await send(page, { name: 'Spender', scope: 'chat', budget: '3' })).status, 303);
});

t.test('a form that is sent after the session ended comes back to its user', async (t) => {
  const person = await signedIn(office, 'owner');
  const action = `${base}/keys/create`;
  const fields = await fieldsOf(person, `${base}/keys`, action);
  const typed = {
    ...fields,
    name: 'Half an hour of “thinking”\r\n&amp;',
    scope: ['chat', 'embeddings'],
    language: 'de-DE',
    budget: '1,5',
  };
  await end(person);
  const ended = await person.post(action, {
    ...typed,
    csrf: fields.csrf ?? '',
    password: 'a secret',
    secret: 'password',
  });
  t.equal(ended.status, 401);
  t.match(ended.text, 'Your session ended. Sign in to go on; what you typed is kept.');
  t.match(ended.text, 'value="Half an hour of “thinking”\r\n&amp;amp;"');
  t.notMatch(ended.text, 'a secret', 'passwords are not kept');
  t.notMatch(ended.text, fields.csrf as string);
  const wrong = await person.post(action, {
    ...typed,
    'sign-in.email': office.people.owner,
    'sign-in.password': 'wrong',
  });
  t.equal(wrong.status, 401);
  t.match(wrong.text, 'Half an hour');
  t.match(wrong.text, 'The e-mail address or the password is wrong.');
  t.match(wrong.text, '<title>Error: Sign in');
  t.notMatch(wrong.text, 'value="wrong"');

  const other = new Person(office.adminUrl);
  const credentials = (email: string) => ({
    'sign-in.email': email,
    'sign-in.password': 'correct horse battery staple',
  });
  const stranger = await other.post(action, { ...typed, ...credentials(office.people.operator) });
  t.equal(stranger.headers.get('location'), '/', 'another user does not get the text');
  t.equal(stranger.text, '');

  const back = await person.post(action, { ...typed, ...credentials(office.people.owner) });
  t.equal(back.status, 200);
  t.match(back.text, /Nothing is saved yet/);
  t.match(back.text, 'Half an hour of “thinking”');
  t.match(back.text, /value="embeddings" checked/);
  t.match(back.text, 'value="1,5"');
  t.equal(
    (await office.sql`select from api_keys where name like 'Half%'`).length,
    0,
    'nothing is executed',
  );
  const now = fieldsIn(back.text, action);
  t.equal(now.language, 'de-DE', 'numbers are still in the language that they were typed in');
  t.equal((await person.post(action, { ...now, name: 'Thought', scope: ['chat'] })).status, 200);
  const [key] = await office.sql`select monthly_budget_eur from api_keys where name = 'Thought'`;
  t.equal(key?.monthly_budget_eur, '1.5');
});

t.test(
  'a form of the same user’s former session is shown again, that of another user is not',
  async (t) => {
    const person = await signedIn(office, 'owner');
    const action = `${base}/settings`;
    const fields = await fieldsOf(person, action);
    await person.signIn(office.people.owner);
    const shown = await person.post(action, { ...fields, budget: '4321' });
    t.equal(shown.status, 200);
    t.match(shown.text, 'value="4321"');
    t.not((await stored())?.monthly_budget_eur, '4321');
    t.equal((await operator.post(action, { ...fields, budget: '4321' })).status, 403);
  },
);

/** The page that an address is of; undefined: there is none. */
const pageAt = (address: URL) =>
  ROUTES.find(
    ({ method, path }) =>
      method === 'GET' &&
      new URLPattern({ pathname: path }).test(address.origin + address.pathname),
  );

t.test(
  'a button of the same user’s former session leads to the page that has it, or to the nearest one',
  async (t) => {
    const { user = '' } = await fieldsOf(operator, '/account', '/account/password');
    const buttons = ROUTES.filter(
      ({ method, page, path }) => method === 'POST' && !page && !path.includes('/own/'),
    );
    t.ok(buttons.length > 10);
    for (const { path } of buttons) {
      const { status, headers } = await operator.post(path.replaceAll(/:\w+/g, company), {
        csrf: 'former',
        user,
      });
      t.equal(status, 303, path);
      t.ok(pageAt(new URL(headers.get('location') as string, office.adminUrl)), path);
    }
  },
);

t.test(
  'links of a page that is shown again, from the address of its form, lead to pages',
  async (t) => {
    const [ids] = await office.sql`
    select (select id from api_keys where company_id = ${company} and revoked_at is null limit 1) as key,
      (select id from models where company_id is null limit 1) as model, (select id from users where role = 'member') as user`;
    const forms = ROUTES.filter(
      ({ method, page, path }) => method === 'POST' && page && !path.includes('/own/'),
    );
    for (const { path } of forms) {
      const action = path.replaceAll(/:(\w+)/g, (_, name) => ids?.[name] ?? company);
      const { text } = await operator.post(action, { step: 'show', name: 'Marketing' });
      const relative = [...text.matchAll(/<a [^>]*href="([?\w-][^":]*)"/g)].map(
        ([, href]) => href as string,
      );
      const lost = relative.filter((href) => !pageAt(new URL(href, office.adminUrl + action)));
      t.same(lost, [], path);
    }
  },
);

t.test('a budget of 0 is told to be unlimited where it is typed: it stops nothing', async (t) => {
  const action = `${base}/keys/create`;
  const fields = await fieldsOf(owner, `${base}/keys`, action);
  await owner.post(action, { ...fields, name: 'Nothing to spend', scope: 'chat', budget: '0' });
  const [key] =
    await office.sql`select id, monthly_budget_eur::text as budget from api_keys where name = 'Nothing to spend'`;
  t.equal(Number(key?.budget), 0);
  const hint = /empty or 0 for unlimited/;
  t.match((await owner.get(`${base}/keys/${key?.id}`)).text, hint);
  t.match((await owner.get(`${base}/settings`)).text, hint);
  await office.sql`update companies set credit_limit_eur = 10 where id = ${company}`;
  const { text } = await owner.get(`${base}/settings`);
  t.equal(
    text.split('at most €10.00, which also applies when this is empty or 0').length,
    2,
    'of the month alone',
  );
  t.match(text, /Once a calendar day has cost that much, calls are refused/);
  await office.sql`update companies set credit_limit_eur = null where id = ${company}`;
});

t.test(
  'a form that the database could not take is sent again as it was, and done once',
  async (t) => {
    const owner = await signedIn(office, 'owner');
    const path = `${base}/assistants/new`;
    const typed = {
      name: 'Patient',
      system_prompt: 'Be "brief".\nAnd <kind>.',
      visibility: 'company',
    };
    const fields = { ...(await fieldsOf(owner, path)), ...typed };
    const { status, text } = await office.sql.begin(async (sql) => {
      await sql`lock table assistants in access exclusive mode`;
      return owner.post(path, fields);
    });
    t.match(
      { status, text },
      { status: 503, text: /did not answer in time.*What you typed is kept/s },
    );
    const kept = fieldsIn(text, path);
    t.same(Object.keys(kept).sort(), Object.keys(fields).sort(), 'its token and its id too');
    t.equal(kept.system_prompt, 'Be &quot;brief&quot;.\nAnd &lt;kind&gt;.');
    t.equal(
      (await owner.post(path, { ...kept, ...typed })).headers.get('location'),
      `${base}/assistants?done=created`,
    );
    t.equal((await office.sql`select from assistants where name = 'Patient'`).length, 1);
  },
);

t.test('the last day of a key is not over', async (t) => {
  const owner = await signedIn(office, 'owner');
  const action = `${base}/keys/create`;
  const fields = {
    ...(await fieldsOf(owner, `${base}/keys`, action)),
    name: 'Late',
    scope: 'chat',
  };
  const { status, text } = await owner.post(action, { ...fields, expires: '2020-01-31' });
  t.match(
    { status, text },
    {
      status: 422,
      text: /aria-describedby="[^"]*f-expires-wrong".*>Last day must be today or later\.</s,
    },
  );
});

t.test(
  'a page whose session ended is reached again with its whole address, and no other site',
  async (t) => {
    const person = await signedIn(office, 'owner');
    await end(person);
    const { headers } = await person.get(`${base}/keys?q=a%20%22b%22&sort=-created&page=2`);
    const to = new URL(headers.get('location') as string, office.adminUrl);
    t.equal(to.pathname, '/sign-in');
    t.match(
      (await person.get(to.pathname + to.search)).text,
      'Your session ended. Sign in to go on.',
    );
    const next = to.searchParams.get('next') as string;
    const signIn = (next: string) =>
      person.post('/sign-in', {
        next,
        email: office.people.owner,
        password: 'correct horse battery staple',
      });
    t.equal(
      (await signIn(next)).headers.get('location'),
      `${base}/keys?q=a%20%22b%22&sort=-created&page=2`,
    );
    for (const evil of [
      'https://evil.example',
      '//evil.example',
      '/\\evil.example',
      '/\t/evil.example',
      '\\\\evil.example',
      'evil.example',
      '/%0d%0aset-cookie:x\r\n',
      '/a\r\nset-cookie: x',
      'javascript:alert(1)',
      `/${'x'.repeat(9000)}`,
      '/.//evil.example',
      '@evil.example',
    ]) {
      const { headers, status } = await signIn(evil);
      if (status === 413) continue;
      const location = headers.get('location') as string;
      t.equal(new URL(location, office.adminUrl).origin, new URL(office.adminUrl).origin, evil);
      t.ok(!location.includes('evil'), evil);
    }
  },
);

t.test('a NUL in whatever field is refused with the form', async (t) => {
  const filled = { email: 'new@customer.example', role: 'owner', company };
  for (const name of ['email', 'company', 'password']) {
    const { status, text } = await operator.post('/users', {
      ...filled,
      [name]: 'a\0b@customer.example',
    });
    t.equal(status, 422, name);
    t.match(text, 'must not hold NUL characters', name);
  }
});

t.test('everything that ends something asks on a page of its own', async (t) => {
  const pages = new Set(ROUTES.filter(({ method }) => method === 'GET').map(({ path }) => path));
  const ending = ROUTES.filter(
    ({ method, path }) =>
      method === 'POST' && /\/(remove|revoke|rotate|close|end|delete)$/.test(path),
  );
  t.ok(ending.length >= 4);
  for (const { path } of ending) t.ok(pages.has(path), path);
});

t.test('the first refused field has the focus, and folded ones are open', async (t) => {
  const { text, status } = await owner.post(`${base}/keys/create`, {
    name: 'x',
    scope: 'chat',
    cidrs: 'nowhere',
    max_concurrent: '0',
  });
  t.equal(status, 422);
  t.match(text, /<title>Error: Keys/);
  t.match(text, /<details class="fold" open>/);
  t.equal(text.split(' autofocus').length, 2, 'one alone');
  t.match(
    text,
    /<input id="f-max_concurrent"[^>]* aria-invalid="true" autofocus aria-describedby="f-max_concurrent-wrong">/,
  );
});

async function end(person: Person): Promise<void> {
  const token = person.cookies.get('tollgate') as string;
  await office.sql`update sessions set last_seen_at = now() - interval '3 hours' where digest = sha256(${token}::bytea)`;
}

/** What the button of a question sends. */
function answerIn(text: string): string {
  return /<button[^>]* name="confirmed" value="([^"]+)"/.exec(text)?.[1] ?? '';
}

/** A company that spent 12.50 EUR this month, 2.50 of it with a key. */
async function spender() {
  const { company } = await office.newCustomer();
  const [key] = await office.sql`select id from api_keys where company_id = ${company}`;
  await office.sql`
    insert into monthly_spend (company_id, billing_month, api_cost_eur, chat_cost_eur)
    values (${company}, billing_month(now()), 2.5, 10) on conflict (company_id, billing_month) do update
    set api_cost_eur = 2.5, chat_cost_eur = 10`;
  await office.sql`
    insert into usage_daily values (${company}, billing_month(now()), billing_month(now()), 'swift', ${key?.id as string},
      'chat.completions', 'upstream', 'completed', 1, 10, 10, 2.5)`;
  await office.sql`
    insert into usage_key_months
    select company_id, billing_month, api_key_id, endpoint, cost_center, requests, prompt_tokens, completion_tokens, cost_eur, 0, 0
    from usage_daily where company_id = ${company}`;
  return { company, key: key?.id as string };
}
