import { hash, randomUUID } from 'node:crypto';
import { ROUTES } from '../../src/admin/pages.ts';
import { OPERATIONS } from '../../src/operations/list.ts';
import type { Act, Scene } from './felt.ts';
import { CHAT_EVENTS, sendEvents } from './felt-answers.ts';

/*
 * What is felt of the administration area: the notices of the database that its changes cause, and what the gateway passes on
 * to the pages' process and back.
 */

// How pages and operations are carried

/** Members of a route or an operation that say nothing of how its request and its answer are carried. */
const OF_CONTENT = ['path', 'action', 'handle', 'page', 'whileClosed', 'lacking']; // of a route
const OF_OPERATION = [
  'id',
  'path',
  'summary',
  'action',
  'memberActions',
  'query',
  'answer',
  'run',
].concat(
  ['status', 'resource', 'secret', 'command'], // of an operation
);

/** "pages POST long modelCalls": the members by which it is carried, so that a member that is new makes a new kind. */
function carriage(of: string, row: object, others: readonly string[]): string {
  const words = Object.entries({ ...row, method: null }).flatMap(([name, value]) =>
    value === null || value === undefined || others.includes(name)
      ? []
      : [typeof value === 'string' ? value : name],
  );
  return [of, (row as { method: string }).method, ...words.sort()].join(' ');
}

/** Each kind of page, form and operation once. A page whose address has an ending is a file. */
export const CARRIAGES = [
  ...new Set([
    ...ROUTES.map((route) => {
      const isFile = /\.\w+$/.test(route.path);
      return carriage('pages', { ...route, ...(isFile ? { file: true } : {}) }, OF_CONTENT);
    }),
    ...OPERATIONS.map((operation) => carriage('operations', operation, OF_OPERATION)),
  ]),
];

// What the gateway passes on

const SESSION = 's'.repeat(43);
const TOKEN = `tga-${'t'.repeat(32)}`;
const LONG_BYTES = 1_000_000; // with its encoding below the most that is passed on
const ROWS = 5000; // and by the scale, as all of these
const PROMPTS = 16;

/** People and programs of the company, and things of it that make pages and files large. */
export async function fillOffice({ sql, company, scale, adminUrl }: Scene): Promise<void> {
  const user = randomUUID();
  await sql`insert into users (id, email, company_id, role) values (${user}, 'owner@busy.example', ${company}, 'owner')`;
  await sql`insert into sessions (digest, user_id) values (${hash('sha256', SESSION, 'buffer')}, ${user})`;
  await sql`insert into admin_tokens (name, company_id, digest, access) values ('token', ${company}, ${hash('sha256', TOKEN, 'buffer')}, 'write')`;
  // digits that hardly compress
  await sql`insert into assistants (company_id, name, system_prompt, model_slug, visibility)
    select ${company}, 'large ' || n, (select string_agg(md5(random()::text || n || k), '') from generate_series(1, 32768) as k), 'fast', 'company'
    from generate_series(1, ${Math.ceil(PROMPTS * scale)}::int) as n`;
  await fetch(`${adminUrl}/sign-in`); // starts their process
}

async function send(
  scene: Scene,
  path: string,
  init: RequestInit & { readonly headers: Record<string, string> },
): Promise<string> {
  const answer = await fetch(scene.adminUrl + path, { redirect: 'manual', ...init });
  const text = await answer.text();
  // what is refused before it is carried is not felt
  if (answer.status >= 400 && answer.status !== 422)
    throw new Error(`${path}: ${answer.status} ${text.slice(0, 300)}`);
  return text;
}

const HEADERS = { cookie: `tollgate=${SESSION}` };
const pageOf = (scene: Scene, path: string): Promise<string> =>
  send(scene, `/companies/${scene.company}${path}`, { headers: HEADERS });

/** Sends the form of a page. */
async function sendForm(
  scene: Scene,
  path: string,
  fields: Record<string, string>,
  to = path,
): Promise<string> {
  const csrf = /name="csrf" value="([^"]+)"/.exec(await pageOf(scene, path))?.[1] ?? '';
  return send(scene, `/companies/${scene.company}${to}`, {
    method: 'POST',
    headers: { ...HEADERS, origin: scene.adminUrl },
    body: new URLSearchParams({ csrf, ...fields }),
  });
}

const operate = (scene: Scene, method: string, path: string, body?: object): Promise<string> =>
  send(scene, `/api/v1/companies/${scene.company}${path}`, {
    method,
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });

const longText = (): string => `${randomUUID()} ${'word '.repeat(LONG_BYTES / 5)}`;
const assistant = (text: string) => ({
  name: 'long',
  system_prompt: text,
  model_slug: 'fast',
  visibility: 'company',
});

async function newAssistant(scene: Scene): Promise<string> {
  return (JSON.parse(await operate(scene, 'POST', '/assistants', assistant('p'))) as { id: string })
    .id;
}

async function played(scene: Scene, to: string): Promise<void> {
  scene.answer = (res) => sendEvents(res, CHAT_EVENTS, scene.scale);
  const text = await sendForm(
    scene,
    '/playground',
    { model: 'fast', prompt: 'hello '.repeat(50_000) },
    `/playground${to}`,
  );
  scene.answer = null;
  if (!text.includes('word ')) throw new Error(`nothing came: ${text.slice(0, 300)}`);
}

const manyKeys = ({
  sql,
  company,
  scale,
}: Scene) => sql`insert into api_keys (company_id, name, digest, prefix, scopes)
  select ${company}, 'key', sha256(('key ' || n)::bytea), 'svc_many', '{chat}' from generate_series(1, ${ROWS * scale}::int) as n on conflict do nothing`;

/** What the gateway passes on to the pages' process, and back. */
export const PAGES: Act[] = [
  {
    of: ['pages GET', 'pages GET slow', 'pages GET modelCalls'],
    name: 'the list of all keys',
    before: manyKeys,
    run: (scene) => pageOf(scene, '/keys'),
  },
  {
    of: 'pages GET file',
    name: 'all that is stored',
    run: (scene) => pageOf(scene, '/export.tar.gz'),
  },
  {
    of: ['pages POST', 'pages POST mails', 'pages POST slow'],
    name: 'a form of 16 KB',
    run: (scene) => sendForm(scene, '/cost-centers', { name: 'x'.repeat(15_000) }),
  },
  {
    of: ['pages POST long', 'pages POST long mails'],
    name: 'an assistant with a system prompt of 1 MB',
    run: (scene) => sendForm(scene, '/assistants/new', assistant(longText())),
  },
  {
    of: 'pages POST long savesNothing',
    name: 'an answer of many events, streamed by the playground',
    run: (scene) => played(scene, '/stream'),
  },
  {
    of: 'pages POST long modelCalls savesNothing',
    name: 'an answer of many events, shown by the playground',
    run: (scene) => played(scene, ''),
  },
  {
    of: ['operations get', 'operations get isLong'],
    name: 'a list of 200 keys',
    before: manyKeys,
    run: (scene) => operate(scene, 'GET', '/keys?limit=200'),
  },
  {
    of: 'operations get file',
    name: 'all that is stored',
    run: (scene) => operate(scene, 'GET', '/export'),
  },
  {
    of: [
      'operations post',
      'operations post body',
      'operations post body isLong',
      'operations post body isReading',
      'operations post body isLong isReading',
    ],
    name: 'an assistant with a system prompt of 1 MB',
    run: (scene) => operate(scene, 'POST', '/assistants', assistant(longText())),
  },
  {
    of: 'operations patch body',
    name: 'a system prompt of 1 MB',
    run: async (scene) =>
      operate(scene, 'PATCH', `/assistants/${await newAssistant(scene)}`, {
        system_prompt: longText(),
      }),
  },
  {
    of: 'operations delete',
    name: 'an assistant',
    run: async (scene) => operate(scene, 'DELETE', `/assistants/${await newAssistant(scene)}`),
  },
  {
    of: 'metrics',
    name: 'metrics',
    run: (scene) => send(scene, '/metrics', { headers: {} }),
  },
];

// Notices of the database

/** The triggers that announce changes, as "notice TABLE EVENT". */
export async function noticesIn(sql: Scene['sql']): Promise<string[]> {
  const rows = await sql<{ notice: string }[]>`
    select distinct concat_ws(' ', 'notice', c.relname, event) as notice
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid,
      (values (4, 'insert'), (8, 'delete'), (16, 'update'), (32, 'truncate')) as e (bit, event)
    where p.prosrc ~ 'announce_change|pg_notify' and t.tgtype & bit > 0`;
  return rows.map(({ notice }) => notice);
}

const noticesOf = (table: string, ...events: string[]): string[] =>
  events.map((event) => `notice ${table} ${event}`);

/** People of another company who are in memory while a company is erased, and the people of that one. */
const REMEMBERED = 2000;
const PEOPLE = 6000;
/** Things of a company that one transaction of an operator makes, such as a file of `tollgate apply`. */
const MADE = 1000;
const FACTORS = 1; // that are yet to come
const NEXT_YEAR = "now() + interval '1 year'";

/** Calls that bring what was forgotten back to memory. */
const usedAgain = (scene: Scene): Promise<Response> => scene.call('hello');

/** Changes of what gateways remember: as many as one company may have, in one statement. */
export const NOTICES: Act[] = [
  {
    of: noticesOf('end_users', 'update', 'delete'),
    name: 'all end users of a company given budgets and erased, and others forgotten',
    async before(scene) {
      await scene.sql`insert into end_users (company_id, name)
        select ${scene.company}, 'person ' || n from generate_series(1, ${PEOPLE * scene.scale}::int) as n on conflict do nothing`;
      await scene.remember(REMEMBERED);
    },
    async run({ sql, company, heard }) {
      await sql`update end_users set monthly_budget_eur = 5 where company_id = ${company} and name is not null`;
      await sql`update end_users set name = null where company_id = ${company} and name is not null`;
      await sql`delete from end_users where company_id = ${company}`;
      await heard();
    },
  },
  {
    of: noticesOf('api_keys', 'insert', 'update', 'delete'),
    name: 'thousands of keys made, changed and removed',
    before: ({ sql, company }) =>
      sql`delete from api_keys where company_id = ${company} and name = 'key'`,
    async run(scene) {
      const { sql, company, heard } = scene;
      await manyKeys(scene);
      await sql`update api_keys set max_concurrent = 9 where company_id = ${company} and name = 'key'`;
      await sql`delete from api_keys where company_id = ${company} and name = 'key'`;
      await heard();
    },
  },
  {
    of: noticesOf('companies', 'update'),
    name: 'a company of thousands of keys and models paused, resumed and renamed, and used again',
    before: manyKeys,
    async run(scene) {
      const { sql, company, heard } = scene;
      await sql`update companies set paused_at = now() where id = ${company}`;
      await sql`update companies set paused_at = null where id = ${company}`;
      await sql`update companies set name = 'busy ' || random() where id = ${company}`;
      await heard();
      await usedAgain(scene);
    },
  },
  {
    of: noticesOf('companies', 'insert', 'delete'),
    name: 'many companies made and removed',
    async run({ sql, scale, heard }) {
      await sql`insert into companies (name) select 'made ' || n from generate_series(1, ${MADE * scale}::int) as n`;
      await sql`delete from companies where name like 'made %'`;
      await heard();
    },
  },
  {
    of: noticesOf('assistants', 'insert', 'update', 'delete'),
    name: 'thousands of assistants made, changed and removed',
    async run({ sql, company, scale, heard }) {
      await sql`insert into assistants (company_id, name, system_prompt, model_slug, visibility)
        select ${company}, 'small', 'p', 'fast', 'company' from generate_series(1, ${ROWS * scale}::int) as n`;
      await sql`update assistants set temperature = random() where company_id = ${company} and name = 'small'`;
      await sql`delete from assistants where company_id = ${company} and name = 'small'`;
      await heard();
    },
  },
  {
    of: noticesOf('models', 'insert', 'update', 'delete'),
    name: 'own models made, changed and removed beside 1,000 others, and used again',
    async run(scene) {
      const { sql, company, scale, heard } = scene;
      await sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
        select 'made-' || n, ${company}, 'internal-made-' || n, 'chat', true, 0.1, 0.1 from generate_series(1, ${MADE * scale}::int) as n`;
      await sql`update models set cost_eur_per_1k_input = trunc(random()::numeric, 3) where company_id = ${company}`;
      await sql`delete from models where company_id = ${company} and slug like 'made-%'`;
      await heard();
      await usedAgain(scene);
    },
  },
  {
    of: noticesOf('model_prices', 'insert', 'update', 'delete'),
    name: 'prices to come of all models set, changed and withdrawn, and the models used meanwhile',
    async run(scene) {
      const { sql, company, heard } = scene;
      const coming = sql`company_id = ${company} and not applied`;
      await sql`insert into model_prices (slug, company_id, valid_from, input, output)
        select slug, company_id, ${sql.unsafe(NEXT_YEAR)}, 1, 1 from models where company_id = ${company}`;
      await heard();
      await usedAgain(scene);
      await sql`update model_prices set input = 2 where ${coming}`;
      await sql`delete from model_prices where ${coming}`;
      await heard();
      await usedAgain(scene);
    },
  },
  {
    of: noticesOf('company_price_factors', 'insert', 'update', 'delete'),
    name: 'a price factor to come set, changed and withdrawn, and the models used meanwhile',
    async run(scene) {
      const { sql, company, heard } = scene;
      const coming = sql`company_id = ${company} and not applied`;
      await sql`insert into company_price_factors (company_id, valid_from, factor)
        select ${company}, ${sql.unsafe(NEXT_YEAR)} + n * interval '1 day', 2 from generate_series(1, ${FACTORS}::int) as n`;
      await heard();
      await usedAgain(scene);
      await sql`update company_price_factors set factor = 3 where ${coming}`;
      await sql`delete from company_price_factors where ${coming}`;
      await heard();
      await usedAgain(scene);
    },
  },
  {
    of: ['companies', 'models', 'api_keys', 'end_users', 'assistants'].flatMap((table) =>
      noticesOf(table, 'truncate'),
    ),
    name: 'all is forgotten, and used again',
    async run(scene) {
      await scene.sql`select announce_change('all', '')`; // as their triggers do
      await scene.heard();
      await usedAgain(scene);
    },
  },
];
