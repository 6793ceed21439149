import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import { until } from '../../support/until.ts';
import { CHAT } from '../../support/world.ts';
import { type Person, signedIn, startOffice, textOf } from '../people.ts';

/** The pages of a member: own keys, as far as the company allows, and the playground. */

const office = await startOffice(t);
const { sql, people } = office;
const { company } = office.customer;
const base = `/companies/${company}`;
const keys = `${base}/own/keys`;
const owner = await signedIn(office, 'owner');
const member = await signedIn(office, 'member');
const KEY = /svc_[a-z2-7]{32}/;

const allow = async (fields: Record<string, string>) =>
  (await owner.post(`${base}/members`, { member_keys: '0', ...fields })).status;
const form = (fields: Record<string, string> = {}) => ({
  ...{ id: randomUUID(), claim: randomBytes(32).toString('base64url') },
  ...{ name: 'My notebook', scope: 'chat', ...fields },
});
const statusOf = async (key: string) =>
  (await fetch(`${office.url}/models`, { headers: { authorization: `Bearer ${key}` } })).status;
const mine = () => sql`
  select id, name, state from (select *, case when revoked_at is null then 'active' else 'revoked' end as state
    from api_keys where user_id = (select id from users where email = ${people.member})) k order by created_at`;

async function create(person: Person, fields: Record<string, string> = {}) {
  const sent = form(fields);
  const page = await person.post(`${keys}/create`, sent);
  return { ...page, id: sent.id, key: KEY.exec(page.text)?.[0] ?? '' };
}

t.test('what is not allowed is said, and refused', async (t) => {
  t.equal((await member.get('/')).headers.get('location'), keys, 'their first page');
  const page = textOf(await member.get(keys));
  t.match(page, /Members of your company cannot have keys\. Ask an owner/);
  t.notMatch(page, /Create a key|Playground|Settings|Models/);
  const { status, text } = await create(member);
  t.equal(status, 422);
  t.match(textOf(text), /Members of your company cannot have keys\./);
  t.equal((await member.get(`${base}/playground`)).status, 403);
  t.equal((await member.post(`${base}/playground`, { model: CHAT, prompt: 'x' })).status, 403);
  t.same(await mine(), []);
  for (const place of [
    '/usage',
    '/keys',
    '/requests',
    '/settings',
    '/users',
    '/models',
    '/usage.csv',
    '/ledger.csv',
  ])
    t.equal((await member.get(base + place)).status, 403, place);
  t.equal((await member.post(`${base}/members`, { member_keys: '9' })).status, 403);
});

t.test(
  'the owner allows keys with a budget: created, used, seen by both, rotated, renamed, revoked',
  async (t) => {
    t.equal(await allow({ member_keys: '2', member_budget: '12.50' }), 303);
    t.match(
      textOf(await member.get(keys)),
      /You have 0 of 2 active keys that you may have; each may spend at most €12.50/,
    );
    const refused = await create(member, { budget: '13' });
    t.equal(refused.status, 422);
    t.match(textOf(refused), /Budget a month in EUR must be at most 12\.5, which the owners/);
    const made = await create(member);
    t.equal(made.status, 200);
    t.equal(await statusOf(made.key), 200);
    t.notMatch((await member.get(keys)).text, KEY, 'shown once');
    t.match(
      textOf(await member.get(`${keys}/${made.id}`)),
      /For: Chat completions\. Limited to: €12\.50 a month\./,
    );
    t.match(
      textOf(await owner.get(`${base}/keys`)),
      new RegExp(`My notebook svc_.{0,8}… .* personal ${people.member}`),
    );
    t.match(
      textOf(await owner.get(`${base}/keys/${made.id}`)),
      `It is a key of ${people.member}, and ends with this user.`,
    );
    t.match(textOf(await owner.get(`${base}/keys?q=${people.member.slice(0, 6)}`)), 'My notebook');
    t.match(textOf(await owner.get(`${base}/users`)), new RegExp(`${people.member} member 1 `));
    const renamed = await member.post(`${keys}/${made.id}`, { name: 'Editor' });
    t.equal(renamed.headers.get('location'), `${keys}?done=saved`);
    const rotated = await member.post(`${keys}/${made.id}/rotate`, { ...form(), overlap: '0' });
    t.match(rotated.text, /old key <code>svc_....…<\/code> has stopped working/);
    const next = KEY.exec(rotated.text)?.[0] ?? '';
    t.equal(await statusOf(next), 200);
    await until(
      () => statusOf(made.key),
      'the old key stops',
      (status) => status === 401,
    );
    t.match(await mine(), [
      { name: 'Editor', state: 'revoked' },
      { name: 'Editor', state: 'active' },
    ]);
    const id = (await mine())[1]?.id;
    t.match(textOf(await member.get(`${keys}/${id}/revoke`)), 'Revoke this key?');
    t.equal(
      (await member.post(`${keys}/${id}/revoke`)).headers.get('location'),
      `${keys}?done=revoked&key=${id}`,
    );
    await until(
      () => statusOf(next),
      'it stops',
      (status) => status === 401,
    );
    t.match(textOf(await member.get(`${keys}?state=dead`)), /Editor.*revoked/);
    const log = textOf(await owner.get(`${base}/audit`));
    t.match(log, new RegExp(`${people.member} .*revoked key Editor`));
  },
);

t.test('keys of others are not there, by whatever page', async (t) => {
  t.equal(await allow({ member_keys: '5' }), 303);
  const theirs = await owner.post(`${base}/keys/create`, form({ name: 'Secret project' }));
  const [key] = await sql`select id from api_keys where name = 'Secret project'`;
  t.match(theirs.text, KEY);
  for (const place of ['', '/rotate', '/revoke', '/shown'])
    t.equal((await member.get(`${keys}/${key?.id}${place}`)).status, 404, `GET ${place}`);
  t.equal((await member.post(`${keys}/${key?.id}`, { name: 'x' })).status, 404);
  t.equal((await member.post(`${keys}/${key?.id}/revoke`)).status, 404);
  t.equal(
    (await member.post(`${keys}/${key?.id}/rotate`, { ...form(), overlap: '0' })).status,
    404,
  );
  const own = await create(member);
  t.equal((await member.get(`${keys}/${own.id}/shown?old=${key?.id}`)).status, 404);
  t.notMatch((await member.get(keys)).text, 'Secret project');
  t.notMatch((await member.get(`${keys}?q=secret`)).text, 'Secret project');
  t.match(await sql`select name, revoked_at from api_keys where id = ${key?.id}`, [
    { name: 'Secret project', revoked_at: null },
  ]);
  for (const place of ['/own/keys', '/own/usage', '/own/requests'])
    t.equal((await owner.get(base + place)).status, 403, `an owner has no page ${place}`);
});

t.test('the owner revokes a key of a member, and lowers what is allowed', async (t) => {
  const { id, key } = await create(member, { name: 'To be stopped' });
  t.equal((await owner.post(`${base}/keys/${id}/revoke`)).status, 303);
  await until(
    () => statusOf(key),
    'it stops',
    (status) => status === 401,
  );
  const kept = await create(member, { name: 'Stays' });
  t.equal(await allow({ member_keys: '0' }), 303);
  const page = textOf(await member.get(keys));
  t.match(page, /let members create no keys any more\. Those that you have keep working/);
  t.match(page, 'Stays');
  t.equal(await statusOf(kept.key), 200);
  t.equal((await create(member)).status, 422);
  t.match(
    textOf(await owner.get(`${base}/settings`)),
    /When you lower it, keys that exist keep working and can be replaced/,
  );
});

t.test(
  'wrong settings are refused, in the words of the page, and nothing typed is lost',
  async (t) => {
    const { status, text } = await owner.post(`${base}/members`, {
      member_keys: '101',
      member_budget: '0',
    });
    t.equal(status, 422);
    t.match(
      textOf(text),
      /Active keys of each member must be a whole number from 0 to 100, not "101"/,
    );
    t.match(textOf(text), /Highest budget a month of such a key in EUR must be above 0, not "0"/);
    t.match(text, /name="member_keys"[^>]*value="101"/);
    const administrator = await signedIn(office, 'administrator');
    t.match(
      textOf(await administrator.get(`${base}/settings`)),
      /What members may do Members have no keys of their own\./,
    );
    t.equal((await administrator.post(`${base}/members`, { member_keys: '5' })).status, 403);
  },
);

t.test(
  'the playground, once it is allowed: with the key of the person, and until it is not',
  async (t) => {
    t.equal(await allow({ member_playground: 'true' }), 303);
    t.match(textOf(await member.get(keys)), 'Playground');
    const { status, text } = await member.post(`${base}/playground`, {
      model: CHAT,
      prompt: 'Hello there',
    });
    t.equal(status, 200);
    t.match(textOf(text), /completed: \d+ tokens in/);
    const [, id = ''] = /x-request-id ([\da-f-]{36})/.exec(text) ?? [];
    t.match(text, `href="${base}/own/requests/${id}"`);
    await until(
      async () => (await sql`select from request_trail where request_id = ${id}`).length > 0,
      'its row',
    );
    t.match(
      textOf(await member.get(`${base}/own/requests/${id}`)),
      `Playground of ${people.member}`,
    );
    t.match(textOf(await member.get(`${base}/own/requests`)), `Playground of ${people.member}`);
    t.equal(await allow({}), 303);
    t.equal((await member.get(`${base}/playground`)).status, 403, 'from the next page on');
  },
);

t.test('who is removed loses the keys at once', async (t) => {
  t.equal(await allow({ member_keys: '5' }), 303);
  const { key } = await create(member, { name: 'Last' });
  t.equal(await statusOf(key), 200);
  const [person] = await sql`select id from users where email = ${people.member}`;
  t.match(
    textOf(await owner.get(`${base}/users/${person?.id}/remove`)),
    'The user’s own keys are revoked.',
  );
  t.equal((await owner.post(`${base}/users/${person?.id}/remove`)).status, 303);
  t.same(await sql`select from api_keys where user_id = ${person?.id} and revoked_at is null`, []);
  await until(
    () => statusOf(key),
    'it stops',
    (status) => status === 401,
  );
});
