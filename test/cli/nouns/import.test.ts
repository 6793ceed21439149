import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { type CliOptions, tollgate } from '../../support/cli.ts';
import { ask } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { emptyDatabase, testDatabase } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';
import { MASTER_KEY, scriptedUpstream } from '../../support/upstream.ts';

const SCHEMA = readFileSync(new URL('litellm.sql', import.meta.url), 'utf8');
const digest = (key: string) => createHash('sha256').update(key).digest('hex');
const literal = (value: unknown): string => {
  if (value === null || typeof value === 'number' || typeof value === 'boolean')
    return String(value);
  if (Array.isArray(value) && value.every((each) => typeof each === 'string'))
    return `array[${value.map(literal).join(', ')}]::text[]`;
  return `'${(typeof value === 'object' ? JSON.stringify(value) : String(value)).replaceAll("'", "''")}'`;
};

/** A LiteLLM database of its own. */
async function litellm(t: Test, schema = SCHEMA) {
  const { db, url } = await emptyDatabase(t);
  const run = (text: string) => db.run(60_000, (sql) => sql.unsafe(text));
  await run(schema);
  const add = (table: string, row: Record<string, unknown>) =>
    run(
      `insert into "LiteLLM_${table}" (${Object.keys(row).join(', ')}) values (${Object.values(row).map(literal).join(', ')})`,
    );
  const key = (text: string, row: Record<string, unknown> = {}) =>
    add('VerificationToken', { token: digest(text), key_name: `sk-...${text.slice(-4)}`, ...row });
  const model = (
    model_name: string,
    model_info: object | null,
    more: Record<string, unknown> = {},
  ) =>
    add('ProxyModelTable', {
      model_id: `id-${model_name}`,
      model_name,
      litellm_params: { model: 'ZW5jcnlwdGVk' },
      model_info,
      ...more,
    });
  return {
    url,
    run,
    add,
    key,
    model,
    team: (row: object) => add('TeamTable', row as Record<string, unknown>),
  };
}

/** An empty Tollgate, and the import into it. */
async function target(t: Test, more: Record<string, string> = {}) {
  const { db, url } = await testDatabase(t);
  const env = { DATABASE_URL: url, ...more };
  return {
    env,
    query: <T>(text: string) => db.run(60_000, (sql) => sql.unsafe(text) as never as Promise<T[]>),
    bring: (from: string, ...args: string[]) =>
      tollgate(['import', 'litellm', '--database', from, ...args], { env } as CliOptions),
  };
}

const PRICED = { mode: 'chat', input_cost_per_token: 1.5e-7, output_cost_per_token: 6e-7 };

const README = new URL('../../../README.md', import.meta.url);
const DRY_RUN = /(<!-- dry run[^\n]*-->\n\n```text\n)[\s\S]*?(```\n)/;

t.test('README.md shows what a dry run prints; UPDATE_README=1 writes it', async (t) => {
  const from = await litellm(t);
  await from.team({
    team_id: 'team-1',
    team_alias: 'Nordlicht',
    max_budget: 100,
    budget_duration: '30d',
    rpm_limit: 60,
  });
  await from.model('gpt-4o', { ...PRICED, cache_read_input_token_cost: 7.5e-8 });
  await from.model('openai/*', PRICED);
  await from.key('sk-abcdefghijklmnopQRST', {
    key_alias: 'Website',
    team_id: 'team-1',
    models: ['gpt-4o'],
    max_budget: 5,
    budget_duration: '24h',
  });
  const { bring } = await target(t);
  const { out } = await bring(from.url, '--usd-rate', '0.92', '--dry-run');
  const readme = readFileSync(README, 'utf8');
  const expected = readme.replace(DRY_RUN, (_, before, after) => `${before}${out}${after}`);
  if (process.env.UPDATE_README === '1') writeFileSync(README, expected);
  else t.equal(readme, expected);
  t.match(readme, DRY_RUN);
});

t.test(
  'a team comes with budget, limits and keys, a model with its prices; a dry run lists it and changes nothing',
  async (t) => {
    const from = await litellm(t);
    await from.team({
      team_id: 'team-1',
      team_alias: 'Nordlicht',
      max_budget: 100,
      budget_duration: '30d',
      rpm_limit: 60,
      tpm_limit: 90_000,
      max_parallel_requests: 4,
    });
    await from.model('gpt-4o', { ...PRICED, cache_read_input_token_cost: 7.5e-8 });
    await from.key('sk-abcdefghijklmnopQRST', {
      key_alias: 'Website',
      team_id: 'team-1',
      models: ['gpt-4o'],
      max_budget: 5,
      budget_duration: '24h',
      rpm_limit: 5,
      expires: '2099-01-31 12:00:00',
    });
    const to = await target(t);
    const dry = await to.bring(from.url, '--usd-rate', '0.92', '--dry-run');
    t.equal(dry.code, 0, dry.err);
    t.match(dry.out, /\+ company Nordlicht\n {4}name: Nordlicht\n/);
    t.match(dry.out, /\+ key Website of Nordlicht \(sk-…QRST\)\n/);
    t.match(
      dry.out,
      /\n3 changes would be made\.\n0 are here already and stay as they are; 0 do not come\.\n$/,
    );
    t.same(await to.query('select from companies'), []);

    const done = await to.bring(from.url, '--usd-rate', '0.92');
    t.equal(done.out.replace('changes made', 'changes would be made'), dry.out);
    t.match(await to.query('select * from companies'), [
      {
        name: 'Nordlicht',
        monthly_budget_eur: '92',
        daily_budget_eur: null,
        requests_per_minute: 60,
        tokens_per_minute: 90_000,
        max_concurrent: 4,
        allow_non_eu_models: true,
      },
    ]);
    t.match(
      await to.query(
        'select *, trim_scale(cost_eur_per_1k_input)::text as input, trim_scale(cost_eur_per_1k_output)::text as output, trim_scale(cost_eur_per_1k_cache_read)::text as cache from models',
      ),
      [
        {
          slug: 'gpt-4o',
          upstream_model: 'gpt-4o',
          company_id: null,
          kind: 'chat',
          eu_hosted: false,
          input: '0.000138',
          output: '0.000552',
          cache: '0.000069',
        },
      ],
    );
    t.match(await to.query("select *, encode(digest, 'hex') as hex from api_keys"), [
      {
        name: 'Website',
        hex: digest('sk-abcdefghijklmnopQRST'),
        prefix: 'sk-…QRST',
        scopes: ['chat', 'embeddings', 'rerank'],
        allowed_model_slugs: ['gpt-4o'],
        daily_budget_eur: '4.6',
        monthly_budget_eur: null,
        requests_per_minute: 5,
        expires_at: new Date('2099-01-31T12:00:00Z'),
        revoked_at: null,
        created_by: 'cli',
      },
    ]);
    const again = await to.bring(from.url, '--usd-rate', '0.92');
    t.match(again, {
      code: 0,
      out: 'Nothing to change.\n3 are here already and stay as they are; 0 do not come.\n',
    });
  },
);

t.test(
  'a second run brings what is new, and changes nothing that came before, here or there',
  async (t) => {
    const from = await litellm(t);
    const to = await target(t);
    await from.team({ team_id: 'a', team_alias: 'Alpha', models: ['one'] });
    await from.model('one', PRICED);
    await from.key('sk-first', { team_id: 'a', key_alias: 'First' });
    t.match(await to.bring(from.url, '--usd-rate', '1'), { code: 0 });
    await to.query("update companies set name = 'Renamed', monthly_budget_eur = 7");
    await to.query('update api_keys set revoked_at = now()');
    await from.run('update "LiteLLM_TeamTable" set max_budget = 50');
    await from.run('update "LiteLLM_VerificationToken" set rpm_limit = 9');
    await from.model('two', PRICED);
    await from.key('sk-second', { team_id: 'a', key_alias: 'Second' });
    const { out, json: _, ...ran } = await to.bring(from.url, '--usd-rate', '1');
    t.equal(ran.code, 0, ran.err);
    t.match(
      out,
      '= company Alpha\n    name: Renamed here, Alpha there\n    monthly_budget_eur: 7 here, 50 there\n',
    );
    t.match(out, '= key First of Renamed\n    requests_per_minute: none here, 9 there\n');
    t.match(
      out,
      '~ company Alpha\n    may not use two\n',
      'its team may not use the new model there',
    );
    t.match(
      await to.query('select name, monthly_budget_eur, disabled_model_slugs from companies'),
      [{ name: 'Renamed', monthly_budget_eur: '7', disabled_model_slugs: ['two'] }],
    );
    t.match(
      await to.query(
        'select name, revoked_at is null as works, requests_per_minute as rpm from api_keys order by name',
      ),
      [
        { name: 'First', works: false, rpm: null },
        { name: 'Second', works: true, rpm: null },
      ],
    );
  },
);

t.test('a key that came works at a gateway, under the name of the model that it had', async (t) => {
  const from = await litellm(t);
  const upstream = await scriptedUpstream(t);
  upstream.answerJson({
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'gpt-4o',
    choices: [
      { index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' },
    ],
    usage: { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 },
  });
  await from.team({ team_id: 'a', team_alias: 'Alpha' });
  await from.model('gpt-4o', PRICED);
  await from.key('sk-holder', { team_id: 'a' });
  const gateway = await startGateway(t, upstream.url);
  const env = { DATABASE_URL: gateway.databaseUrl };
  const ran = await tollgate(['import', 'litellm', '--database', from.url, '--usd-rate', '1'], {
    env,
  });
  t.equal(ran.code, 0, ran.err);
  const body = { model: 'gpt-4o', messages: [{ role: 'user', content: 'Hello' }] };
  await until(
    async () => (await ask(`${gateway.url}/models`, { key: 'sk-holder' })).json?.data?.length === 1,
    'the model is offered',
  );
  const answer = await ask(`${gateway.url}/chat/completions`, { key: 'sk-holder', body });
  t.match(answer, { status: 200, json: { model: 'gpt-4o' } });
  t.equal(answer.headers.get('x-cost-eur'), '0.00021');
  t.match(await ask(`${gateway.url}/chat/completions`, { key: 'sk-other', body }), { status: 401 });
});

t.test(
  'keys of no team are of a company of their person, with the budget that the person has',
  async (t) => {
    const from = await litellm(t);
    await from.add('UserTable', {
      user_id: 'u1',
      user_email: 'ada@example.com',
      max_budget: 10,
      budget_duration: '1mo',
      models: ['no-default-models'],
    });
    await from.add('UserTable', {
      user_id: 'u2',
      user_email: 'bo@example.com',
      user_alias: 'Bo',
      max_budget: 20,
      budget_duration: '1d',
    });
    await from.add('UserTable', { user_id: 'u3', user_email: 'no-key@example.com' });
    await from.key('sk-bo', { user_id: 'u2', key_alias: 'of Bo' });
    await from.key('sk-bo-2', { user_id: 'u2', key_alias: 'of Bo too' });
    await from.key('sk-nobody', { user_id: 'default_user_id' });
    await from.key('sk-nobody-2');
    const to = await target(t);
    const ran = await to.bring(from.url, '--usd-rate', '1');
    t.equal(ran.code, 0, ran.err);
    t.match(ran.out, '! people: 3, who sign in after "user invite"');
    t.match(
      await to.query(
        'select c.name, c.daily_budget_eur as daily, count(k.id)::int as keys from companies c join api_keys k on k.company_id = c.id group by c.id order by 1',
      ),
      [
        { name: 'Bo', daily: '20', keys: 2 },
        { name: 'Keys without a team', daily: null, keys: 2 },
      ],
    );
  },
);

t.test('budgets of all periods', async (t) => {
  const from = await litellm(t);
  const to = await target(t);
  await from.team({ team_id: 'a', team_alias: 'Alpha' });
  await from.add('BudgetTable', {
    budget_id: 'shared',
    max_budget: 3,
    budget_duration: '30d',
    rpm_limit: 7,
    soft_budget: 1,
  });
  const periods: [string, number, string | null, number][] = [
    ['month', 10, '1mo', 0],
    ['31 days', 10, '31d', 0],
    ['week', 7, '7d', 0],
    ['quarter', 90, '90d', 0],
    ['hour', 1, '1h', 0],
    ['for good', 12, null, 3],
    ['unknown', 12, 'fortnight', 0],
    ['daily', 1, 'daily', 3],
    ['monthly', 2, 'monthly', 0],
    ['7days', 3, '7days', 0],
    ['1month', 4, '1month', 0],
    ['24hours', 5, '24hours', 0],
    ['none', 6, 'None', 0],
    ['tiny', 0.001, '30d', 0],
  ];
  for (const [key_alias, max_budget, budget_duration, spend] of periods) {
    await from.key(`sk-${key_alias}`, {
      key_alias,
      team_id: 'a',
      max_budget,
      budget_duration,
      spend,
    });
  }
  const windows = [
    { budget_duration: '1d', max_budget: 4, reset_at: null },
    { budget_duration: '1h', max_budget: 1, reset_at: null },
    { budget_duration: '30d', max_budget: 20, reset_at: '2026-12-01T00:00:00Z' },
  ];
  await from.key('sk-windows', { key_alias: 'windows', team_id: 'a', budget_limits: windows });
  await from.key('sk-both', {
    key_alias: 'windows and a budget',
    team_id: 'a',
    max_budget: 10,
    budget_duration: '30d',
    budget_limits: windows,
  });
  await from.team({ team_id: 'w', team_alias: 'Windows', budget_limits: JSON.stringify(windows) });
  await from.key('sk-shared', { key_alias: 'of a budget', team_id: 'a', budget_id: 'shared' });
  const ran = await to.bring(from.url, '--usd-rate', '0.5');
  t.equal(ran.code, 0, ran.err);
  t.strictSame(
    (
      await to.query<object>(
        'select name, trim_scale(monthly_budget_eur)::text as month, trim_scale(daily_budget_eur)::text as day, requests_per_minute as rpm from api_keys order by 1',
      )
    ).map((row) => Object.values(row)),
    [
      ['1month', null, '2', null],
      ['24hours', null, '2.5', null],
      ['31 days', '5', null, null],
      ['7days', null, '1.5', null],
      ['daily', null, '0.5', null],
      ['for good', '6', null, null],
      ['hour', null, '12', null],
      ['month', '5', null, null],
      ['monthly', null, '1', null],
      ['none', '3', null, null],
      ['of a budget', '1.5', null, 7],
      ['quarter', '15', null, null],
      ['tiny', '0.0005', null, null],
      ['unknown', null, '6', null],
      ['week', '15', null, null],
      ['windows', '10', '2', null],
      ['windows and a budget', '5', '2', null],
    ],
  );
  t.match(
    await to.query(
      "select trim_scale(monthly_budget_eur)::text as month, trim_scale(daily_budget_eur)::text as day from companies where name = 'Windows'",
    ),
    [{ month: '10', day: '2' }],
  );
  t.same(await to.query('select from api_keys where paused_at is not null'), []);
  t.match(
    ran.out,
    'budget: 2 USD for monthly there, which LiteLLM begins anew each day, 1 EUR each day here',
  );
  t.match(ran.out, 'budget: 7 USD for 7d there, 15.00 EUR each month here');
  t.match(ran.out, 'budget: 12 USD for good there, 6 EUR each month here');
  t.match(ran.out, 'no counterpart: soft_budget');
});

t.test('what may do nothing there comes paused, with the reason; its key gets 403', async (t) => {
  const from = await litellm(t);
  const upstream = await scriptedUpstream(t);
  const gateway = await startGateway(t, upstream.url);
  const env = { DATABASE_URL: gateway.databaseUrl };
  await from.model('one', PRICED);
  await from.team({ team_id: 'a', team_alias: 'Alpha' });
  await from.team({ team_id: 'b', team_alias: 'Blocked', blocked: true });
  const idle: Record<string, [Record<string, unknown>, string | null]> = {
    blocked: [{ blocked: true }, 'blocked at LiteLLM'],
    'in a blocked team': [{ team_id: 'b' }, null],
    'no budget': [{ max_budget: 0, budget_duration: '30d' }, 'a budget of 0 USD at LiteLLM'],
    'no models': [{ models: ['no-default-models'] }, 'no model allowed at LiteLLM'],
    'no requests': [{ rpm_limit: 0 }, 'a limit of 0 requests at LiteLLM'],
    'no window': [
      { budget_limits: [{ budget_duration: '1d', max_budget: 0 }] },
      'a budget of 0 USD at LiteLLM',
    ],
    spent: [{ max_budget: 5, spend: 5 }, 'a budget of 5 USD, spent at LiteLLM'],
  };
  for (const [key_alias, [row]] of Object.entries(idle)) {
    await from.key(`sk-${key_alias.replaceAll(' ', '-')}`, { team_id: 'a', key_alias, ...row });
  }
  await from.key('sk-works', { team_id: 'a', key_alias: 'works' });
  const bring = () =>
    tollgate(['import', 'litellm', '--database', from.url, '--usd-rate', '1'], { env });
  const ran = await bring();
  t.equal(ran.code, 0, ran.err);
  t.match(ran.out, '    paused: a budget of 5 USD, spent at LiteLLM\n');
  const keys =
    await gateway.sql`select name, pause_reason as reason from api_keys where name <> 'works' order by name`;
  t.same(
    keys.map(({ name, reason }) => [name, reason]),
    Object.entries(idle).map(([name, [, reason]]) => [name, reason]),
  );
  t.match(await gateway.sql`select pause_reason from companies where name = 'Blocked'`, [
    { pause_reason: 'blocked at LiteLLM' },
  ]);
  const chat = (key: string) => ask(`${gateway.url}/models`, { key });
  await until(async () => (await chat('sk-works')).status === 200, 'the keys are known');
  t.match(await chat('sk-blocked'), { status: 403, json: { error: { code: 'key_paused' } } });
  t.match(await chat('sk-in-a-blocked-team'), {
    status: 403,
    json: { error: { code: 'account_paused' } },
  });
  await from.run(`update "LiteLLM_VerificationToken" set blocked = true where key_alias = 'works'`);
  const { out } = await bring();
  t.match(out, '= key works of Alpha\n    paused: false here, true there\n');
  t.equal((await chat('sk-works')).status, 200, 'what came once stays as it is');
});

t.test(
  'what is no key of a program, or ended, does not come; nor does the key of the router',
  async (t) => {
    const from = await litellm(t);
    const to = await target(t, {
      UPSTREAM_API_KEY: MASTER_KEY,
      UPSTREAM_URL: 'http://127.0.0.1:9/v1',
    });
    await from.team({ team_id: 'a', team_alias: 'Alpha' });
    await from.key('sk-session', { team_id: 'litellm-dashboard' });
    await from.key('sk-ended', {
      team_id: 'a',
      key_alias: 'ended',
      expires: '2020-01-01 00:00:00',
    });
    await from.key('sk-never', { team_id: 'a', key_alias: 'never', expires: '-infinity' });
    await from.key('sk-ancient', { team_id: 'a', key_alias: 'ancient', expires: '0044-03-15 BC' });
    const routes = {
      counts: ['/v1/messages/count_tokens'],
      threads: ['/v1/threads', '/v1/threads/{thread_id}/messages', '/v1/responses/{response_id}'],
      passes: ['/anthropic/*', '/v1/messages/batches*'],
    };
    for (const [key_alias, allowed_routes] of Object.entries(routes))
      await from.key(`sk-${key_alias}`, { team_id: 'a', key_alias, allowed_routes });
    await from.key('sk-lost', { team_id: 'gone', key_alias: 'lost' });
    await from.key('sk-manages', {
      team_id: 'a',
      key_alias: 'manages',
      allowed_routes: ['management_routes'],
    });
    await from.key('sk-embeds', {
      team_id: 'a',
      key_alias: 'embeds',
      allowed_routes: ['/v1/embeddings'],
    });
    await from.key(MASTER_KEY, { team_id: 'a', key_alias: 'master' });
    await from.add('VerificationToken', {
      token: 'sk-not-hashed-at-all',
      key_alias: 'plain',
      team_id: 'a',
    });
    await from.add('DeprecatedVerificationToken', {
      id: '1',
      token: digest('sk-before'),
      active_token_id: digest('sk-embeds'),
      revoke_at: '2099-01-01 00:00:00',
    });
    const ran = await to.bring(from.url);
    t.equal(ran.code, 0, ran.err);
    t.match(ran.err, /Nothing listens at 127\.0\.0\.1:9.* models of the configuration file/s);
    t.match(ran.out, "! sign-ins to LiteLLM's own pages: 1, ");
    t.match(ran.out, '! key ended: ended there, 2020-01-01T00:00:00.000Z');
    t.match(ran.out, '! key never: its end cannot be read: -infinity');
    t.match(ran.out, '! key ancient: its end cannot be read: 0044-03-15T00:00:00 BC');
    for (const [name, [first]] of Object.entries(routes))
      t.match(ran.out, `! key ${name}: calls no endpoint here: ${first}`);
    t.match(ran.out, '! key lost: its team is not there: gone');
    t.match(ran.out, '! key manages: calls no endpoint here: management_routes');
    t.match(ran.out, '! key master: is the key by which the gateway calls the router');
    t.match(ran.out, '! key plain: its digest is not SHA-256 in hex');
    t.notMatch(ran.out, /sk-not-hashed/);
    t.match(
      await to.query(
        "select name, scopes, encode(digest, 'hex') as hex, expires_at from api_keys order by expires_at nulls first",
      ),
      [
        { name: 'embeds', scopes: ['embeddings'], hex: digest('sk-embeds'), expires_at: null },
        {
          name: 'embeds',
          scopes: ['embeddings'],
          hex: digest('sk-before'),
          expires_at: new Date('2099-01-01T00:00:00Z'),
        },
      ],
    );
  },
);

t.test('routes of a key become its scopes', async (t) => {
  const from = await litellm(t);
  const to = await target(t);
  await from.team({ team_id: 'a', team_alias: 'Alpha' });
  const all = ['chat', 'embeddings', 'rerank'];
  const routes: [route: string, scopes: string[]][] = [
    ['/chat/completions', ['chat']],
    ['/v1/completions', ['chat']],
    ['/engines/{model}/chat/completions', ['chat']],
    ['/openai/deployments/{model}/chat/completions', ['chat']],
    ['/openai/v1/responses', ['chat']],
    ['/v1/messages', ['chat']],
    ['anthropic_routes', ['chat']],
    ['/v1/chat/*', ['chat']],
    ['/v1/embeddings', ['embeddings']],
    ['/v2/rerank', ['rerank']],
    ['*', all],
    ['/*', all],
    ['/v1/*', all],
    ['llm_api_routes', all],
    ['openai_routes', all],
  ];
  for (const [route] of routes)
    await from.key(`sk-${route}`, { team_id: 'a', key_alias: route, allowed_routes: [route] });
  const ran = await to.bring(from.url);
  t.equal(ran.code, 0, ran.err);
  const rows = await to.query<{ name: string; scopes: string[] }>(
    'select name, scopes from api_keys',
  );
  const found = new Map(rows.map(({ name, scopes }) => [name, scopes.sort()]));
  for (const [route, scopes] of routes) t.same(found.get(route), scopes, route);
});

t.test(
  'models: several deployments, no price, kinds, patterns, groups, those of a team; the router tells the rest',
  async (t) => {
    const from = await litellm(t);
    const info = [
      {
        model_name: 'of-file',
        litellm_params: { model: 'openai/x', region_name: 'eu' },
        model_info: {
          id: 'f1',
          db_model: false,
          mode: 'chat',
          input_cost_per_token: 1e-6,
          output_cost_per_token: 2e-6,
          input_cost_per_token_above_200k_tokens: 2e-6,
          output_cost_per_second: null,
        },
      },
      {
        model_name: 'unknown-cost',
        litellm_params: {},
        model_info: { id: 'f2', mode: 'chat', input_cost_per_token: 0, output_cost_per_token: 0 },
      },
      {
        model_name: 'free',
        litellm_params: { input_cost_per_token: 0, output_cost_per_token: 0 },
        model_info: { id: 'f3', mode: 'chat', input_cost_per_token: 0, output_cost_per_token: 0 },
      },
      {
        model_name: 'told',
        litellm_params: {},
        model_info: {
          id: 'id-told',
          mode: 'embedding',
          input_cost_per_token: 1e-7,
          output_cost_per_token: 0,
        },
      },
      {
        model_name: 'image',
        litellm_params: {},
        model_info: { id: 'f4', mode: 'image_generation' },
      },
      { model_name: 'openai/*', litellm_params: {}, model_info: { id: 'f5' } },
      null,
    ];
    let path = '';
    const upstream = await scriptedUpstream(t);
    upstream.answer((res, _body, { url, headers }) => {
      path = `${url} ${headers.authorization}`;
      res.setHeader('content-type', 'application/json').end(JSON.stringify({ data: info }));
    });
    const to = await target(t, { UPSTREAM_URL: upstream.url, UPSTREAM_API_KEY: MASTER_KEY });
    await from.model('twice', {
      ...PRICED,
      access_groups: ['beta'],
      max_input_tokens: 128_000,
      max_output_tokens: 16_384,
    });
    await from.model(
      'twice',
      { ...PRICED, input_cost_per_token: '3e-7', max_input_tokens: 32_000 },
      { model_id: 'second' },
    );
    await from.model(
      'set',
      { mode: 'chat' },
      {
        litellm_params: { model: 'eA==', input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 },
      },
    );
    await from.model('told', null);
    await from.model('no-price', { mode: 'chat' });
    await from.model('off', PRICED, { blocked: true });
    await from.model('a name with blanks', PRICED);
    await from.team({
      team_id: 'a',
      team_alias: 'Alpha',
      models: ['beta', 'set', 'own', 'openai/*'],
    });
    await from.model('model_name_a_1', { ...PRICED, team_id: 'a', team_public_model_name: 'own' });
    await from.key('sk-key', { team_id: 'a', models: ['beta', 'later', 'not a slug'] });
    await from.key('sk-all', { team_id: 'a', models: ['all-team-models'], key_alias: 'all' });
    const ran = await to.bring(from.url, '--usd-rate', '1');
    t.equal(ran.code, 0, ran.err);
    t.equal(path, `/v1/model/info Bearer ${MASTER_KEY}`);
    t.strictSame(
      (
        await to.query<object>(
          'select slug, upstream_model, kind, eu_hosted, trim_scale(cost_eur_per_1k_input)::text, trim_scale(cost_eur_per_1k_output)::text as out, company_id is null as shared from models order by 1',
        )
      ).map((row) => Object.values(row)),
      [
        ['free', 'free', 'chat', false, '0', '0', true],
        ['of-file', 'of-file', 'chat', true, '0.001', '0.002', true],
        ['own', 'model_name_a_1', 'chat', false, '0.00015', '0.0006', false],
        ['set', 'set', 'chat', false, '0.001', '0.001', true],
        ['told', 'told', 'embedding', false, '0.0001', '0', true],
        ['twice', 'twice', 'chat', false, '0.0003', '0.0006', true],
      ],
    );
    for (const left of [
      'unknown-cost: has no price',
      'no-price: has no price',
      'off: is blocked there',
      'a name with blanks: its name',
      'image: no kind of model is for image_generation',
      'openai/*: is a pattern',
    ]) {
      t.match(ran.out, `! model ${left}`);
    }
    t.match(ran.out, 'input price: the highest of its 2 deployments');
    t.match(
      await to.query("select context_length, max_output_tokens from models where slug = 'twice'"),
      [{ context_length: 32_000, max_output_tokens: 16_384 }],
    );
    t.match(await to.query("select rates from models where slug = 'of-file'"), [
      { rates: [{ over: 200_000, input: '0.002', output: '0.002' }] },
    ]);
    t.match(
      ran.out,
      'aside: output of over 200000 is not said: it costs as without this condition',
    );
    t.match(ran.out, 'no counterpart: models not a slug');
    t.match(await to.query('select disabled_model_slugs from companies'), [
      { disabled_model_slugs: ['free', 'of-file', 'told'] },
    ]);
    t.match(await to.query('select allowed_model_slugs from api_keys order by name'), [
      { allowed_model_slugs: null },
      { allowed_model_slugs: ['later', 'twice'] },
    ]);
  },
);

t.test('hostile names, and what has no counterpart, are listed by name alone', async (t) => {
  const from = await litellm(t);
  const to = await target(t);
  await from.team({
    team_id: 'a',
    team_alias: `Evil\u202e\u0007\n${'x'.repeat(300)}`,
    metadata: { guardrails: ['pii'], 'logging\u001b[2J': { secret: 'hidden' } },
    members_with_roles: [{ role: 'admin', user_id: 'u1' }],
    organization_id: 'o',
  });
  await from.team({ team_id: 'b', team_alias: '\u200b' });
  await from.team({ team_id: "'; drop table companies; --", team_alias: 'Same' });
  await from.team({ team_id: 'c', team_alias: 'Same' });
  await from.key('sk-x', {
    team_id: 'a',
    key_alias: '=cmd()|"\u0000'.replace('\u0000', ''),
    aliases: { a: 'b' },
    metadata: { tags: ['t'] },
    model_max_budget: { x: 1 },
  });
  await from.add('EndUserTable', { user_id: 'e' });
  await from.add('SpendLogs', { request_id: 'r' });
  const ran = await to.bring(from.url);
  t.equal(ran.code, 0, ran.err);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  t.notMatch(ran.out, /[\u0000-\u0009\u000b-\u001f\u202e]/);
  t.notMatch(ran.out, /hidden|SpendLogs/);
  t.match(ran.out, 'no counterpart: metadata.guardrails, metadata.logging[2J, organization_id');
  t.match(ran.out, 'no counterpart: aliases, metadata.tags, model_max_budget');
  t.match(ran.out, '    people: 1\n');
  t.match(ran.out, 'another company is called Same too');
  t.match(ran.out, '! table LiteLLM_EndUserTable: no counterpart, rows: 1');
  const names = (await to.query<{ name: string }>('select name from companies')).map(
    ({ name }) => name,
  );
  t.same(names.sort(), [`Evil ${'x'.repeat(195)}`, 'Same', 'Same', 'b'].sort());
});

t.test(
  'what is no LiteLLM database, cannot be reached or has no rate is refused, and nothing changes',
  async (t) => {
    const to = await target(t);
    const { url: empty } = await emptyDatabase(t);
    t.match(await to.bring(empty), { code: 1, err: /there is no LiteLLM database/ });
    t.match(await to.bring('postgres://u:secret@127.0.0.1:9/x'), {
      code: 1,
      err: /^tollgate: --database: .*ECONNREFUSED/,
    });
    const wrong = await to.bring('mysql://u:secret@x/y');
    t.match(wrong, { code: 1, err: /the database URL must look like/ });
    t.notMatch(wrong.err, /secret/);
    const old = await litellm(
      t,
      SCHEMA.replace(
        'budget_id text, organization_id text, object_permission_id text,\n  created_at',
        'created_at',
      ),
    );
    t.match(await to.bring(old.url), {
      code: 1,
      err: /there is no column LiteLLM_VerificationToken\.budget_id; update LiteLLM first/,
    });
    const from = await litellm(t);
    await from.team({ team_id: 'a', team_alias: 'Alpha', max_budget: 5 });
    t.match(await to.bring(from.url), {
      code: 1,
      err: /1 budgets and prices there are in USD: give --usd-rate/,
    });
    t.match(await to.bring(from.url, '--usd-rate', '0'), {
      code: 64,
      err: /must be the EUR for one USD/,
    });
    const ran = await to.bring(
      `${from.url}?schema=public&connection_limit=5&pool_timeout=2`,
      '--usd-rate',
      '1',
      '--json',
    );
    t.match(ran, {
      code: 0,
      json: {
        dry_run: false,
        steps: [{ done: 'create', what: 'company Alpha' }],
        kept: [],
        left: [],
      },
    });
  },
);
