import t from 'tap';
import { COMPANY_SETTINGS } from '../../../src/domain/settings/company.ts';
import { EU_HOSTED } from '../../../src/domain/settings/model.ts';
import { signedIn, startOffice } from '../people.ts';

const office = await startOffice(t);
const { sql, customer } = office;
const operator = await signedIn(office, 'operator');
const base = `/companies/${customer.company}`;

/** A key is for calls of models; scopes beyond these are ticked by the person. */
const SCOPES = ['scope chat', 'scope embeddings', 'scope assistants'];
/** What forms of something new take for granted, each with its reason. Alerts open nothing: they warn. */
const TICKED = {
  '/companies/new': SCOPES,
  '/keys': SCOPES,
  '/alerts': ['forecast true'],
  '/settings': ['end_user_alerts true'],
};

/** Forms of something new. */
const FORMS = [
  '/models/new?typed=lab/new',
  '/companies/new',
  '/users',
  '/tokens',
  ...['keys', 'users', 'tokens', 'assistants/new', 'alerts', 'settings'].map(
    (page) => `${base}/${page}`,
  ),
];

t.test('forms of something new have nothing ticked that nobody asked for', async (t) => {
  const ticked: Record<string, string[]> = {};
  for (const path of FORMS) {
    const { status, text } = await operator.get(path);
    t.equal(status, 200, path);
    const inputs = text.match(/<input type="(?:checkbox|radio)"[^>]*>/g) ?? [];
    const names = inputs
      .filter((input) => / checked/.test(input))
      .map((input) => `${/name="([^"]*)"/.exec(input)?.[1]} ${/value="([^"]*)"/.exec(input)?.[1]}`);
    if (names.length > 0) ticked[path.replace(base, '')] = names;
  }
  t.same(ticked, TICKED);
});

t.test(
  'a form of a new company that is sent as it stands makes what a name alone makes',
  async (t) => {
    const { text } = await operator.get('/companies/new');
    const fields: Record<string, string> = {};
    for (const [input] of text.matchAll(/<input [^>]*>/g)) {
      const [name, value] = ['name', 'value'].map(
        (of) => new RegExp(` ${of}="([^"]*)"`).exec(input)?.[1],
      );
      const isBox = /type="(?:checkbox|radio)"/.test(input);
      if (name && (!isBox || / checked/.test(input))) fields[name] = value ?? '';
    }
    await operator.post('/companies/new', { ...fields, name: 'As it stands' });
    await sql`insert into companies (name) values ('By name alone')`;
    const columns = Object.keys(COMPANY_SETTINGS).filter((column) => column !== 'name');
    const [form, alone] =
      await sql`select ${sql(columns)} from companies where name in ('As it stands', 'By name alone') order by name`;
    t.same(form, alone);
  },
);

t.test('whether a new model runs in the EU is asked of whoever offers it', async (t) => {
  const fields = {
    upstream: 'lab/new',
    '0-slug': 'asked',
    '0-kind': 'chat',
    '0-input': '1',
    '0-output': '1',
  };
  const page = await operator.get('/models/new?typed=lab/new');
  t.equal(page.text.match(/<input type="radio" required [^>]*name="0-eu_hosted"/g)?.length, 2);
  const unanswered = await operator.post('/models/new', fields);
  t.equal(unanswered.status, 422);
  t.match(unanswered.text, /Hosted in the EU/);
  t.equal((await operator.post('/models/new', { ...fields, '0-eu_hosted': 'yes' })).status, 422);
  t.same(await sql`select slug from models where slug = 'asked'`, []);
  for (const answer of ['false', 'true']) {
    const slug = `asked-${answer}`;
    const sent = { ...fields, '0-slug': slug, '0-eu_hosted': answer };
    t.equal((await operator.post('/models/new', sent)).status, 303);
    const [row] = await sql`select ${sql(EU_HOSTED)} as eu from models where slug = ${slug}`;
    t.equal(row?.eu, answer === 'true');
  }
});
