import t from 'tap';
import { CHAT } from '../../support/world.ts';
import { type Page, Person, signedIn, startOffice, textOf } from '../people.ts';

const office = await startOffice(t, { BILLING_TIMEZONE: 'Europe/Berlin' });

t.test('days are those of the billing time zone, which times and the settings name', async (t) => {
  const operator = await signedIn(office, 'operator');
  const zone = 'Times, days and months are those of Europe/Berlin.';
  const { company } = office.customer;
  t.match((await operator.get(`/companies/${company}/settings`)).text, zone);
  const { text } = await operator.get('/audit');
  t.notMatch(text, zone);
  t.match(text, /<time datetime="[^"]+" title="Europe\/Berlin">/);
  await operator.post('/tokens', { name: 'Terraform', access: 'read', expires: '2099-07-31' });
  const [token] = await office.sql<
    [{ expires_at: Date }]
  >`select expires_at from admin_tokens where name = 'Terraform'`;
  t.equal(
    token.expires_at.toISOString(),
    '2099-07-31T22:00:00.000Z',
    'it works until the end of its last day',
  );
});
const { company } = office.customer;
const operator = await signedIn(office, 'operator');
const owner = await signedIn(office, 'owner');
const [model] = await office.sql`select id from models where slug = ${CHAT}`;
const path = `/models/${model?.id}`;

async function addOperator(email: string): Promise<Person> {
  await office.sql`insert into users (email, role, password_hash) select ${email}, role, password_hash from users where role = 'operator' limit 1`;
  const person = new Person(office.adminUrl);
  await person.signIn(email);
  return person;
}

t.test('prices are shown and entered in the unit of the reader, to the last digit', async (t) => {
  t.match(
    (await operator.get('/models')).text,
    /href="\/account#unit">EUR per 1,000,000 tokens.*>Input<\/th>/s,
  );
  t.match((await operator.get('/account?unit=1k')).text, /aria-current="true">EUR per 1000 tokens/);
  t.match((await operator.get('/models')).text, /#unit">EUR per 1000 tokens.*>Input<\/th>/s);
  t.match((await operator.get(path)).text, /name="input" type="text" value="0\.5"/, 'remembered');
  t.match(
    (await operator.get(`${path}?unit=1M`)).text,
    /name="input" type="text" value="500"/,
    '0.5 per 1000 is 500',
  );
  const fields = { upstream: 'internal-x', kind: 'chat', eu_hosted: 'true' };
  const saved = await operator.post(path, {
    ...fields,
    unit: '1M',
    input: '0.000000001',
    output: '999999999.999999999',
  });
  t.equal(saved.status, 303);
  const prices = () =>
    office.sql`select cost_eur_per_1k_input::text as input, cost_eur_per_1k_output::text as output from models where id = ${model?.id}`;
  t.same([...(await prices())], [{ input: '0.000000000001', output: '999999.999999999999' }]);
  t.match((await operator.get(path)).text, /value="0\.000000001".*value="999999999\.999999999"/s);
  t.match(
    (await operator.get(`${path}?unit=1k`)).text,
    /value="0\.000000000001".*value="999999\.999999999999"/s,
  );
  await operator.get('/models?unit=1M');
  await operator.post(path, { ...fields, input: '0.5', output: '1.5' });
  t.same(
    [...(await prices())],
    [{ input: '0.5', output: '1.5' }],
    'a form that was filled in per 1000 is read so',
  );
  const refused = await operator.post(path, {
    ...fields,
    unit: '1M',
    input: '1e3',
    output: '0.0000000001',
  });
  t.equal(refused.status, 422);
  t.match(
    textOf(refused),
    /EUR per 1,000,000 prompt tokens must be .* not "1e3"\. .*completion tokens must be .*9 decimals/,
  );
  await operator.get('/models?unit=1k');
});

t.test(
  'a price is scheduled for a day of the billing time zone, shown, and withdrawn',
  async (t) => {
    t.equal(
      (
        await operator.post(`${path}/prices`, {
          from: '2099-01-01',
          next_input: '7',
          next_output: '8',
        })
      ).status,
      303,
    );
    const [row] =
      await office.sql`select id, valid_from, changed_by from model_prices where slug = ${CHAT} and not applied`;
    t.match(row, {
      valid_from: new Date('2098-12-31T23:00:00Z'),
      changed_by: 'olga@tollgate.example',
    });
    const page = textOf(await operator.get(path));
    t.match(page, /to come 7|to come .*7\.00.*8\.00.*olga@tollgate\.example/);
    t.match(
      textOf(await owner.get(`/companies/${company}/models`)),
      /from .*2099.*7,000\.00/,
      'owners see what is to come',
    );
    t.notMatch((await owner.get(`/companies/${company}/models`)).text, /olga@/);
    const late = await operator.post(`${path}/prices`, {
      from: '2020-01-01',
      next_input: '7',
      next_output: '8',
    });
    t.equal(late.status, 422);
    t.match(textOf(late), /begins five seconds from now or later/);
    t.match(
      textOf(await operator.post(`${path}/prices`, { from: '31.12.2099', next_input: '-1' })),
      /Begins must be a time.*EUR must be EUR per 1000.*EUR is missing/,
    );
    const [, seen] =
      /withdraw">.*?name="seen" value="([^"]+)"/s.exec((await operator.get(path)).text) ?? [];
    await office.sql`update model_prices set output = 9 where id = ${row?.id}`;
    const stale = await operator.post(`${path}/prices/${row?.id}/withdraw`, { seen: seen ?? '' });
    t.match(
      [stale.status, textOf(stale)],
      [409, /is now 7 and 9 per 1000/],
      'another price than the page showed',
    );
    await office.sql`update model_prices set output = 8 where id = ${row?.id}`;
    t.equal(
      (await operator.post(`${path}/prices/${row?.id}/withdraw`, { seen: seen ?? '' })).status,
      303,
    );
    t.equal((await office.sql`select from model_prices where not applied`).length, 0);
    t.match(
      await office.sql`select action, actor from audit_log where subject = 'model_prices' order by id`,
      [
        { action: 'insert', actor: 'olga@tollgate.example' },
        { action: 'update' }, // by the test itself
        { action: 'update' },
        { action: 'delete', actor: 'olga@tollgate.example' },
      ],
    );
    t.match(textOf(await operator.get('/audit')), /removed price to come/);
  },
);

t.test(
  'a price takes the place of another one that somebody set for the same time after a question',
  async (t) => {
    const second = await addOperator('otto@tollgate.example');
    const answerIn = ({ text }: Page) => /name="confirmed" value="([^"]*)"/.exec(text)?.[1] ?? '';
    const at = { from: '2098-01-01', next_input: '7', next_output: '8' };
    const since = { since: '2019-01-01', cost_input: '7', cost_output: '8' };
    for (const [to, mine, theirs, stored] of [
      ['prices', at, { ...at, next_output: '9' }, 'model_prices where not applied'],
      ['costs', since, { ...since, cost_output: '9' }, 'model_cost_prices'],
    ] as const) {
      const form = `${path}/${to}`;
      const outputs = async () =>
        (await office.sql.unsafe(`select trim_scale(output)::text as output from ${stored}`)).map(
          ({ output }) => output,
        );
      t.equal((await operator.post(form, mine)).status, 303);
      const asked = await second.post(form, theirs);
      t.equal(asked.status, 409);
      t.match(
        textOf(asked),
        /it is €7\.00 and €8\.00 per 1000 .* set by olga@tollgate\.example *\. Yours, €7\.00 and €9\.00/,
      );
      t.same(await outputs(), ['8'], 'nothing is saved');
      const confirmed = answerIn(asked);
      t.equal((await second.post(form, { ...theirs, confirmed })).status, 303);
      t.same(await outputs(), ['9']);
      t.equal((await operator.post(form, theirs)).status, 303, 'the same is no replacement');
      const again = await operator.post(form, { ...mine, confirmed });
      t.equal(again.status, 409, 'an answer about other prices is none');
      t.match(
        await office.sql`select action, actor from audit_log where subject = ${stored.split(' ')[0] as string} order by id desc limit 2`,
        [
          { action: 'update', actor: 'otto@tollgate.example' },
          { action: 'insert', actor: 'olga@tollgate.example' },
        ],
      );
      await office.sql.unsafe(`delete from ${stored}`);
    }
  },
);

t.test('a field that takes nothing but a day is one of days', async (t) => {
  const { text } = await operator.get(path);
  t.match(text, /name="since" type="date"/);
  t.match(text, /name="from" type="datetime-local"/, 'a price may begin at a time too');
});

t.test('what the operator pays and the margin are for operators alone', async (t) => {
  await office.customer.chat();
  await office.customer.chat();
  await office.customer.embed();
  const rows = await office.ledger(company, 3);
  t.match(
    textOf(await operator.get('/margin')),
    /Revenue (?!.*unknown)/,
    'no column of what no cost price tells',
  );
  t.equal(
    (
      await operator.post(`${path}/costs`, {
        since: '2020-01-01',
        cost_input: '0.077',
        cost_output: '0.099',
      })
    ).status,
    303,
  );
  t.match(textOf(await operator.get(path)), /2020-01-01 .*0\.077 .*0\.099/);
  const margin = await operator.get('/margin');
  t.match(
    margin.text,
    /<span class="eur" title="€0\.\d{5,}">/,
    'four decimals are shown: points stand below each other',
  );
  const page = textOf(margin);
  t.match(page, /Without a cost price, and in the revenue alone: brand-embed/);
  t.match(
    margin.text,
    '<a href="/models?q=brand-embed"><code>brand-embed</code></a>',
    'where its cost price is set',
  );
  t.match(page, new RegExp(`${CHAT} 2 `));
  t.match(page, /Nordlicht Verlag/);
  const [, file = ''] = /href="([^"]+)" title="[^"]+" download>CSV</.exec(margin.text) ?? [];
  const csv = await operator.get(file);
  t.match(csv.headers.get('content-disposition'), /filename="margin-\d{4}-\d\d\.csv"/);
  t.match(
    csv.text,
    new RegExp(
      `^month,company_id,company_name,model,.*\\n.*,Nordlicht Verlag,${CHAT},2,0\\.\\d+,0\\.\\d{6},`,
      's',
    ),
    'exact',
  );
  t.equal((await (await signedIn(office, 'owner')).get(file)).status, 403);
  t.equal((await operator.get('/margin?month=2026-13')).status, 404);
  t.match(textOf(await operator.get('/margin?month=2020-01')), /No API calls in January 2020/);

  const seen: string[] = [];
  const of = `/companies/${company}`;
  const pages = [
    `${of}/usage`,
    `${of}/usage.csv`,
    `${of}/keys`,
    `${of}/models`,
    `${of}/assistants`,
    `${of}/settings`,
    '/account',
  ];
  for (const role of ['owner', 'administrator'] as const) {
    const person = role === 'owner' ? owner : await signedIn(office, role);
    for (const each of pages) {
      const { status, text } = await person.get(each);
      t.equal(status, 200, each);
      seen.push(text);
    }
    for (const each of ['/margin', path, '/models', '/demo/remove'])
      t.equal((await person.get(each)).status, 403, each);
  }
  t.notMatch(seen.join('\n'), /0\.077|0\.099|0,077|cost price|margin/i);
  t.equal(rows.length, 3);
  const [{ id }] = (await office.sql`select id from model_cost_prices`) as unknown as [
    { id: string },
  ];
  t.match((await operator.get(`${path}/costs/${id}/remove`)).text, /Remove this cost price\?/);
  t.equal((await operator.post(`${path}/costs/${id}/remove`)).status, 303);
  t.equal((await office.sql`select from model_cost_prices`).length, 0);
});

t.test('nothing of the demo is to remove where there is none', async (t) => {
  t.notMatch((await operator.get('/models')).text, /demo\/remove/);
  t.match(textOf(await operator.post('/demo/remove')), /There was nothing to remove/);
});
