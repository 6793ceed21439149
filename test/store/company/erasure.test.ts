import { randomUUID } from 'node:crypto';
import t from 'tap';
import { eraseCompany } from '../../../src/operations/company-end.ts';
import { erasePerson } from '../../../src/store/company/erasure.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests } from '../../support/requests.ts';
import { addUsage } from '../../support/usage.ts';

const { db } = await testDatabase(t);
const MS = 60_000;
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);
const change = <T>(work: (sql: Sql) => PromiseLike<T>) => db.transaction(MS, work);

/** Every text in the database, whatever table and column it is in, as `table.column: text`. */
async function everything(): Promise<string> {
  return run(async (sql) => {
    const columns = await sql<{ relation: string; name: string }[]>`
      select c.oid::regclass::text as relation, quote_ident(a.attname) as name
      from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'public' and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped`;
    const lines: string[] = [];
    for (const { relation, name } of columns) {
      const rows = await sql.unsafe<{ text: string }[]>(
        `select ${name}::text as text from ${relation} where ${name} is not null`,
      );
      lines.push(...rows.map(({ text }) => `${relation}.${name}: ${text}`));
    }
    return lines.join('\n');
  });
}

/** The lines of a dump that hold one of some texts, in any case. */
function traces(dump: string, texts: readonly string[]): string[] {
  return dump
    .split('\n')
    .filter((line) => texts.some((text) => line.toLowerCase().includes(text.toLowerCase())));
}

/** The ledger with its sums and seals, to the last digit. */
function ledger(): Promise<string> {
  return run(async (sql) => {
    const [row] = await sql<[{ text: string }]>`
      select concat(
        (select json_agg(u order by request_id) from api_usage u), (select json_agg(d order by d) from usage_daily d),
        (select json_agg(s order by writer, number) from ledger_seals s),
        (select json_agg(json_build_array(company_id, billing_month, requests, api_cost_eur, chat_cost_eur)) from monthly_spend)) as text`;
    return row.text;
  });
}

/** A company with people, keys, assistants, alerts and a past in which all of it changed. */
async function settle(name: string, domain: string, network: string) {
  const [ann, bob, gone] = [`ann@${domain}`, `bob@${domain}`, `gone@${domain}`];
  const key = randomUUID();
  const company = await change(async (sql) => {
    const [{ id }] = await sql<
      [{ id: string }]
    >`insert into companies (name) values (${`${name} Old`}) returning id`;
    await sql`select set_config('tollgate.actor', ${ann}, true)`;
    await sql`update companies set name = ${name} where id = ${id}`;
    await sql`insert into users (email, company_id, role) values
      (${ann}, ${id}, 'owner'), (${bob}, ${id}, 'administrator'), (${gone}, ${id}, 'member')`;
    await sql`delete from users where email = ${gone}`;
    await sql`insert into oidc_groups (name, company_id, role) values (${`${name} staff`}, ${id}, 'member')`;
    await sql`insert into users (email, company_id, role, oidc_group) values (${`gus@${domain}`}, ${id}, 'member', ${`${name} staff`})`;
    await sql`insert into api_keys (id, company_id, name, digest, prefix, scopes, created_by, allowed_cidrs) values
      (${key}, ${id}, ${`${name} laptop of Ann`}, sha256(${key}::text::bytea), 'svc_aaaa', '{chat}', ${ann}, ${`{${network}}`}::cidr[])`;
    await sql`update api_keys set name = ${`${name} laptop of ann@${domain}`}, paused_at = now(), pause_reason = ${`ann@${domain} has left ${name}`} where id = ${key}`;
    await sql`update companies set paused_at = now(), pause_reason = ${`Ask bob@${domain}`} where id = ${id}`;
    await sql`insert into assistants (company_id, name, system_prompt) values (${id}, ${`${name} helper`}, ${`You serve ${name}. Ask Bob <bob@${domain}>`})`;
    await sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values ('own', ${id}, 'internal/own', 'chat', true, 1, 1)`;
    await sql`insert into sessions (digest, user_id) select sha256(email::bytea), id from users where company_id = ${id}`;
    const [token] = await sql<
      [{ id: string }]
    >`insert into admin_tokens (name, company_id, digest, access, created_by)
      values (${`${name} Terraform of Ann`}, ${id}, sha256(${key}::text::bytea), 'read', ${ann}) returning id`;
    await sql`insert into idempotent_answers (token_id, key_digest, request, answer) values (${token.id}, '', '', ${JSON.stringify({ name, ann })}::text::jsonb)`;
    await sql`select set_config('tollgate.actor', ${`token ${name} Terraform of Ann`}, true)`;
    await sql`update companies set budget_mode = 'strict' where id = ${id}`;
    await sql`select set_config('tollgate.actor', ${ann}, true)`;
    await sql`insert into alert_receivers (company_id, email, percents, forecast, created_by) values
      (${id}, ${bob}, '{50}', true, ${ann}), (${id}, ${`books@${domain}`}, '{50}', true, ${ann})`;
    const [alert] = await sql<
      [{ id: string }]
    >`insert into budget_alerts (company_id, billing_month, threshold, budget_eur, spent_eur)
      values (${id}, '2026-11-01', '50', 10, 5) returning id`;
    await sql`insert into event_deliveries (event_id, channel, recipient, state, last_error) values
      (${alert.id}, 'email', ${ann}, 'delivered', null), (${alert.id}, 'email', ${bob}, 'pending', ${`550 no ${bob}`})`;
    return id;
  });
  const record = {
    company_id: company,
    api_key_id: key,
    billing_month: '2026-11-01',
    request_id: randomUUID(),
    model_slug: 'own',
  };
  const rest = {
    upstream_model: 'internal/own',
    endpoint: 'chat.completions',
    prompt_tokens: 3,
    completion_tokens: 0,
    cost_eur: 0.003,
  };
  const how = {
    price_input: 1,
    price_output: 1,
    usage_source: 'upstream',
    outcome: 'completed',
    occurred_at: '2026-11-15T12:00:00Z',
  };
  await run(
    (sql) =>
      sql`select book_usage(${randomUUID()}, ${JSON.stringify([{ ...record, ...rest, ...how }])}::text::json)`,
  );
  await run((sql) => addUsage(sql, [{ company, key }]));
  const reason = `Budget of ${ann} at ${name} is used up`;
  await addRequests(trailStore(db), [
    { company, key, status: 404, asked: `${domain}-chat`, param: domain, reason },
  ]);
  return { company, ann, bob, gone, key };
}

const acme = await settle('Acme Verlag', 'acme.example', '198.51.100.7/32');
const other = await settle('Borg Werke', 'borg.example', '203.0.113.9/32');
await change(async (sql) => {
  await sql`insert into users (email, company_id, role) values ('olga@tollgate.example', null, 'operator')`;
  await sql`select set_config('tollgate.actor', 'olga@tollgate.example', true)`;
  await sql`update companies set monthly_budget_eur = 10 where id = ${acme.company}`;
});
/** Parts of every name, address and text of the first company. */
const ACME = ['acme', '198.51.100.7'];

t.test('an open company is not erased, and neither is one that is named wrongly', async (t) => {
  await t.rejects(
    change((sql) => eraseCompany(sql, acme.company, null)),
    { message: /is open/ },
  );
  await run((sql) => sql`update companies set closed_at = now() where id = ${acme.company}`);
  await t.rejects(
    change((sql) => eraseCompany(sql, acme.company, 'Acme')),
    { message: /"Acme Verlag"/ },
  );
  await t.rejects(
    change((sql) => eraseCompany(sql, randomUUID(), null)),
    { message: /^There is no company/ },
  );
});

t.test('a dry run counts and changes nothing', async (t) => {
  const before = await everything();
  const { persons, rows } = await change((sql) => eraseCompany(sql, acme.company, null));
  t.equal(
    persons,
    6,
    'Ann, Bob, Gus, one whose user was removed, a receiver of alerts, and a token',
  );
  t.match(rows, {
    users: 3,
    oidc_groups: 1,
    alert_receivers: 2,
    assistants: 1,
    api_keys: 1,
    companies: 1,
    event_deliveries: 2,
    request_trail: 1,
  });
  t.ok((rows.audit_log as number) > 5);
  t.equal(await everything(), before);
});

t.test('erasing a company leaves no trace of its names and addresses', async (t) => {
  const before = await ledger();
  t.ok(traces(await everything(), ACME).length > 10, 'the search finds them before');
  const known = (await everything())
    .split('\n')
    .filter((line) => /borg|olga/i.test(line))
    .sort();
  const dry = await change((sql) => eraseCompany(sql, acme.company, null));
  const erased = await change((sql) => eraseCompany(sql, acme.company, 'Acme Verlag'));
  t.same(erased, dry, 'what it leaves in the audit log itself does not count');
  const dump = await everything();
  t.same(traces(dump, ACME), []);
  t.equal(await ledger(), before, 'ledger, sums and seals');
  t.same(
    dump
      .split('\n')
      .filter((line) => /borg|olga/i.test(line))
      .sort(),
    known,
    'operators and other companies stay',
  );

  const rows = await run(
    (sql) => sql`
      select actor, subject, action, before ->> 'email' as email, after ->> 'created_by' as creator, after
      from audit_log where company_id = ${acme.company} order by id`,
  );
  const removed = rows.find(
    ({ action, subject, email }) => subject === 'users' && action === 'delete' && email !== null,
  );
  t.match(removed?.email, /^person-[0-9a-f]{12}$/);
  const maker = rows.find(({ creator }) => creator !== null)?.creator;
  const [key] = await run(
    (sql) =>
      sql`select name, created_by, digest is not null as kept from api_keys where id = ${acme.key}`,
  );
  t.match(key, { name: `key-${acme.key.slice(0, 8)}`, created_by: maker, kept: true });
  t.ok(
    rows.some(({ actor, action }) => actor === maker && action === 'update'),
    'one pseudonym for one person, everywhere',
  );
  t.match(
    rows.find(({ action }) => action === 'erase'),
    { subject: 'companies', after: { persons: 6, rows: { users: 3, alert_receivers: 2 } } },
  );
});

t.test(
  'whoever went to another company is erased from the one that ends, and from no other',
  async (t) => {
    const { company, bob } = await settle('Calm See', 'calm.example', '203.0.113.10/32');
    await change(async (sql) => {
      await sql`delete from users where email = ${bob}`;
      await sql`insert into users (email, company_id, role) values (${bob}, ${other.company}, 'owner')`;
      await sql`select set_config('tollgate.actor', ${bob}, true)`;
      await sql`update companies set monthly_budget_eur = 20 where id = ${other.company}`;
      await sql`update companies set monthly_budget_eur = 20 where id = ${company}`;
      await sql`insert into api_keys (company_id, name, digest, prefix, scopes, created_by)
      values (${company}, 'Key', sha256('of bob'), 'svc_bbbb', '{chat}', ${bob})`;
      await sql`update companies set closed_at = now() where id = ${company}`;
    });
    const log = (own: boolean) =>
      run(
        (sql) =>
          sql`select * from audit_log where (company_id is not distinct from ${company}) = ${own} order by id`,
      );
    const others = await log(false);
    t.match(JSON.stringify(others), bob);
    const dry = await change((sql) => eraseCompany(sql, company, null));
    const erased = await change((sql) => eraseCompany(sql, company, 'Calm See'));
    t.same(erased, dry);
    t.notMatch(JSON.stringify(await log(true)), bob);
    t.same(await log(false), others, 'the person is named where the person belongs now');
    const left = traces(await everything(), ['calm']).filter(
      (line) => !line.startsWith('audit_log.'),
    );
    t.same(left, [`users.email: ${bob}`]);
  },
);

t.test('an owner erases somebody from the own company, and from no other', async (t) => {
  const { company, bob, key } = await settle('Dune Sand', 'dune.example', '203.0.113.11/32');
  await change(async (sql) => {
    await sql`select set_config('tollgate.actor', ${bob}, true)`;
    await sql`update api_keys set created_by = ${bob}, name = ${`Laptop of ${bob}`} where id = ${key}`;
    // of a time before this company
    await sql`insert into api_keys (company_id, name, digest, prefix, scopes, created_by)
      values (${other.company}, 'Key', sha256('of another bob'), 'svc_bbbb', '{chat}', ${bob})`;
    await sql`insert into alert_receivers (company_id, email, percents, forecast) values (${other.company}, ${bob}, '{50}', true)`;
  });
  const elsewhere = async () =>
    traces(await everything(), [bob])
      .filter((line) => !/^(audit_log|users|invitations)/.test(line))
      .sort();
  const log = (own: boolean) =>
    run(
      (sql) =>
        sql`select * from audit_log where (company_id is not distinct from ${company}) = ${own} order by id`,
    );
  const others = await log(false);
  t.match(JSON.stringify(others), bob);
  const before = await ledger();
  const dry = await change((sql) => erasePerson(sql, bob, true, company));
  t.same(await change((sql) => erasePerson(sql, bob, false, company)), dry);
  t.match(dry, { persons: 1, rows: { users: 1, api_keys: 1, alert_receivers: 1 } });
  t.notMatch(JSON.stringify(await log(true)), bob);
  t.same(await log(false), others, 'the log of the other company names who was there');
  const rows = ['alert_receivers.email', 'api_keys.created_by', 'events.actor'].map(
    (column) => `${column}: ${bob}`,
  );
  t.same(await elsewhere(), rows, 'as its rows do');
  const [user] = await run((sql) => sql`select from users where email = ${bob}`);
  t.equal(user, undefined);
  t.equal(await ledger(), before);
  await t.rejects(
    change((sql) => erasePerson(sql, bob, false, company)),
    { message: /is stored nowhere/ },
  );
  t.ok(
    (await change((sql) => erasePerson(sql, bob, false))).rows.api_keys,
    'an operator erases everywhere',
  );
  t.same(traces(await everything(), [bob]), []);
});

t.test('a second time finds nothing', async (t) => {
  const name = `company-${acme.company.slice(0, 8)}`;
  t.same(await change((sql) => eraseCompany(sql, acme.company, name)), { persons: 0, rows: {} });
});

t.test('erasing one person of an open company', async (t) => {
  const before = await ledger();
  const [{ max }] = await run((sql) => sql<[{ max: number }]>`select max(id) from audit_log`);
  const dry = await change((sql) => erasePerson(sql, other.ann, true));
  t.match(dry, {
    persons: 1,
    rows: { users: 1, api_keys: 1, event_deliveries: 1, request_trail: 1 },
  });
  t.same(await change((sql) => erasePerson(sql, other.ann, false)), dry);
  t.same(traces(await everything(), [other.ann]), []);
  t.equal(await ledger(), before);
  const [key] = await run(
    (sql) => sql`select name, created_by from api_keys where id = ${other.key}`,
  );
  t.match(key, {
    name: /^Borg Werke laptop of person-[0-9a-f]{12}$/,
    created_by: /^person-[0-9a-f]{12}$/,
  });
  t.equal(key?.name.slice(-19), key?.created_by);
  const [assistant] = await run(
    (sql) => sql`select system_prompt from assistants where company_id = ${other.company}`,
  );
  t.match(assistant?.system_prompt, 'bob@borg.example', 'others stay');
  const entries = await run(
    (sql) => sql`select action, actor from audit_log where id > ${max} and action = 'erase'`,
  );
  t.equal(entries.length, 1);
  await t.rejects(
    change((sql) => erasePerson(sql, other.ann, false)),
    { message: /is stored nowhere/ },
  );
  t.match(
    await change((sql) => erasePerson(sql, other.gone, false)),
    { persons: 0, rows: { audit_log: 2 } },
    'a removed user',
  );
});

t.test('an address within a longer one is not the person, wherever it is', async (t) => {
  const person = 'neill@mail.example';
  const others = [
    "o'neill@mail.example",
    'r&neill@mail.example',
    'mary.neill@mail.example',
    'ünneill@mail.example',
    'a\\neill@mail.example',
    'neill@mail.example.org',
    'neill@mail.example-shop.org',
  ];
  const guestOf = (address: string) => `${Buffer.from(address).toString('hex')}@guest.example`;
  const { company } = await settle('Dale', 'dale.example', '203.0.113.11/32');
  const settled = (address: string) =>
    change(async (sql) => {
      await sql`insert into users (email, company_id, role) values (${address}, ${company}, 'member')`;
      await sql`select set_config('tollgate.actor', ${address}, true)`;
      await sql`insert into api_keys (company_id, name, digest, prefix, scopes, created_by)
        values (${company}, ${`Key of <${address}>`}, sha256(convert_to(${address}, 'UTF8')), 'svc_cccc', '{chat}', ${address})`;
      await sql`insert into invitations (company_id, email, role, digest, created_by, expires_at)
        values (${company}, ${guestOf(address)}, 'member', sha256(convert_to(${`by ${address}`}, 'UTF8')), ${address}, now())`;
      await sql`insert into event_deliveries (event_id, channel, recipient, state)
        select id, 'email', ${address}, 'pending' from events where company_id = ${company} and kind = 'key.created' limit 1`;
      await sql`insert into idempotent_answers (token_id, key_digest, request, answer)
        select id, sha256(convert_to(${address}, 'UTF8')), '', jsonb_build_object('data', jsonb_build_array(jsonb_build_object('email', ${address}::text)))
        from admin_tokens where company_id = ${company}`;
    });
  const kept = async () => traces((await everything()).replaceAll('\\\\', '\\'), others).sort();
  for (const other of others) await settled(other);
  const quoted = "'neill@mail.example"; // where an address is all there is, it is another one
  await change(
    (sql) =>
      sql`insert into users (email, company_id, role) values (${quoted}, ${company}, 'member')`,
  );
  others.push(quoted);
  const before = await kept();
  t.ok(before.length > others.length * 10);
  await settled(person);
  const { rows } = await change((sql) => erasePerson(sql, person, true));
  const once = {
    users: 1,
    invitations: 1,
    idempotent_answers: 1,
    event_deliveries: 1,
    events: 1,
    api_keys: 1,
  };
  t.same(rows, { ...once, audit_log: 3 });
  await change((sql) => erasePerson(sql, person, false));
  t.same(await kept(), before, 'nothing of others');
  const rest = traces(await everything(), [person]).filter(
    (line) => traces(line.replaceAll('\\\\', '\\'), others).length === 0,
  );
  t.same(rest, []);
  const [invited] = await run(
    (sql) => sql`select created_by from invitations where email = ${guestOf(person)}`,
  );
  t.match(invited?.created_by, /^person-/, 'whoever was invited by the person stays invited');

  await change((sql) => erasePerson(sql, 'a\\neill@mail.example', false));
  t.same(traces(await everything(), ['a\\neill', 'a\\\\neill']), [], 'as JSON writes it, too');
});

t.test('in a text an address may stand in quotes or brackets, or end a sentence', async (t) => {
  const found = [
    "'jo@x.example'",
    '(jo@x.example)',
    '„jo@x.example“',
    '*jo@x.example*',
    'jo@x.example.',
    'jo@x.example -',
    'is:\njo@x.example\n',
  ];
  const others = ["o'jo@x.example", 'jo@x.example.org', 'jo@x.example-shop', 'team=jo@x.example'];
  const text = [...found, ...others].join(' ');
  const [{ id }] = await change(
    (sql) => sql<[{ id: string }]>`insert into assistants (company_id, name, system_prompt)
      values (${other.company}, 'Jo', ${text}) returning id`,
  );
  t.match(await change((sql) => erasePerson(sql, 'jo@x.example', false)), {
    rows: { assistants: 1, audit_log: 1 },
  });
  const pattern = [...found.map((each) => each.replace('jo@x.example', 'PERSON')), ...others].join(
    ' ',
  );
  const [row] = await run((sql) => sql`select system_prompt from assistants where id = ${id}`);
  const logged = await run(
    (sql) =>
      sql`select after ->> 'system_prompt' as system_prompt from audit_log where subject_id = ${id}`,
  );
  for (const each of [row, ...logged]) {
    t.equal(each?.system_prompt.replaceAll(/person-[0-9a-f]{12}/g, 'PERSON'), pattern);
  }
});

t.test('the audit log refuses every other change', async (t) => {
  const refused = (work: (sql: Sql) => PromiseLike<unknown>) =>
    t.rejects(change(work), { message: /append-only/ });
  await refused((sql) => sql`update audit_log set actor = 'nobody'`);
  await refused((sql) => sql`delete from audit_log`);
  await refused((sql) => sql`truncate audit_log`);
  await refused(async (sql) => {
    const [{ id }] = await sql<
      [{ id: number }]
    >`select max(id) as id from audit_log where action = 'erase'`;
    await sql`select set_config('tollgate.erasure', ${String(id)}, true)`;
    await sql`update audit_log set actor = 'nobody'`;
  });
  await refused(async (sql) => {
    await sql`select begin_erasure('users', null, null)`;
    await sql`update audit_log set at = now() - interval '1 year'`;
  });
});

t.test('every text of a company is erased, or holds no name', async (t) => {
  const nameless: Readonly<Record<string, string>> = {
    companies: 'disabled_model_slugs budget_mode language',
    models: 'slug upstream_model kind token_input rates',
    model_prices: 'slug rates',
    model_cost_prices: 'slug rates',
    api_keys: 'prefix scopes allowed_model_slugs purpose end_users',
    assistants: 'model_slug visibility',
    users: 'role password_hash language saved_views page_language',
    alert_receivers: 'language',
    oidc_groups: 'role',
    invitations: 'role',
    admin_tokens: 'access',
    // a cost centre is an account, not a person: sql/PRIVACY.md says so
    api_usage: 'model_slug upstream_model endpoint usage_source outcome cost_center rate parts',
    usage_daily: 'model_slug endpoint usage_source outcome cost_center',
    usage_details: 'model_slug endpoint cost_center',
    usage_end_user_days: 'model_slug',
    upstream_costs: 'currency',
    upstream_cost_monthly: 'model_slug currency',
    usage_company_days: 'model_slug endpoint usage_source outcome cost_center',
    usage_key_months: 'endpoint cost_center',
    request_trail: 'endpoint model_slug code outcome',
    request_hours: 'model_slug endpoint reasons',
    request_days: 'model_slug endpoint reasons',
    budget_alerts: 'threshold cost_center',
    unusual_days: 'measure subject about model_slug',
    cost_center_budgets: 'name',
    // names are added when an event is sent
    events: 'kind subject body',
    event_deliveries: 'channel state',
    // ids, slugs and cost centres
    statements: 'content',
    // before and after are erased by the columns that they tell of
    audit_log: 'db_role action subject before after',
  };
  const columns = await run(
    (sql) => sql<{ name: string; column: string }[]>`
      select c.relname as name, a.attname as column from pg_class c join pg_attribute a on a.attrelid = c.oid
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and a.attnum > 0 and not a.attisdropped
        and a.atttypid in ('text'::regtype, 'text[]'::regtype, 'varchar'::regtype, 'json'::regtype, 'jsonb'::regtype,
          'cidr'::regtype, 'cidr[]'::regtype, 'inet'::regtype)
        and (c.relname in ('companies', 'event_deliveries')
          or exists (select from pg_attribute k where k.attrelid = c.oid and k.attname = 'company_id'))
        and not exists (select from personal_data p where p.table_name = c.relname and p.column_name = a.attname)`,
  );
  const unknown = columns.filter(
    ({ name, column }) => !nameless[name]?.split(' ').includes(column),
  );
  t.same(unknown, [], 'a new column is a row of personal_data, or a word of the list above');
});
