import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import { type Person, signedIn, startOffice } from '../people.ts';

/** Keys on the access page: made once, shown again for a minute, replaced, and found in a text. */

const office = await startOffice(t);
const { sql } = office;
const { company } = office.customer;
const other = await office.newCustomer();
const base = `/companies/${company}/keys`;
const owner = await signedIn(office, 'owner');
const operator = await signedIn(office, 'operator');
const KEY = /svc_[a-z2-7]{32}/;

/** The hidden fields of a form that makes a key. */
const once = () => ({ id: randomUUID(), claim: randomBytes(32).toString('base64url') });
const shownIn = (text: string) => KEY.exec(text)?.[0];
const age = () => sql`update key_reveals set expires_at = now()`;
const prefixOf = (key: string) => key.slice(0, 8);

async function create(name: string, person: Person = owner) {
  const form = { ...once(), name, scope: 'chat' };
  const { status, text } = await person.post(`${base}/create`, form);
  return { form, status, key: shownIn(text) as string };
}

t.test('the same form shows the same key for a minute, and then says that it cannot', async (t) => {
  const { form, status, key } = await create('Twice');
  t.equal(status, 200);
  const again = await owner.post(`${base}/create`, form);
  t.equal(again.status, 200);
  t.equal(shownIn(again.text), key);
  t.equal((await sql`select from api_keys where name = 'Twice'`).length, 1);
  await age();
  const late = await owner.post(`${base}/create`, form);
  t.equal(late.status, 410);
  t.match(late.text, /can no longer be shown.*Twice.*Replace the key/s);
  t.notMatch(late.text, KEY);
  const replaced = await owner.post(`${base}/${form.id}/rotate`, { ...once(), overlap: '0' });
  t.match(replaced.text, /old key <code>svc_....…<\/code> has stopped working/);
  t.match(replaced.text, KEY);
});

t.test('two clicks at once make one key, and both answers show it', async (t) => {
  const form = { ...once(), name: 'Double click', scope: 'chat' };
  const csrf = await owner.csrf();
  const answers = await Promise.all(
    [1, 2].map(() => owner.post(`${base}/create`, { csrf, ...form })),
  );
  const keys = answers.map(({ text }) => shownIn(text));
  t.match(keys[0], KEY);
  t.equal(keys[0], keys[1]);
  t.equal((await sql`select from api_keys where name = 'Double click'`).length, 1);
});

t.test(
  'another session gets no text, not even of the same user, and another company no key',
  async (t) => {
    const { form } = await create('Mine');
    for (const person of [
      await signedIn(office, 'owner'),
      await signedIn(office, 'administrator'),
      operator,
    ]) {
      const { status, text } = await person.post(`${base}/create`, form);
      t.equal(status, 410);
      t.notMatch(text, KEY);
    }
    const elsewhere = await operator.post(`/companies/${other.company}/keys/create`, form);
    t.equal(elsewhere.status, 422);
    t.notMatch(elsewhere.text, KEY);
  },
);

t.test('a form without its hidden fields is refused', async (t) => {
  for (const left of ['id', 'claim']) {
    const { [left as 'id']: _, ...form } = { ...once(), name: 'Incomplete', scope: 'chat' };
    t.equal((await owner.post(`${base}/create`, form)).status, 422);
  }
  t.equal(
    (await owner.post(`${base}/create`, { ...once(), claim: 'short', name: 'x', scope: 'chat' }))
      .status,
    422,
  );
  t.equal((await sql`select from api_keys where name = 'Incomplete'`).length, 0);
});

t.test(
  'a reload after a leaked key was replaced shows the new one, and stops nothing else',
  async (t) => {
    const { form, key } = await create('Leaked');
    const rotation = { ...once(), overlap: '0' };
    const path = `${base}/${form.id}/rotate`;
    const first = await owner.post(path, rotation);
    t.match(first.text, 'has stopped working');
    t.not(shownIn(first.text), key);
    const again = await owner.post(path, rotation);
    t.equal(again.status, 200);
    t.equal(shownIn(again.text), shownIn(first.text));
    t.equal(
      (await owner.post(path, { ...once(), overlap: '0' })).status,
      422,
      'another form finds a revoked key',
    );
    t.equal(
      (await sql`select from api_keys where name = 'Leaked' and revoked_at is null`).length,
      1,
    );
    t.equal((await owner.post(path, { ...once(), overlap: '5' })).status, 422);
  },
);

t.test(
  'the page of a key tells its history and leads to what ends it; a revoked key has no form',
  async (t) => {
    const { form } = await create('Opened');
    const path = `${base}/${form.id}`;
    const open = (await owner.get(path)).text;
    t.match(open, new RegExp(`active</span> Created .* by ${office.people.owner}, never used\\.`));
    t.match(open, `href="${path}/rotate"`);
    t.match(open, `href="${path}/revoke"`);
    for (const list of ['requests', 'usage'])
      t.match(open, `href="/companies/${company}/${list}?key=${form.id}"`);
    await owner.post(`${path}/revoke`);
    const revoked = (await owner.get(path)).text;
    t.match(revoked, /<h1>Key Opened .*revoked<\/span> Created .*, revoked /s);
    t.match(
      revoked,
      /No attempt with it is known since\. What became of each request is kept for 7 days/,
    );
    t.notMatch(open, /attempt/);
    t.notMatch(revoked, /Save key|\/rotate"|\/revoke"/);
    const late = await owner.post(path, { name: 'Other', scope: 'chat' });
    t.match(late.text, /role="alert"[^>]*>[^<]*revoked/, 'who saves after that is told so');
    const requests = await owner.get(`/companies/${company}/requests?key=${form.id}`);
    t.match(
      requests.text,
      `Of the key <a href="${path}">Opened</a>`,
      'a key without requests has its name too',
    );

    await sql`insert into api_keys (company_id, name, digest, prefix, scopes, purpose, created_by)
    values (${company}, 'Trials', sha256('trials'), 'svc_play', '{chat}', 'playground', 'p@customer.example')`;
    const [{ id }] = await sql<[{ id: string }]>`select id from api_keys where name = 'Trials'`;
    const playground = (await owner.get(`${base}/${id}`)).text;
    t.match(playground, `${id}/revoke"`);
    t.notMatch(playground, `${id}/rotate"`, 'its text is never shown');
    await sql`delete from api_keys where id = ${id}`;
  },
);

t.test(
  "the key of a user's playground gets limits on its page, and no other name or scopes",
  async (t) => {
    const [key] = await sql<[{ id: string }]>`
    insert into api_keys (company_id, name, purpose, created_by, scopes, digest, prefix, expires_at)
    values (${company}, 'Playground of ada', 'playground', ${office.people.administrator}, '{chat,assistants}',
      sha256('trial'), 'svc_tria', now() + interval '10 minutes') returning id`;
    const { text } = await owner.get(`${base}/${key.id}`);
    t.match(text, '<input type="hidden" name="name" value="Playground of ada">');
    t.notMatch(text, 'type="checkbox" name="scope"');
    const post = async (name: string, max_concurrent: string) => {
      const page = (await owner.get(`${base}/${key.id}`)).text;
      const seen = /name="seen" value="([^"]*)"/.exec(page)?.[1] as string;
      return owner.post(`${base}/${key.id}`, {
        seen,
        name,
        scope: ['chat', 'assistants'],
        max_concurrent,
      });
    };
    t.equal((await post('Playground of ada', '2')).status, 303);
    const refused = await post('Mine', '3');
    t.equal(refused.status, 422);
    t.match(refused.text, /of a user(?:&#39;|’|')s playground/);
    t.match(await sql`select name, max_concurrent from api_keys where id = ${key.id}`, [
      { name: 'Playground of ada', max_concurrent: 2 },
    ]);
    await sql`delete from api_keys where id = ${key.id}`;
  },
);

t.test(
  'keys that work come first, the others are behind a filter that search and pages keep',
  async (t) => {
    const { form } = await create('Long gone');
    await owner.post(`${base}/${form.id}/revoke`);
    await sql`insert into api_keys (company_id, name, digest, prefix, scopes, expires_at)
    select ${company}, 'Ended ' || i, sha256(('ended ' || i)::bytea), 'svc_abcd', '{chat}', now() - interval '1 day'
    from generate_series(1, 60) as i`;
    const counted = await sql<[{ active: number; dead: number }]>`
    select count(*) filter (where revoked_at is null and coalesce(expires_at > now(), true))::int as active,
      count(*) filter (where revoked_at is not null or expires_at <= now())::int as dead from api_keys where company_id = ${company}`;
    const active = await owner.get(base);
    t.match(active.text, new RegExp(`aria-current="page">Active keys \\(${counted[0].active}\\)`));
    t.match(active.text, `href="${base}?state=dead">Revoked and expired (${counted[0].dead})`);
    t.notMatch(active.text, /Long gone|Ended 1/);
    t.ok(active.text.indexOf('Create a key') < active.text.indexOf('<table'), 'creating is on top');
    const dead = await owner.get(`${base}?state=dead&q=ended&sort=name`);
    t.match(dead.text, 'Ended 10');
    t.notMatch(dead.text, /Double click/);
    t.match(dead.text, '<input type="hidden" name="state" value="dead">');
    const next = /rel="next" href="([^"]+)"/
      .exec(dead.text)?.[1]
      ?.replaceAll('&amp;', '&') as string;
    t.match((await owner.get(next)).text, /Ended 9/);
    t.match(
      (await owner.get(`${base}?state=dead&q=Long+gone`)).text,
      new RegExp(`<a href="${base}/${form.id}">Long gone</a>.*revoked`, 's'),
    );
  },
);

t.test('the form is open for the first key, and after a refusal', async (t) => {
  const fresh = await office.company();
  const of = `/companies/${fresh}/keys`;
  const isOpen = (text: string) => /<details class="card create" id="create" open>/.test(text);
  t.ok(isOpen((await operator.get(of)).text));
  const refused = await operator.post(`${of}/create`, { ...once(), name: '', scope: 'chat' });
  t.ok(isOpen(refused.text));
  t.notOk(isOpen((await owner.get(base)).text));
});

const find = (person: Person, path: string, text: string) => person.post(path, { text });

t.test('an owner finds own keys in a text, and no others', async (t) => {
  const { form, key } = await create('In a log');
  for (const text of [
    key,
    `2026-11-22 GET /v1/models authorization="Bearer ${key}" ${other.key}\r\n`,
  ]) {
    const { status, text: answer } = await find(owner, `${base}/find`, text);
    t.equal(status, 200);
    t.match(answer, 'One key was found');
    t.match(answer, /In a log.*active.*never.*Stop it and create a new one/s);
    t.match(answer, `href="${base}/${form.id}"`);
    t.match(answer, `${base}/${form.id}/rotate`);
    t.match(answer, `${base}/${form.id}/revoke`);
    t.notMatch(answer, KEY, 'the field comes back empty');
    t.notMatch(answer, '2026-11-22');
  }
  const foreign = await find(owner, `${base}/find`, other.key);
  t.match(foreign.text, '1 part of the text may be a key: none of them is a key of this company.');
  t.notMatch(foreign.text, prefixOf(other.key));
  t.match(
    (await find(owner, `${base}/find`, 'nothing like one')).text,
    'Nothing in the text has the form of a key.',
  );
  for (const beginning of [prefixOf(key), ` ${prefixOf(key).toUpperCase()}… `])
    t.match(
      (await find(owner, `${base}/find`, beginning)).text,
      `${base}/${form.id}`,
      'its beginning is enough',
    );
  t.notMatch((await find(owner, `${base}/find`, prefixOf(other.key))).text, 'was found');
  await owner.post(`${base}/${form.id}/revoke`);
  t.match((await find(owner, `${base}/find`, key)).text, /revoked.*none: it no longer works/s);
});

t.test('an operator finds keys of all companies; owners and administrators may not', async (t) => {
  const { text } = await find(operator, '/keys', `${other.key}\n${office.customer.key}`);
  t.match(text, '2 keys were found');
  t.match(text, `/companies/${other.company}/keys`);
  t.match(text, 'Nordlicht Verlag');
  t.equal((await find(owner, '/keys', other.key)).status, 403);
  t.equal((await owner.get('/keys')).status, 403);
  t.equal((await find(owner, `/companies/${other.company}/keys/find`, other.key)).status, 404);
});

t.test('too many parts are refused without a word of them; an empty text is missing', async (t) => {
  const word = (i: number) =>
    `abcd_${i.toString(2).padStart(32, 'a').replaceAll('0', 'b').replaceAll('1', 'c')}`;
  const many = Array.from({ length: 1001 }, (_, i) => word(i)).join(' ');
  const { status, text } = await find(owner, `${base}/find`, many);
  t.equal(status, 422);
  t.match(text, 'Key or text has more than 1000 parts that may be keys: send less of it.');
  t.notMatch(text, 'abcd_');
  t.match((await find(owner, `${base}/find`, '')).text, 'Key or text is missing.');
});

t.test('keys with lists of 2 MiB together are not shown at once', async (t) => {
  const texts = Array.from(
    { length: 20 },
    (_, n) => `svc_${'a'.repeat(31)}${String.fromCharCode(97 + n)}`,
  );
  await office.sql`insert into api_keys (company_id, name, digest, prefix, scopes, allowed_model_slugs)
    select ${company}, 'Long', sha256(x::bytea), 'svc_aaaa', '{chat}', array(select repeat('a', 121) || m from generate_series(1000, 1999) m)
    from unnest(${texts}::text[]) x`;
  const { status, text } = await find(owner, `${base}/find`, texts.join(' '));
  t.equal(status, 422);
  t.match(text, 'more than 2 MiB: look for fewer at once');
  t.match((await find(owner, `${base}/find`, texts.slice(5).join(' '))).text, '15 keys were found');
});

t.test('no log and no metric has the text of a key', async (t) => {
  t.notMatch(office.logged.join(''), KEY);
  t.notMatch(await (await fetch(`${office.adminUrl}/metrics`)).text(), KEY);
});
