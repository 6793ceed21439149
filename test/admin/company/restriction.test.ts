import { randomUUID } from 'node:crypto';
import t from 'tap';
import { addUsage } from '../../support/usage.ts';
import { CHAT, EMBED, OVERSEAS } from '../../support/world.ts';
import { newToken, send } from '../api/tokens.ts';
import { signedIn, startOffice } from '../people.ts';

/** Limits of companies and keys, and what a key may do less than its company, as forms take and refuse them. */

const office = await startOffice(t);
const { sql } = office;
const company = office.customer.company;
const base = `/companies/${company}`;
const owner = await signedIn(office, 'owner');
const operator = await signedIn(office, 'operator');

const ASKED = {
  requests_per_minute: '60',
  tokens_per_minute: '1000000000000',
  max_concurrent: '1',
  budget: '9.50',
  model: [EMBED, CHAT, CHAT],
  cidrs: '2001:DB8:0::1\r\n\r\n 10.0.0.0/8\r\n2001:db8::1/128',
};
const STORED = {
  requests_per_minute: 60,
  tokens_per_minute: '1000000000000',
  max_concurrent: 1,
  monthly_budget_eur: '9.5',
  allowed_model_slugs: [CHAT, EMBED].sort(),
  cidrs: '{10.0.0.0/8,2001:db8::1/128}',
};
const NOTHING = {
  requests_per_minute: null,
  tokens_per_minute: null,
  max_concurrent: null,
  monthly_budget_eur: null,
  allowed_model_slugs: null,
  cidrs: null,
};
const EMPTY = {
  requests_per_minute: '',
  tokens_per_minute: '',
  max_concurrent: '',
  budget: '',
  cidrs: ' \r\n',
};

const SECRET = 's'.repeat(43);

/** Creates a key by the form. @returns its id and the answer */
async function create(fields: Record<string, string | string[]>) {
  const id = randomUUID();
  return {
    id,
    ...(await owner.post(`${base}/keys/create`, {
      id,
      claim: SECRET,
      name: 'form',
      scope: 'chat',
      ...fields,
    })),
  };
}

async function stored(id: string) {
  const [row] =
    await sql`select name, scopes, requests_per_minute, tokens_per_minute::text as tokens_per_minute, max_concurrent,
    trim_scale(monthly_budget_eur)::text as monthly_budget_eur, allowed_model_slugs, allowed_cidrs::text as cidrs from api_keys where id = ${id}`;
  return row;
}

function wrong(text: string): string[] {
  return [...text.matchAll(/<p class="wrong"[^>]*>(.*?)<\/p>/g)].map(([, message]) =>
    (message as string).replaceAll('&quot;', '"'),
  );
}

t.test('a key is created with limits and restrictions, edited, and freed of them', async (t) => {
  t.match(await stored((await create({})).id), NOTHING);
  t.match(await stored((await create(EMPTY)).id), NOTHING);
  const { id, status } = await create(ASKED);
  t.equal(status, 200);
  t.match(await stored(id), { ...STORED, name: 'form', scopes: ['chat'] });
  const path = `${base}/keys/${id}`;
  const edit = { name: 'edited', scope: ['embeddings', 'chat'] };
  t.equal((await owner.post(path, { ...edit, ...EMPTY, max_concurrent: '9' })).status, 303);
  t.match(await stored(id), { ...NOTHING, name: 'edited', scopes: edit.scope, max_concurrent: 9 });
  t.match((await owner.get(path)).text, 'value="9"');
});

t.test('a rotated key has all of the old one', async (t) => {
  const { id } = await create(ASKED);
  const new_id = randomUUID();
  t.equal(
    (await owner.post(`${base}/keys/${id}/rotate`, { id: new_id, claim: SECRET, overlap: '0' }))
      .status,
    200,
  );
  t.same(await stored(new_id), await stored(id));
});

t.test(
  'values that are no limit or network are refused in words, and what was typed is shown again',
  async (t) => {
    const { id } = await create(ASKED);
    const before = await stored(id);
    const numbers = ['0', '-1', '1e30', 'NaN', '1.5', 'ten'];
    const limits: [string, string, string[], string][] = [
      [
        'requests_per_minute',
        'Requests a minute',
        [...numbers, '1000000001'],
        'a whole number from 1 to 1000000000',
      ],
      [
        'tokens_per_minute',
        'Tokens a minute',
        [...numbers, '1000000000001'],
        'a whole number from 1 to 1000000000000',
      ],
      [
        'max_concurrent',
        'Calls at once',
        [...numbers, '1000001'],
        'a whole number from 1 to 1000000',
      ],
    ];
    const others: [string, string, string[], string][] = [
      [
        'budget',
        'Budget a month in EUR',
        ['-1', '1e30', 'NaN', 'ten'],
        'an amount in EUR such as 250 or 99.50, below 1e12',
      ],
      [
        'cidrs',
        'Networks',
        ['10.0.0.1/33', '::/129', 'here', '10.0.0.0/8, ::/0'],
        'a network such as 10.0.0.0/8 or 2001:db8::/32',
      ],
      [
        'cidrs',
        'Networks',
        ['::1\r\n10.0.0.1/8'],
        'the network 10.0.0.0/8 or the address 10.0.0.1/32, not "10.0.0.1/8"',
      ],
      [
        'cidrs',
        'Networks',
        ['::ffff:10.0.0.0/104'],
        'written as IPv4, 10.0.0.0/8, not "::ffff:10.0.0.0/104"',
      ],
    ];
    for (const [name, label, values, words] of [...limits, ...others]) {
      for (const value of values) {
        const forms = [
          owner.post(`${base}/keys/${id}`, { name: 'x', scope: 'chat', [name]: value }),
          create({ [name]: value }),
        ];
        if (limits.some(([limit]) => limit === name))
          forms.push(operator.post(`${base}/limits`, { [name]: value }));
        for (const { status, text } of await Promise.all(forms)) {
          t.equal(status, 422, `${name} ${value}`);
          t.equal(wrong(text).length, 1);
          t.match(wrong(text)[0], `${label} must be ${words}`);
          const shown = value.replaceAll('\r\n', '\n');
          t.ok(
            text
              .replaceAll('\r\n', '\n')
              .includes(name === 'cidrs' ? `>\n${shown}</textarea>` : `value="${shown}"`),
          );
          if (text.includes('<details'))
            t.match(text, '<details class="fold" open>', 'not folded over a mistake');
        }
      }
    }
    t.same(await stored(id), before);
    const [row] =
      await sql`select requests_per_minute, tokens_per_minute, max_concurrent from companies where id = ${company}`;
    t.same(row, { requests_per_minute: null, tokens_per_minute: null, max_concurrent: null });
  },
);

t.test(
  'a key may only be given models of the company, and keeps those that are gone',
  async (t) => {
    for (const slug of ['tpyo', 'a b', '']) {
      const { status, text } = await create({ model: [CHAT, slug] });
      if (slug === '') t.equal(status, 200, 'an empty line is none');
      else
        t.match(
          { status, wrong: wrong(text) },
          { status: 422, wrong: [/^Models must .*, not "(tpyo|a b)"\.$/] },
        );
    }
    const { id } = await create({ model: CHAT });
    await sql`update api_keys set allowed_model_slugs = ${['gone', OVERSEAS]} where id = ${id}`;
    const { text } = await owner.get(`${base}/keys/${id}`);
    t.match(text, /value="gone" checked><label [^>]*>gone \(not listed now\)/);
    t.match(
      text,
      new RegExp(`value="${OVERSEAS}" checked><label [^>]*>${OVERSEAS} \\(not listed now\\)`),
      'the EU gate',
    );
    t.match(text, new RegExp(`value="${CHAT}"><label [^>]*>${CHAT}<`));
    const edit = (model: string[]) =>
      owner.post(`${base}/keys/${id}`, { name: 'x', scope: 'chat', model });
    t.equal((await edit(['gone', CHAT])).status, 303);
    t.match(await stored(id), { allowed_model_slugs: [CHAT, 'gone'].sort() });
    t.equal((await edit([OVERSEAS])).status, 303, 'the gate may open again');
    t.match(wrong((await edit(['gone'])).text), [
      /^Models must be one of the company’s models, not "gone"\.$/,
    ]);
  },
);

t.test(
  'only a model of the company is disabled: the list of them, which every gateway reads, does not grow without end',
  async (t) => {
    const disabled = async () =>
      (await sql`select disabled_model_slugs as slugs from companies where id = ${company}`)[0]
        ?.slugs;
    const before = await disabled();
    const refused = await owner.post(`${base}/models/disable`, { slug: 'made-up' });
    t.match([refused.status, refused.text], [404, /The company has no model made-up/]);
    t.same(await disabled(), before);
    t.equal((await owner.post(`${base}/models/disable`, { slug: CHAT })).status, 303);
    t.equal((await owner.post(`${base}/models/enable`, { slug: CHAT })).status, 303);
    t.same(await disabled(), before);
  },
);

t.test('a revoked key and keys of others cannot be edited; a key needs a scope', async (t) => {
  const { id } = await create({});
  const noScope = await owner.post(`${base}/keys/${id}`, { name: 'x' });
  t.match(
    { ...noScope, wrong: wrong(noScope.text) },
    { status: 422, wrong: ['Scopes must be chosen, one at least.'] },
  );
  const other = await office.newCustomer();
  const [theirs] = await sql<
    [{ id: string }]
  >`select id from api_keys where company_id = ${other.company}`;
  for (const who of [owner, operator]) {
    t.equal((await who.get(`${base}/keys/${theirs.id}`)).status, 404);
    t.equal(
      (await who.post(`${base}/keys/${theirs.id}`, { name: 'x', scope: 'chat' })).status,
      404,
    );
  }
  await sql`update api_keys set revoked_at = now() where id = ${id}`;
  const { status, text } = await owner.post(`${base}/keys/${id}`, { name: 'x', scope: 'chat' });
  t.equal(status, 422);
  t.match(text, 'This key is revoked: create a new one instead.');
  t.match(await stored(id), { name: 'form' });
});

t.test('a budget of each end user needs calls that name them, at every face', async (t) => {
  const message = /needs calls that name their end user/;
  const refused = await create({ end_users: 'off', end_user_budget: '5' });
  t.equal(refused.status, 422);
  t.match(wrong(refused.text), [message]);
  const { id, status } = await create({ end_users: 'header', end_user_budget: '5' });
  t.equal(status, 200);
  const kept = async () =>
    (
      await sql`select end_users, trim_scale(end_user_budget_eur)::text as eur from api_keys where id = ${id}`
    )[0];
  t.same(await kept(), { end_users: 'header', eur: '5' });
  const form = { name: 'x', scope: 'chat', end_users: 'off', end_user_budget: '5' };
  t.match(
    wrong((await owner.post(`${base}/keys/${id}`, form)).text),
    [message],
    'neither is it left without them',
  );
  t.equal((await owner.post(`${base}/keys/${id}`, { ...form, end_user_budget: '' })).status, 303);
  t.same(await kept(), { end_users: 'off', eur: null });
  const token = await newToken(office, { company_id: company });
  const patch = ['PATCH', `${base}/keys/${id}`] as const;
  t.match(await send(office, token, patch, { end_user_budget_eur: '5' }), {
    status: 409,
    body: { errors: [{ pointer: '#/end_user_budget_eur', detail: message }] },
  });
  t.match(await send(office, token, patch, { end_users: 'body', end_user_budget_eur: '5' }), {
    body: { end_users: 'body', end_user_budget_eur: '5' },
  });
});

t.test('the page of a key tells what was spent of its budgets, those it has', async (t) => {
  const { id } = await create({ budget: '0.20', daily_budget: '0.08' });
  const now = new Date().toISOString();
  const month = `${now.slice(0, 7)}-01`;
  await addUsage(sql, [{ company, key: id, prompt: 1000, input: '0.08', month, at: now }]);
  const told = async (key: string) =>
    (await owner.get(`${base}/keys/${key}`)).text.replaceAll(/<[^>]*>/g, '');
  t.match(await told(id), 'This month €0.08 of the monthly budget of €0.20, 40%.');
  t.match(await told(id), 'Today €0.08 of the daily budget of €0.08, 100%. reached: calls get 402');
  const { id: other } = await create({});
  t.notMatch(await told(other), / of the (monthly|daily) budget of /);
});

t.test('company limits: operators set them, owners see them', async (t) => {
  const limits = {
    requests_per_minute: '1',
    tokens_per_minute: '1000000000000',
    max_concurrent: '',
  };
  t.equal((await owner.post(`${base}/limits`, limits)).status, 403);
  t.equal((await operator.post(`${base}/limits`, limits)).status, 303);
  const { text } = await owner.get(`${base}/settings`);
  t.match(text, 'All keys together: 1 request a minute, 1,000,000,000,000 tokens a minute.');
  t.notMatch(text, 'name="requests_per_minute"');
  t.equal((await owner.post(`${base}/settings`, { budget: '5' })).status, 303);
  const [row] =
    await sql`select requests_per_minute, max_concurrent from companies where id = ${company}`;
  t.same(row, { requests_per_minute: 1, max_concurrent: null }, 'a saved budget leaves them');
});
