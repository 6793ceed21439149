import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { newToken, send } from '../admin/api/tokens.ts';
import { signedIn, startOffice } from '../admin/people.ts';
import { tollgate as run } from '../support/cli.ts';
import { ask } from '../support/client.ts';
import { until } from '../support/until.ts';

/** Pausing and resuming keys and companies at every face, and who may. */

const office = await startOffice(t);
const { sql, customer, people } = office;
const { company } = customer;
const base = `/companies/${company}`;
const operator = await signedIn(office, 'operator');
const owner = await signedIn(office, 'owner');
const administrator = await signedIn(office, 'administrator');
const member = await signedIn(office, 'member');
const [ofOperator, ofOwners] = [
  await newToken(office),
  await newToken(office, { name: 'own', company_id: company }),
];
const [{ id }] = await sql<
  [{ id: string }]
>`select id from api_keys where company_id = ${company} and purpose is null`;
const key = `${base}/keys/${id}`;
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: office.databaseUrl } });
const answers = (status: number) =>
  until(
    async () => (await ask(`${office.url}/models`, { key: customer.key })).status,
    `the gateway answers ${status}`,
    (got) => got === status,
  );
const ofKey = async () =>
  (
    await sql`select paused_at is not null as paused, paused_by, pause_reason from api_keys where id = ${id}`
  )[0];
const FREE = { paused: false, paused_by: null, pause_reason: null };

t.test(
  'a page pauses a key and resumes it; who, when and why are kept while it is paused',
  async (t) => {
    t.match(await owner.post(`${key}/pause`, { reason: '' }), { status: 422, text: /Reason/ });
    t.match(
      (await owner.post(`${key}/pause`, { reason: 'Leaving' })).headers.get('location'),
      /\?done=key-paused$/,
    );
    t.same(await ofKey(), { paused: true, paused_by: people.owner, pause_reason: 'Leaving' });
    await answers(403);
    for (const person of [owner, administrator, operator]) {
      const { text } = await person.get(key);
      t.match(text, /Paused .* by .*owen@customer\.example.*“Leaving”/);
      t.match(text, /Resume key/);
    }
    const { text } = await owner.get(`${base}/keys`);
    t.match(text, '<span class="badge warn">paused</span>');
    await office.newCustomer(); // with a key of the same name, so that the search lists both
    t.match((await operator.get('/search?q=test')).text, /…, paused/);
    t.match(await administrator.post(`${key}/resume`), { status: 303 }, 'whoever manages the keys');
    t.same(await ofKey(), FREE);
    await answers(200);
  },
);

t.test('what an operator paused, operators alone resume', async (t) => {
  const locked = /operator of this service paused this key: nobody else can resume it/;
  await operator.post(`${key}/pause`, { reason: 'Abuse' });
  t.same(await ofKey(), { paused: true, paused_by: people.operator, pause_reason: 'Abuse' });
  const { text } = await owner.get(key);
  t.match(text, /Paused .* by the operator of this service, who alone can resume it.*“Abuse”/s);
  t.notMatch(text, /Resume key|olga/);
  t.match(await owner.post(`${key}/resume`), { status: 409, text: locked });
  const own = (path: string, body?: object) =>
    send(office, ofOwners, ['POST', `${key}/${path}`], body);
  t.match(await own('resume'), { status: 409, body: { detail: locked } });
  t.match(await own('pause', { reason: 'Mine' }), { status: 409, body: { detail: locked } });
  t.match(await send(office, ofOwners, ['GET', key]), {
    status: 200,
    body: { state: 'paused', paused_at: /^20/, paused_by: 'operator', pause_reason: 'Abuse' },
  });
  t.same(await ofKey(), { paused: true, paused_by: people.operator, pause_reason: 'Abuse' });
  t.equal((await operator.post(`${key}/resume`)).status, 303);
  // an operator takes over what an owner paused
  await owner.post(`${key}/pause`, { reason: 'Leaving' });
  const [{ at }] = await sql<[{ at: Date }]>`select paused_at as at from api_keys where id = ${id}`;
  const { body } = await send(office, ofOperator, ['POST', `${key}/pause`], { reason: 'Abuse' });
  t.match(
    body,
    { paused_at: at.toISOString(), paused_by: 'token deploy', pause_reason: 'Abuse' },
    'it keeps its time',
  );
  t.equal((await owner.post(`${key}/resume`)).status, 409);
  t.match(await send(office, ofOperator, ['POST', `${key}/resume`]), {
    status: 200,
    body: { state: 'active' },
  });
});

t.test(
  'whose pause it is does not change with the names of people: who paused, paused as what they were then',
  async (t) => {
    const [{ email }] = await sql<[{ email: string }]>`
    insert into users (email, role, company_id) values ('moved@customer.example', 'owner', ${company}) returning email`;
    await sql`delete from users where email = ${email}`;
    await sql`insert into users (email, role) values (${email}, 'operator')`;
    await sql.begin(async (sql) => {
      await sql`select set_config('tollgate.actor', ${email}, true)`;
      await sql`update api_keys set paused_at = now(), pause_reason = 'Abuse' where id = ${id}`;
    });
    const own = (path: string) => send(office, ofOwners, ['POST', `${key}/${path}`]);
    t.match(
      await owner.post(`${key}/resume`),
      { status: 409 },
      'an operator who was one of its owners',
    );
    t.match(await own('resume'), { status: 409 });
    t.match(
      (await owner.get(key)).text,
      /by the operator of this service, who alone can resume it/,
    );
    t.equal((await operator.post(`${key}/resume`)).status, 303);
    // who paused is not known by name any more, as after an erasure
    await owner.post(`${key}/pause`, { reason: 'Leaving' });
    await sql`alter table api_keys disable trigger note_pause`;
    await sql`update api_keys set paused_by = 'erased-1' where id = ${id}`;
    await sql`alter table api_keys enable trigger note_pause`;
    t.match((await owner.get(key)).text, /Resume key/);
    t.match(await own('resume'), { status: 200, body: { state: 'active' } });
  },
);

t.test(
  'HTTP: owners pause keys of theirs and never the company; members pause nothing',
  async (t) => {
    const own = (path: string, body?: object) => send(office, ofOwners, ['POST', path], body);
    t.match(await own(`${key}/pause`, {}), { status: 400 });
    t.match(await own(`${key}/pause`, { reason: 'x'.repeat(201) }), { status: 400 });
    t.match(await own(`${key}/pause`, { reason: 'Test' }), {
      status: 200,
      body: { paused_by: 'token own' },
    });
    t.match(await send(office, ofOwners, ['GET', `${base}/keys?state=paused`]), {
      body: { data: [{ id }] },
    });
    t.match(await send(office, ofOwners, ['POST', `${key}/rotate`], { overlap_seconds: 0 }), {
      status: 409,
      body: { detail: /is paused: resume it first/ },
    });
    t.match(await own(`${key}/resume`), {
      status: 200,
      body: { state: 'active', paused_at: null, pause_reason: null },
    });
    t.match(await own(`${key}/resume`), { status: 200 }, 'nothing to resume is no mistake');
    t.equal((await own(`${base}/pause`, { reason: 'x' })).status, 403);
    t.equal((await owner.post(`${base}/pause`, { reason: 'x' })).status, 403);
    t.equal((await member.post(`${key}/pause`, { reason: 'x' })).status, 403);
    const other = await office.newCustomer();
    const theirs = `/companies/${other.company}/keys/${id}/pause`;
    t.equal((await send(office, ofOperator, ['POST', theirs], { reason: 'x' })).status, 404);
    t.equal((await own(theirs, { reason: 'x' })).status, 404);
  },
);

t.test('a member reads that a key of the own is paused, and not why', async (t) => {
  const [{ own }] = await sql<[{ own: string }]>`
    insert into api_keys (company_id, user_id, name, digest, prefix, scopes, created_by)
    select company_id, id, 'own', sha256('own'), 'svc_own', '{chat}', email from users where email = ${people.member} returning id as own`;
  t.equal(
    (await owner.post(`${base}/keys/${own}/pause`, { reason: 'Leaves in spring' })).status,
    303,
  );
  t.match((await administrator.get(`${base}/keys/${own}`)).text, /“Leaves in spring”/);
  const { status, text } = await member.get(`${base}/own/keys/${own}`);
  t.match(
    { status, text },
    { status: 200, text: /Paused .* by .*Calls with it are refused with 403/s },
  );
  t.notMatch(text, /Leaves in spring|Resume key/);
});

t.test(
  'a paused company: its people sign in, read why if they own it, and pay; its keys stop',
  async (t) => {
    const paused = await operator.post(`${base}/pause`, { reason: 'Invoice 7 is unpaid' });
    t.match(paused.headers.get('location'), /\?done=company-paused$/);
    await answers(403);
    for (const place of ['usage', 'statements', 'keys', 'settings', 'requests'])
      t.match(
        (await owner.get(`${base}/${place}`)).text,
        /paused since .*“Invoice 7 is unpaid”/,
        place,
      );
    t.match((await administrator.get(`${base}/usage`)).text, /paused since/);
    t.notMatch((await administrator.get(`${base}/usage`)).text, /Invoice 7/);
    t.match((await member.get(`${base}/own/keys`)).text, /paused since/);
    t.equal(
      (await owner.post(`${base}/settings`, { budget: '5' })).status,
      303,
      'what is not its keys goes on',
    );
    t.equal((await owner.post(`${base}/resume`)).status, 403);
    t.match((await operator.get('/companies?show=paused')).text, /Nordlicht Verlag.*>paused</s);
    t.match(await send(office, ofOwners, ['GET', base]), {
      body: {
        paused_at: /^20/,
        paused_by: 'operator',
        pause_reason: 'Invoice 7 is unpaid',
        closed_at: null,
      },
    });
    t.equal((await operator.post(`${base}/resume`)).status, 303);
    t.match(await send(office, ofOperator, ['GET', base]), {
      body: { paused_at: null, pause_reason: null },
    });
    await answers(200);
  },
);

t.test('commands', async (t) => {
  t.match(await tollgate('key', 'pause', id), { code: 64, err: /--reason/ });
  t.match(await tollgate('key', 'pause', id, '--reason', 'Leaving'), {
    code: 0,
    out: /^Key paused\.\n.*paused +\d.* by the command line: Leaving\n/s,
  });
  t.match(
    (await tollgate('key', 'list', '--company', company)).out,
    new RegExp(`${id}.* paused *\n`),
  );
  t.match(await tollgate('key', 'rotate', id), { code: 1, err: /is paused: resume it first/ });
  t.match((await tollgate('key', 'resume', id, '--json')).json, {
    id,
    state: 'active',
    paused_at: null,
  });
  t.match(await tollgate('company', 'pause', company, '--reason', 'Unpaid'), {
    code: 0,
    out: /^Company paused\.\n.*paused +\d.* by the command line: Unpaid\n/s,
  });
  t.match((await tollgate('company', 'list')).out, /PAUSED \(UTC\)\n/);
  t.match(await tollgate('company', 'resume', company), { code: 0, out: /^Company resumed\.\n/ });
  const { key: gone } = await office.newCustomer();
  const [row] = await sql`
    update api_keys set revoked_at = now() where digest = sha256(${gone}::text::bytea) returning id`;
  t.match(await tollgate('key', 'pause', row?.id, '--reason', 'x'), { code: 1, err: /is revoked/ });
});

t.test('a file says what is paused, and leaves alone what it does not name', async (t) => {
  const path = join(t.testdir({}), 'wanted.yml');
  const [{ name }] = await sql<[{ name: string }]>`select name from api_keys where id = ${id}`;
  const apply = (ofCompany: string, ofItsKey: string) => {
    const keys = `    keys: [{ id: ${id}, name: ${name}${ofItsKey} }]\n`;
    writeFileSync(path, `companies:\n  - name: Nordlicht Verlag\n${ofCompany}${keys}`);
    return tollgate('apply', path);
  };
  t.match(await apply('    paused: Unpaid\n', ', paused: Leaving'), {
    code: 0,
    out: /paused: none -> Unpaid.*paused: none -> Leaving/s,
  });
  await answers(403);
  t.match(await apply('', ''), { out: 'Nothing to change.\n' });
  t.match(await apply('    paused: Unpaid\n', ', paused: Leaving'), {
    out: 'Nothing to change.\n',
  });
  const { out } = await tollgate('export-config');
  t.match(out, /paused: Unpaid/);
  t.match(out, /paused: Leaving/);
  writeFileSync(path, out);
  t.match(await tollgate('apply', path), { out: 'Nothing to change.\n' });
  t.match(await apply('    paused: null\n', ', paused: null'), {
    out: /paused: Unpaid -> none.*paused: Leaving -> none/s,
  });
  await answers(200);
  const made = `companies: [{ name: Made paused, paused: Not signed, keys: [{ name: first, scopes: [chat], paused: Early, value: { env: HOME_KEY } }] }]`;
  writeFileSync(path, made);
  const env = { DATABASE_URL: office.databaseUrl, HOME_KEY: 'a-text-of-some-thirty-characters' };
  t.match(await run(['apply', path], { env }), { code: 0 });
  t.match(await run(['apply', path], { env }), { out: 'Nothing to change.\n' });
  await sql`update companies set paused_at = now(), pause_reason = null where id = ${company}`;
  writeFileSync(path, (await tollgate('export-config')).out);
  t.match(
    await tollgate('apply', path),
    { out: 'Nothing to change.\n' },
    'of plain SQL, without a reason',
  );
  t.match(await apply('    paused: null\n', ''), {
    code: 0,
    out: /paused: without a reason -> none/,
  });
});

t.test(
  'the audit log and events tell each pause, without what the reader may not know',
  async (t) => {
    await sql`delete from events`;
    await operator.post(`${key}/pause`, { reason: 'Abuse' });
    await operator.post(`${key}/pause`, { reason: 'Abuse, again' });
    await operator.post(`${key}/resume`);
    await operator.post(`${base}/pause`, { reason: 'Unpaid' });
    await operator.post(`${base}/resume`);
    const events = await sql`select kind, subject, actor, body from events order by at`;
    const ofIt = { subject: id, body: { key: { id, prefix: /^.{8}$/ } }, actor: people.operator };
    t.match(events, [
      { kind: 'key.paused', ...ofIt },
      { kind: 'key.resumed', ...ofIt },
      { kind: 'company.paused', subject: company, body: {} },
      { kind: 'company.resumed', subject: company },
    ]);
    t.equal(events.length, 4, 'another reason is no other pause');
    t.notMatch(JSON.stringify(events), /Abuse|Unpaid/);
    const { text } = await owner.get(`${base}/audit`);
    t.match(
      text,
      />paused<\/span> [^\n]*>company .*>resumed<\/span> [^\n]*>key .*>paused<\/span> [^\n]*>key /s,
    );
    t.match(text, /Abuse, again/);
    t.notMatch(text, /olga/);
    t.match((await operator.get('/events?kind=key.paused')).text, /Key paused/);
    const german = await owner.get(`${base}/audit`, { 'accept-language': 'de' });
    t.match(german.text, />pausiert<\/span> [^\n]*>Unternehmen.*Grund der Pause/s);
  },
);
