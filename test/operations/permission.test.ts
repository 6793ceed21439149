import t from 'tap';
import { ROUTES } from '../../src/admin/pages.ts';
import { ROLES, type Role } from '../../src/domain/user.ts';
import { type Action, may, PERMISSIONS } from '../../src/operations/frame/permission.ts';
import { Person, signedIn, startOffice } from '../admin/people.ts';

/** Permissions: the table, and every route requested by every role, for the user's company and for another. */

const office = await startOffice(t);
const people = Object.fromEntries(
  await Promise.all(ROLES.map(async (role) => [role, await signedIn(office, role)] as const)),
) as Record<Role, Person>;
const { company: foreign } = await office.newCustomer();
const own = office.customer.company;

// written out again, so that a mistake in the table does not confirm itself
const MAY: Readonly<Record<Role, readonly Action[]>> = {
  // all but what a member has instead of the company's own
  operator: (Object.keys(PERMISSIONS) as Action[]).filter((action) => !/^own-/.test(action)),
  owner: [
    'account.use',
    'company.read',
    'company.set',
    'company.choose',
    'company.export',
    'company.kept',
    'company-audit.read',
    'alert.read',
    'alert.write',
    'company-user.read',
    'company-user.write',
    'usage.read',
    'usage.keep',
    'cost-center.write',
    'end-user.read',
    'end-user.erase',
    'end-user.write',
    'statement.read',
    'request.read',
    'key.read',
    'key.write',
    'assistant.read',
    'assistant.write',
    'assistant.run',
    'playground.use',
    'company-token.read',
    'company-token.write',
  ],
  get administrator() {
    const owners =
      /^(company\.set|company\.export|company-audit\.|alert\.|cost-center\.|end-user\.(erase|write)|company-user\.|statement\.|company-token\.)/;
    return this.owner.filter((action) => !owners.test(action));
  },
  member: [
    'account.use',
    'company.kept',
    'own-key.read',
    'own-key.write',
    'own-usage.read',
    'own-usage.keep',
  ],
};

t.test('the table says what it should', async (t) => {
  for (const role of ROLES) {
    const person = { role, company_id: role === 'operator' ? null : own };
    const allowed = (Object.keys(PERMISSIONS) as Action[]).filter((action) =>
      may(person, action, own),
    );
    t.same(allowed.sort(), [...MAY[role]].sort(), role);
    if (role !== 'operator')
      t.notOk(Object.keys(PERMISSIONS).some((action) => may(person, action as Action, foreign)));
  }
});

t.test('members use the playground where the company lets them', async (t) => {
  for (const role of ROLES.filter((role) => role !== 'operator')) {
    const uses = (member_playground: boolean) =>
      may({ role, company_id: own, member_playground }, 'playground.use', own);
    t.same([uses(false), uses(true)], [role !== 'member', true], role);
    t.notOk(may({ role, company_id: own, member_playground: true }, 'playground.use', foreign));
  }
});

t.test('every route obeys the table, for every role', async (t) => {
  const nothing = '00000000-0000-4000-8000-000000000000';
  const csrf = new Map(
    await Promise.all(ROLES.map(async (role) => [role, await people[role].csrf()] as const)),
  );
  for (const route of ROUTES.filter(({ path }) => path !== '/sign-out')) {
    for (const role of ROLES) {
      for (const company of route.path.includes(':company') ? [own, foreign] : [null]) {
        const path = route.path.replace(':company', company ?? '').replace(/:\w+/g, nothing);
        const ask = () =>
          // an empty form changes nothing
          route.method === 'GET'
            ? people[role].get(path)
            : people[role].post(path, { csrf: csrf.get(role) ?? '' });
        const { status } = await ask();
        const isForeign = company === foreign && role !== 'operator';
        const name = `${role}: ${route.method} ${route.path}${isForeign ? ' of another company' : ''}`;
        if (isForeign) t.equal(status, 404, name);
        else if (!MAY[role].includes(route.action)) t.equal(status, 403, name);
        else t.ok(status !== 403 && status < 500, `${name} is let through (${status})`);
      }
    }
  }
});

t.test('without a session every route leads to the sign-in page', async (t) => {
  const stranger = new Person(office.adminUrl);
  for (const route of ROUTES) {
    const path = route.path.replace(':company', own).replace(/:\w+/g, own);
    const { status, headers, text } =
      route.method === 'GET' ? await stranger.get(path) : await stranger.post(path, { csrf: '' });
    t.equal(status, 303, `${route.method} ${route.path}`);
    t.match(headers.get('location'), /^\/sign-in/);
    t.equal(text, '');
  }
});

t.test('a foreign company and an unknown one look alike', async (t) => {
  const unknown = '00000000-0000-4000-8000-000000000000';
  const pages = await Promise.all(
    [foreign, unknown].map((id) => people.owner.get(`/companies/${id}/usage`)),
  );
  t.equal(pages[0]?.status, 404);
  t.equal(pages[0]?.text, pages[1]?.text);
});

t.test('a changed role holds from the next page on', async (t) => {
  const person = await signedIn(office, 'administrator');
  t.equal((await person.get(`/companies/${own}/usage`)).status, 200);
  await office.sql`update users set role = 'member' where email = ${office.people.administrator}`;
  t.equal((await person.get(`/companies/${own}/usage`)).status, 403);
  await office.sql`delete from users where email = ${office.people.administrator}`;
  t.equal(
    (await person.get('/account')).headers.get('location'),
    '/sign-in?next=%2Faccount&done=ended',
  );
});

t.test('internal model names are for operators', async (t) => {
  const { parts } = office.upstream;
  t.match((await people.operator.get('/models')).text, parts.chat);
  for (const page of [
    'models',
    'usage',
    'keys',
    'assistants',
    'settings',
    'users',
    'audit',
    'usage.csv',
    'ledger.csv',
  ]) {
    t.notMatch((await people.owner.get(`/companies/${own}/${page}`)).text, parts.chat, page);
  }
});
