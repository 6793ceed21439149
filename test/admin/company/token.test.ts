import t from 'tap';
import { send } from '../api/tokens.ts';
import { signedIn, startOffice } from '../people.ts';

const office = await startOffice(t);
const { company } = office.customer;

t.test('an operator creates a token on a page, uses it and revokes it', async (t) => {
  const operator = await signedIn(office, 'operator');
  const { status, text } = await operator.post('/tokens', { name: 'Terraform', access: 'write' });
  t.equal(status, 200);
  const [token = ''] = /tga-[a-z2-7]{32}/.exec(text) ?? [];
  t.equal((await send(office, token, ['POST', '/companies'], { name: 'By program' })).status, 201);
  const { text: listed } = await operator.get('/tokens');
  t.match(listed, /Terraform/);
  t.notOk(listed.includes(token), 'it is shown once');
  const [, id = ''] = /\/tokens\/([\da-f-]{36})\/revoke/.exec(listed) ?? [];
  t.match((await operator.get(`/tokens/${id}/revoke`)).text, /Terraform/);
  t.equal((await operator.post(`/tokens/${id}/revoke`)).status, 303);
  t.equal((await send(office, token, ['GET', '/companies'])).status, 401);
});

t.test("an owner's tokens act for the company alone; administrators have none", async (t) => {
  const owner = await signedIn(office, 'owner');
  const { text } = await owner.post(`/companies/${company}/tokens`, {
    name: 'Billing',
    access: 'read',
  });
  const [token = ''] = /tga-[a-z2-7]{32}/.exec(text) ?? [];
  t.equal((await send(office, token, ['GET', `/companies/${company}`])).status, 200);
  t.equal((await send(office, token, ['GET', '/companies'])).status, 403);
  t.equal(
    (await send(office, token, ['PATCH', `/companies/${company}`], { monthly_budget_eur: '1' }))
      .status,
    403,
  );
  t.equal((await owner.get('/tokens')).status, 403);
  t.equal(
    (await (await signedIn(office, 'administrator')).get(`/companies/${company}/tokens`)).status,
    403,
  );
  const { company: other } = await office.newCustomer();
  t.equal((await owner.get(`/companies/${other}/tokens`)).status, 404);
});

t.test('a form with mistakes is shown again', async (t) => {
  const operator = await signedIn(office, 'operator');
  t.match(await operator.post('/tokens', { name: '', access: 'all' }), {
    status: 422,
    text: /is missing/,
  });
  const late = await operator.post('/tokens', {
    name: 'Old',
    access: 'read',
    expires: '2001-01-01',
  });
  t.match(late, { status: 422, text: />Last day must be today or later\.</ });
});

t.test(
  'however many tokens and invitations a company makes, a page has fifty, and programs read all',
  async (t) => {
    const { company: busy } = await office.newCustomer();
    const operator = await signedIn(office, 'operator');
    await office.sql`insert into admin_tokens (name, company_id, digest, access, created_by)
    select 'busy ' || n, ${busy}, sha256(n::text::bytea), 'read', 'x' from generate_series(1, 120) n`;
    await office.sql`insert into invitations (company_id, email, role, digest, created_by, expires_at)
    select ${busy}, n || '@busy.example', 'member', sha256(n::text::bytea), 'x', now() from generate_series(1, 120) n`;
    const names = new Set<string>();
    for (let path: string | undefined = `/companies/${busy}/tokens`; path !== undefined; ) {
      const { text } = await operator.get(path);
      const found = [...text.matchAll(/<strong>(busy \d+)</g)].map(([, name]) => name as string);
      t.ok(found.length <= 50);
      for (const name of found) names.add(name);
      path = /rel="next" href="([^"]+)"/.exec(text)?.[1];
    }
    t.equal(names.size, 120);
    const { text } = await operator.get(`/companies/${busy}/users`);
    t.equal(text.match(/Withdraw</g)?.length, 50);
    t.match(text, 'The newest 50');
    const { text: created } = await operator.post('/tokens', { name: 'Reader', access: 'read' });
    const [token = ''] = /tga-[a-z2-7]{32}/.exec(created) ?? [];
    for (const list of ['tokens', 'invitations']) {
      const ids = new Set<string>();
      for (let cursor: string | null = ''; cursor !== null; ) {
        const more: string = cursor === '' ? '' : `?cursor=${cursor}`;
        const { body } = await send(office, token, ['GET', `/companies/${busy}/${list}${more}`]);
        for (const { id } of body.data) ids.add(id);
        cursor = body.next_cursor;
      }
      t.equal(ids.size, 120, list);
    }
  },
);
