import { hash, randomUUID } from 'node:crypto';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { promptPieces } from '../../../src/domain/assistant.ts';
import type { Company } from '../../../src/domain/company.ts';
import { GatewayError } from '../../../src/domain/errors.ts';
import { REVOKED } from '../../../src/domain/key.ts';
import { type Model, modelAt } from '../../../src/domain/model.ts';
import { parsePrices } from '../../../src/domain/pricing/prices.ts';
import { openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { ChangeFeed, type Follower } from '../../../src/store/gateway/change-feed.ts';
import { CachedDirectory, type DirectoryOptions } from '../../../src/store/gateway/directory.ts';
import { deaf, replacing } from '../../support/database.ts';
import { testDatabase } from '../../support/postgres.ts';
import { type Passage, startProxy } from '../../support/proxy.ts';
import { until } from '../../support/until.ts';

const QUERY_MS = 10_000;
const SILENT = pino({ level: 'silent' });

/** A directory on a database of its own that follows the changes plain SQL makes there. */
interface Scene {
  readonly directory: CachedDirectory;
  readonly changes: ChangeFeed;
  /** The subjects of all changes that the feed told. */
  readonly told: readonly string[];
  /** Plain SQL, straight to the database. */
  readonly sql: <T>(query: (sql: Sql) => PromiseLike<T>) => Promise<T>;
  readonly proxy: Passage;
  readonly logged: string[];
  /** Queries the directory made. */
  readonly queries: { count: number };
  /** Resolves when the directory was told of every change so far, as often as it is going to be. */
  settle(): Promise<void>;
}

interface SceneOptions extends DirectoryOptions {
  /** What the change feed has: notifications and polls, or one of them. */
  readonly feed?: 'both' | 'notifications' | 'polls';
  /** Runs before an answer of the database reaches the directory. */
  readonly delay?: () => Promise<void>;
}

async function setScene(
  t: Test,
  { feed = 'both', delay, ...options }: SceneOptions = {},
): Promise<Scene> {
  const { url, db } = await testDatabase(t);
  const proxy = await startProxy(t, url);
  const way = openDatabase({ url: proxy.url, maxConnections: 4 });
  const queries = { count: 0 };
  const counted = replacing(way, {
    async run(deadlineMs, work) {
      queries.count++;
      const answer = await way.run(deadlineMs, work);
      await delay?.();
      return answer;
    },
  });
  const logged: string[] = [];
  const stream = new Writable({
    write: (line, _encoding, done) => {
      logged.push(String(line));
      done();
    },
  });
  const directory = new CachedDirectory(counted, pino(stream), options);
  const heard = feed === 'polls' ? deaf(way) : way;
  const told: string[] = [];
  const follower: Follower = {
    changed(kind, subject) {
      told.push(subject);
      directory.changed(kind, subject);
    },
    missed: () => directory.missed(),
    polled: () => directory.polled(),
  };
  const changes = new ChangeFeed(heard, [follower], SILENT, {
    pollMs: feed === 'notifications' ? 2 ** 31 - 1 : 50,
  });
  t.teardown(async () => {
    await changes.close();
    await way.close();
  });
  const ready = () =>
    changes.polls >= (feed === 'polls' ? 1 : 2) && (feed === 'polls' || changes.listening);
  await until(ready, 'the change feed is followed');
  return {
    directory,
    changes,
    told,
    sql: (query) => db.run(QUERY_MS, query),
    proxy,
    logged,
    queries,
    async settle() {
      const mark = randomUUID();
      await db.run(QUERY_MS, (sql) => sql`select announce_change('key', ${mark})`);
      const times = () => told.filter((subject) => subject === mark).length;
      await until(() => times() === 1, 'the feed has told every change so far');
    },
  };
}

const digestOf = (name: string): string => hash('sha256', name, 'hex');

async function addCompany(sql: Sql, name = 'ACME'): Promise<string> {
  const [row] = await sql<
    [{ id: string }]
  >`insert into companies (name) values (${name}) returning id`;
  return row.id;
}

async function addKey(sql: Sql, companyId: string, name: string): Promise<string> {
  await sql`
    insert into api_keys (company_id, name, digest, prefix, scopes)
    values (${companyId}, ${name}, decode(${digestOf(name)}, 'hex'), 'svc_aaaa', '{chat,assistants}')`;
  return digestOf(name);
}

async function addModel(
  sql: Sql,
  slug: string,
  companyId: string | null = null,
  price = '0.5',
): Promise<void> {
  await sql`
    insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output, created_at)
    values (${slug}, ${companyId}, 'internal-name', 'chat', true, ${price}, ${price}, '2026-11-21 12:00:00.9Z')`;
}

async function addAssistant(
  sql: Sql,
  companyId: string,
  visibility = 'company',
  project: string | null = null,
) {
  const [row] = await sql<[{ id: string }]>`
    insert into assistants (company_id, name, system_prompt, visibility, project_id)
    values (${companyId}, 'Helper', 'Be brief.', ${visibility}, ${project}) returning id`;
  return row.id;
}

t.test(
  'a key is loaded with what the hot path needs; a revoked one is told from an unknown one',
  async (t) => {
    const { directory, sql } = await setScene(t);
    const company = await sql((sql) => addCompany(sql));
    const expires = Date.parse('2027-01-02T03:04:05.678Z');
    const [plain, expiring, forever, revoked] = await sql(async (sql) => {
      const digests = [];
      for (const name of ['plain', 'expiring', 'forever', 'revoked'])
        digests.push(await addKey(sql, company, name));
      await sql`update api_keys set expires_at = ${new Date(expires)}, scopes = '{}' where name = 'expiring'`;
      await sql`update api_keys set expires_at = 'infinity' where name = 'forever'`;
      await sql`update api_keys set revoked_at = now() where name = 'revoked'`;
      return digests as [string, string, string, string];
    });
    t.match(await directory.key(plain), {
      id: /^[0-9a-f-]{36}$/,
      companyId: company,
      scopeBits: 1 | 4,
      expiresAt: Infinity,
    });
    t.match(await directory.key(expiring), { scopeBits: 0, expiresAt: expires });
    t.match(await directory.key(forever), { expiresAt: Infinity });
    t.match(await directory.key(revoked), { companyId: company, expiresAt: REVOKED });
    t.equal(await directory.key(digestOf('unknown')), null);
  },
);

t.test(
  'a company is loaded with exact money, its settings and its own and the shared models',
  async (t) => {
    const { directory, sql } = await setScene(t);
    const [full, free, none] = await sql(async (sql) => {
      const ids = [
        await addCompany(sql, 'Full'),
        await addCompany(sql, 'Free'),
        await addCompany(sql, 'None'),
      ] as const;
      await sql`update companies set monthly_budget_eur = 12.000000000000001, disabled_model_slugs = '{"a,b",c}',
      allow_non_eu_models = true where id = ${ids[0]}`;
      await sql`update companies set monthly_budget_eur = 0.00 where id = ${ids[1]}`;
      await addModel(sql, 'shared', null, '0.000000000001');
      await addModel(sql, 'own', ids[0], '1.10');
      return ids;
    });
    const company = await until(
      () => directory.company(full),
      'the feed tells of the shared model',
      (company) => company?.sharedModels.size === 1,
    );
    t.match(company, { id: full, name: 'Full', allowNonEu: true, budget: 12_000_000_000_000_001n });
    t.same([...(company?.disabledSlugs ?? [])], ['a,b', 'c']);
    t.same(
      [...(company?.ownModels ?? [])],
      [
        [
          'own',
          {
            slug: 'own',
            upstream: 'internal-name',
            kind: 'chat',
            euHosted: true,
            acceptsTokens: false,
            contextLength: null,
            maxOutputTokens: null,
            prices: parsePrices('1.10', '1.10'),
            created: Date.parse('2026-11-21T12:00:00Z') / 1000,
            next: null,
          },
        ],
      ],
    );
    t.same([...(company?.sharedModels.keys() ?? [])], ['shared']);
    t.equal(company?.sharedModels.get('shared')?.prices.input, 1000n);
    t.match(await directory.company(free), { budget: null, ownModels: new Map() });
    t.match(await directory.company(none), { budget: null, ownModels: new Map() });
    t.equal(await directory.company(randomUUID()), null);
  },
);

t.test(
  'prices that begin at a date are known beforehand and hold without the database',
  async (t) => {
    const { directory, sql, proxy } = await setScene(t);
    const [company, other] = await sql(async (sql) => {
      const ids = [await addCompany(sql), await addCompany(sql)] as const;
      await addModel(sql, 'shared', null, '1');
      await addModel(sql, 'shared', ids[0], '10');
      return ids;
    });
    const first = Math.round(Date.now() / 1000) * 1000 + 3_600_000;
    const second = first + 1000;
    for (const [owner, at, price] of [
      [null, second, '3'],
      [null, first, '2.000000000001'],
      [company, first, '20'],
    ] as const) {
      await sql(
        (sql) => sql`insert into model_prices (slug, company_id, valid_from, input, output)
      values ('shared', ${owner}, ${new Date(at)}, ${price}, '0.5')`,
      );
    }
    const modelOf = async (id: string) => {
      const found = await directory.company(id);
      return found?.ownModels.get('shared') ?? found?.sharedModels.get('shared');
    };
    const depth = (model: Model | undefined): number =>
      model?.next == null ? 0 : 1 + depth(model.next.model);
    const shared = (await until(
      () => modelOf(other),
      'both are known',
      (model) => depth(model) === 2,
    )) as Model;
    const own = (await until(
      () => modelOf(company),
      'the own one is known',
      (model) => depth(model) === 1,
    )) as Model;
    await proxy.cut();
    const priceAt = (model: Model, at: number) => modelAt(model, at).prices.texts.input;
    t.same(
      [first - 1, first, first + 999, second, second + 1e12].map((at) => priceAt(shared, at)),
      ['1', '2.000000000001', '2.000000000001', '3', '3'],
    );
    t.same(
      [first - 1, first, second].map((at) => priceAt(own, at)),
      ['10', '20', '20'],
    );
    t.equal(modelAt(shared, first - 1), shared);
    t.match(modelAt(shared, second), {
      ...shared,
      prices: { output: 500_000_000_000_000n },
      next: null,
    });
    t.equal(
      modelAt(shared, second),
      modelAt(shared, second),
      'the same object, by which others remember it',
    );
  },
);

t.test('a price that was withdrawn does not begin', async (t) => {
  const { directory, sql } = await setScene(t);
  const company = await sql((sql) => addCompany(sql));
  await sql((sql) => addModel(sql, 'kept'));
  const next = async () => (await directory.company(company))?.sharedModels.get('kept')?.next;
  const at = new Date(Date.now() + 3_600_000);
  await sql(
    (sql) =>
      sql`insert into model_prices (slug, valid_from, input, output) values ('kept', ${at}, 2, 2)`,
  );
  await until(next, 'it is known', (coming) => coming?.model.prices.texts.input === '2');
  await sql((sql) => sql`update model_prices set input = 3 where slug = 'kept' and not applied`);
  await until(next, 'its change is known', (coming) => coming?.model.prices.texts.input === '3');
  await sql((sql) => sql`delete from model_prices where slug = 'kept' and not applied`);
  await until(next, 'it is gone', (coming) => coming === null);
});

t.test(
  'an assistant of another company, an ineligible, unknown or malformed one is null',
  async (t) => {
    const { directory, sql, queries } = await setScene(t);
    const [ours, theirs] = await sql(
      async (sql) => [await addCompany(sql), await addCompany(sql)] as const,
    );
    const ids = await sql(async (sql) => ({
      good: await addAssistant(sql, ours),
      hidden: await Promise.all(
        ['private', 'persons', 'teams', 'projects'].map((visibility) =>
          addAssistant(sql, ours, visibility),
        ),
      ),
      project: await addAssistant(sql, ours, 'company', randomUUID()),
    }));
    await sql(
      (sql) =>
        sql`update assistants set temperature = 0.25, max_tokens = 7, model_slug = 'm' where id = ${ids.good}`,
    );
    const expected = {
      id: ids.good,
      companyId: ours,
      prompt: promptPieces('Be brief.'),
      modelSlug: 'm',
      temperature: 0.25,
      maxTokens: 7,
    };
    t.equal(await directory.assistant(ids.good, theirs), null, 'foreign, not loaded yet');
    t.equal(directory.assistant(ids.good, theirs), null, 'foreign, loaded');
    t.same(await directory.assistant(ids.good, ours), expected);
    t.same(await directory.assistant(ids.good.toUpperCase(), ours), expected);
    for (const id of [...ids.hidden, ids.project, randomUUID()])
      t.equal(await directory.assistant(id, ours), null);

    queries.count = 0;
    const malformed = [
      '',
      'x',
      "'; drop table assistants",
      `${ids.good} `,
      `{${ids.good}}`,
      'ä'.repeat(36),
      '\0',
    ];
    for (const id of malformed) t.equal(directory.assistant(id, ours), null);
    t.equal(queries.count, 0, 'what is no id is not asked for');
  },
);

t.test('what is known is returned at once, the same object each time', async (t) => {
  const { directory, sql, queries, settle } = await setScene(t, { feed: 'notifications' });
  const company = await sql((sql) => addCompany(sql));
  const key = await sql((sql) => addKey(sql, company, 'key'));
  const assistant = await sql((sql) => addAssistant(sql, company));
  await settle();
  const loaded = [
    await directory.key(key),
    await directory.company(company),
    await directory.assistant(assistant, company),
  ];
  queries.count = 0;
  for (let i = 0; i < 100; i++) {
    t.equal(directory.key(key), loaded[0]);
    t.equal(directory.company(company), loaded[1]);
    t.equal(directory.assistant(assistant, company), loaded[2]);
  }
  t.equal(queries.count, 0);
});

t.test('however many miss one key at once, one query is made', async (t) => {
  const { directory, sql, queries, settle } = await setScene(t, { feed: 'notifications' });
  const company = await sql((sql) => addCompany(sql));
  const key = await sql((sql) => addKey(sql, company, 'key'));
  await settle();
  queries.count = 0;
  const found = await Promise.all(Array.from({ length: 500 }, () => directory.key(key)));
  t.equal(new Set(found).size, 1);
  t.equal(found[0]?.companyId, company);
  t.equal(queries.count, 1);
});

t.test(
  'a flood of unknown keys costs few queries, and known ones among them are found',
  async (t) => {
    const { directory, sql, queries, settle } = await setScene(t, { feed: 'notifications' });
    const company = await sql((sql) => addCompany(sql));
    const key = await sql((sql) => addKey(sql, company, 'key'));
    await settle();
    queries.count = 0;
    const flood = Array.from({ length: 5000 }, (_, i) => directory.key(digestOf(`unknown ${i}`)));
    t.match(await directory.key(key), { companyId: company });
    t.same(new Set(await Promise.all(flood)), new Set([null]));
    t.ok(queries.count <= 20, `${queries.count} queries`);
  },
);

t.test(
  'a malformed company id is unknown and spoils nothing for others asked for with it',
  async (t) => {
    const { directory, sql } = await setScene(t);
    const company = await sql((sql) => addCompany(sql));
    const found = await Promise.all(
      ['1', '2', 'no id', company, 'none'].map((id) => directory.company(id)),
    );
    t.match(found, [null, null, null, { id: company }, null]);
  },
);

t.test(
  'limits and what narrows a key are read with it, and a change of each is told',
  async (t) => {
    const { directory, sql, settle } = await setScene(t);
    const company = await sql((sql) => addCompany(sql));
    const digest = await sql((sql) => addKey(sql, company, 'key'));
    t.match(await directory.key(digest), { limits: null, restriction: null });
    t.match(await directory.company(company), { limits: null });
    const set = async (assignment: string) => {
      await sql((sql) => sql.unsafe(`update api_keys set ${assignment}`));
      await settle();
      return directory.key(digest);
    };
    t.match(await set('requests_per_minute = 60'), {
      limits: { requestsPerMinute: 60, tokensPerMinute: null },
    });
    t.match(await set('tokens_per_minute = 1000000000000'), { limits: { tokensPerMinute: 1e12 } });
    t.match(await set('max_concurrent = 3'), { limits: { maxConcurrent: 3 } });
    t.match(await set(`monthly_budget_eur = '0'`), { restriction: null }, 'unlimited');
    t.match(await set(`monthly_budget_eur = '0.5'`), {
      restriction: { budget: 500_000_000_000_000n, models: null },
    });
    const narrowed = await set(`allowed_model_slugs = '{a,"b c"}'`);
    t.same(narrowed?.restriction?.models, new Set(['a', 'b c']));
    const { networks } =
      (await set(`allowed_cidrs = '{10.0.0.0/8,2001:db8::/32,192.0.2.7}'`))?.restriction ?? {};
    const within = ['10.255.0.1', '192.0.2.7', '192.0.2.8', '11.0.0.1'].map((address) =>
      networks?.check(address),
    );
    t.same(within, [true, true, false, false]);
    t.same(
      [networks?.check('2001:db8::1', 'ipv6'), networks?.check('2001:db9::1', 'ipv6')],
      [true, false],
    );
    await sql((sql) => sql`update companies set max_concurrent = 7`);
    await settle();
    t.match(await directory.company(company), {
      limits: { maxConcurrent: 7, requestsPerMinute: null },
    });
  },
);

t.test('every kind of change made by plain SQL is true once the feed has told it', async (t) => {
  const feeds = ['notifications', 'polls', 'both'] as const;
  t.jobs = 4;
  for (const feed of feeds) {
    for (const killed of feed === 'both' ? [false, true] : [false]) {
      t.test(
        `${feed}${killed ? ', listening connection killed' : ''}`,
        { buffered: true },
        async (t) => {
          const { directory, sql, changes, settle } = await setScene(t, { feed });
          const company = await sql((sql) => addCompany(sql));
          const other = await sql((sql) => addCompany(sql));
          const key = await sql((sql) => addKey(sql, company, 'key'));
          const assistant = await sql((sql) => addAssistant(sql, company));
          await sql((sql) => addModel(sql, 'shared'));
          await sql((sql) => addModel(sql, 'own', company));
          const now = async () => ({
            key: await directory.key(key),
            second: await directory.key(digestOf('second')),
            rotated: await directory.key(digestOf('rotated')),
            company: await directory.company(company),
            other: await directory.company(other),
            assistant: await directory.assistant(assistant, company),
          });
          type Now = Awaited<ReturnType<typeof now>>;

          const change = async (
            what: string,
            query: (sql: Sql) => PromiseLike<unknown>,
            isSo: (now: Now) => boolean,
          ) => {
            t.notOk(isSo(await now()), `${what}: not so before`);
            if (killed) await sql((sql) => killListener(sql));
            await sql(query);
            // without a listener: a poll under way at the commit may miss the change, the next one tells it
            const { polls } = changes;
            if (killed) await until(() => changes.polls >= polls + 2, 'two more polls');
            else await settle();
            // shared models are read anew in the background, everything else at its next use
            if (/shared model|truncated/.test(what)) await until(now, what, isSo);
            else t.ok(isSo(await now()), what);
          };
          await until(
            now,
            'the shared model is known',
            ({ company }) => company?.sharedModels.has('shared') === true,
          );

          await change(
            'key created',
            (sql) => addKey(sql, company, 'second'),
            ({ second }) => second !== null,
          );
          await change(
            'scopes narrowed',
            (sql) => sql`update api_keys set scopes = '{embeddings}' where name = 'key'`,
            ({ key }) => key?.scopeBits === 2,
          );
          await change(
            'expiry set',
            (sql) => sql`update api_keys set expires_at = '2020-01-01Z' where name = 'key'`,
            ({ key }) => key?.expiresAt === Date.UTC(2020),
          );
          await change(
            'digest replaced',
            (sql) =>
              sql`update api_keys set digest = decode(${digestOf('rotated')}, 'hex') where name = 'second'`,
            ({ second, rotated }) => second === null && rotated !== null,
          );
          await change(
            'key moved',
            (sql) => sql`update api_keys set company_id = ${other} where name = 'second'`,
            ({ rotated }) => rotated?.companyId === other,
          );
          await change(
            'key revoked',
            (sql) => sql`update api_keys set revoked_at = now() where name = 'key'`,
            ({ key }) => key?.expiresAt === REVOKED,
          );
          await change(
            'key deleted',
            (sql) => sql`delete from api_keys where name = 'second'`,
            ({ rotated }) => rotated === null,
          );
          await change(
            'budget lowered',
            (sql) => sql`update companies set monthly_budget_eur = 1 where id = ${company}`,
            ({ company }) => company?.budget === 10n ** 15n,
          );
          await change(
            'model disabled',
            (sql) =>
              sql`update companies set disabled_model_slugs = '{shared}' where id = ${company}`,
            ({ company }) => company?.disabledSlugs.has('shared') === true,
          );
          await change(
            'EU gate of a company opened',
            (sql) => sql`update companies set allow_non_eu_models = true where id = ${company}`,
            ({ company }) => company?.allowNonEu === true,
          );
          await change(
            'price of a shared model',
            (sql) =>
              sql`update models set cost_eur_per_1k_input = 2, cost_eur_per_1k_output = 0.75 where company_id is null`,
            ({ company, other }) =>
              [company, other].every(
                (each) => each?.sharedModels.get('shared')?.prices.texts.input === '2',
              ),
          );
          await change(
            'price of an own model',
            (sql) => sql`update models set cost_eur_per_1k_input = 3 where company_id = ${company}`,
            ({ company }) => company?.ownModels.get('own')?.prices.texts.input === '3',
          );
          await change(
            'EU gate of a shared model',
            (sql) => sql`update models set eu_hosted = false where company_id is null`,
            ({ other }) => other?.sharedModels.get('shared')?.euHosted === false,
          );
          await change(
            'token ids of a shared model',
            (sql) => sql`update models set token_input = 'accept' where company_id is null`,
            ({ other }) => other?.sharedModels.get('shared')?.acceptsTokens === true,
          );
          await change(
            'shared model created',
            (sql) => addModel(sql, 'more'),
            ({ other }) => other?.sharedModels.has('more') === true,
          );
          await change(
            'shared model becomes one of a company alone',
            (sql) => sql`update models set company_id = ${other} where slug = 'more'`,
            ({ company, other }) =>
              other?.ownModels.has('more') === true && company?.sharedModels.has('more') === false,
          );
          await change(
            'own model deleted',
            (sql) => sql`delete from models where company_id = ${company}`,
            ({ company }) => company?.ownModels.size === 0,
          );
          await change(
            'prompt of an assistant',
            (sql) => sql`update assistants set system_prompt = 'Be long.' where id = ${assistant}`,
            ({ assistant }) => assistant?.prompt.join('') === '"Be long.\\n\\n',
          );
          await change(
            'assistant made private',
            (sql) => sql`update assistants set visibility = 'private' where id = ${assistant}`,
            ({ assistant }) => assistant === null,
          );
          await change(
            'assistant shared again',
            (sql) => sql`update assistants set visibility = 'company' where id = ${assistant}`,
            ({ assistant }) => assistant !== null,
          );
          await change(
            'models truncated',
            (sql) => sql`truncate models`,
            ({ company, other }) => company?.sharedModels.size === 0 && other?.ownModels.size === 0,
          );
          await sql((sql) => addKey(sql, other, 'second'));
          await change(
            'company deleted, and its assistant with it',
            (sql) => sql`delete from companies where id = ${company}`,
            ({ company, assistant }) => company === null && assistant === null,
          );
          await until(now, 'the second key is known', ({ second }) => second !== null);
          await change(
            'everything truncated',
            (sql) => sql`truncate companies cascade`,
            ({ other, second }) => other === null && second === null,
          );
        },
      );
    }
  }
});

/** Ends the backend that listens for the gateway of this database. */
function killListener(sql: Sql): PromiseLike<unknown> {
  return sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and query ilike any(array['listen%', 'select 1'])`;
}

t.test('a load under way when the key is revoked does not bring the key back', async (t) => {
  let held: PromiseWithResolvers<void> | null = null;
  const { directory, sql, told, queries, settle } = await setScene(t, {
    delay: async () => held?.promise,
  });
  const company = await sql((sql) => addCompany(sql));
  const key = await sql((sql) => addKey(sql, company, 'key'));
  await settle();

  held = Promise.withResolvers<void>();
  queries.count = 0;
  const early = directory.key(key);
  await until(() => queries.count === 1, 'the key is read');
  // the answer, a valid key, is held back; meanwhile the key is revoked
  const idle = () =>
    sql(
      (sql) =>
        sql`select from pg_stat_activity where state = 'idle' and query like '%from api_keys%'`,
    );
  await until(async () => (await idle()).length > 0, 'the query is answered');
  const before = told.length;
  await sql((sql) => sql`update api_keys set revoked_at = now() where name = 'key'`);
  await until(() => told.length > before, 'the revocation is told');
  const late = directory.key(key);
  held.resolve();
  for (const found of [await early, await late, await directory.key(key)])
    t.match(found, { expiresAt: REVOKED });
  t.ok(queries.count >= 2, 'it was read again');
});

t.test(
  'a database outage is invisible to what is known; what is not is refused, never called unknown',
  async (t) => {
    for (const kind of ['cut', 'freeze'] as const) {
      await t.test(kind, async (t) => {
        const { directory, sql, proxy, changes, logged, settle } = await setScene(t);
        const company = await sql((sql) => addCompany(sql));
        const key = await sql((sql) => addKey(sql, company, 'key'));
        const assistant = await sql((sql) => addAssistant(sql, company));
        await sql((sql) => addModel(sql, 'shared'));
        await settle();
        const known = [
          await directory.key(key),
          await until(
            () => directory.company(company),
            'the shared model is known',
            (found) => found?.sharedModels.has('shared') === true,
          ),
          await directory.assistant(assistant, company),
        ];
        await proxy[kind]();
        await until(() => !changes.available, 'a poll fails');
        const refused = (lookup: unknown) =>
          Promise.resolve(lookup).then(
            (value) => t.fail('answered', { value }),
            (error) => {
              t.ok(error instanceof GatewayError);
              t.match(error, { status: 503, retryAfter: '1', code: 'service_unavailable' });
            },
          );
        await Promise.all([
          refused(directory.key(digestOf('unknown'))),
          refused(directory.company(randomUUID())),
          refused(directory.assistant(randomUUID(), company)),
        ]);
        t.equal(directory.key(key), known[0]);
        t.equal(directory.company(company), known[1]);
        t.equal(directory.assistant(assistant, company), known[2]);
        t.equal(logged.filter((line) => line.includes('cannot be read')).length, 1, 'said once');

        await sql((sql) => sql`update api_keys set revoked_at = now() where name = 'key'`);
        await sql((sql) => addKey(sql, company, 'unknown'));
        t.equal(directory.key(key), known[0], 'nothing can be known of the change yet');
        await proxy.restore();
        await until(() => changes.available, 'a poll succeeds');
        t.match(
          await directory.key(key),
          { expiresAt: REVOKED },
          'the first poll applies what was missed',
        );
        t.match(await directory.key(digestOf('unknown')), { companyId: company });
        t.equal(
          directory.company(company),
          known[1],
          'what did not change was not even read again',
        );
      });
    }
  },
);

t.test(
  'after a gap everything is read again, and serves as it was where it cannot be',
  async (t) => {
    const { directory, sql, proxy, settle } = await setScene(t, { feed: 'notifications' });
    const company = await sql((sql) => addCompany(sql));
    const key = await sql((sql) => addKey(sql, company, 'key'));
    const other = await sql((sql) => addKey(sql, company, 'other'));
    await settle();
    const known = await directory.key(key);
    await directory.key(other);
    await directory.company(company);

    await sql(async (sql) => {
      for (const table of ['api_keys', 'companies'])
        await sql`alter table ${sql(table)} disable trigger announce`; // changes the feed never hears of
      await sql`update api_keys set revoked_at = now() where name = 'other'`;
      await sql`update companies set allow_non_eu_models = true`;
      for (const table of ['api_keys', 'companies'])
        await sql`alter table ${sql(table)} enable trigger announce`;
    });
    t.ok(directory.key(other), 'nobody knows');
    t.match(directory.company(company), { allowNonEu: false });
    directory.missed();
    t.match(await directory.key(other), { expiresAt: REVOKED });
    t.match(await directory.company(company), { allowNonEu: true });

    await proxy.cut();
    directory.missed();
    t.equal(await directory.key(key), known);
    t.match(await directory.company(company), { id: company, allowNonEu: true });
  },
);

t.test(
  'a database that freezes while everything is in doubt keeps nobody waiting until the deadline',
  async (t) => {
    const { directory, sql, proxy, logged, settle } = await setScene(t, { feed: 'notifications' });
    const company = await sql((sql) => addCompany(sql));
    const keys = await sql((sql) =>
      Promise.all(['one', 'two', 'three'].map((name) => addKey(sql, company, name))),
    );
    await settle();
    const known = await Promise.all(keys.map((key) => directory.key(key)));
    proxy.freeze();
    directory.missed();
    t.same(await Promise.all(keys.map((key) => directory.key(key))), known);
    t.notMatch(logged.join(), /cannot be read/, 'no query was given up yet');
  },
);

t.test(
  'the shared models are replaced as a whole; those somebody holds stay as they were',
  async (t) => {
    const { directory, sql, proxy, logged, settle } = await setScene(t);
    const companies = await sql((sql) => Promise.all([addCompany(sql), addCompany(sql)]));
    await sql((sql) => addModel(sql, 'one'));
    const models = async (id = companies[0]) => [
      ...((await directory.company(id as string))?.sharedModels.keys() ?? []),
    ];
    await until(async () => (await models()).length === 1, 'the first model is known');
    const held = await directory.company(companies[0] as string);
    await sql((sql) => addModel(sql, 'two'));
    await until(async () => (await models()).length === 2, 'the second model is known');
    t.same([...(held?.sharedModels.keys() ?? [])], ['one']);
    await settle(); // a change that is still to be told would drop one of them
    for (const id of companies) await directory.company(id);
    const [first, second] = companies.map((id) => directory.company(id) as Company);
    t.equal(first?.sharedModels, second?.sharedModels, 'they are one map for all companies');

    await settle();
    await models(); // all is in memory
    await proxy.cut();
    directory.changed('model', '');
    await until(
      () => logged.some((line) => line.includes('cannot be read')),
      'the log tells that models cannot be read',
    );
    t.same(await models(), ['one', 'two'], 'one change just before an outage refuses nobody');
    await sql(async (sql) => {
      await sql`alter table models disable trigger announce`; // so that nothing but the failed reading asks for another
      await addModel(sql, 'three');
      await sql`alter table models enable trigger announce`;
    });
    await proxy.restore();
    await until(async () => (await models()).length === 3, 'the third model is known');
  },
);

t.test('memory is bounded, and what had to go is loaded again', async (t) => {
  const { directory, sql } = await setScene(t, {
    maxKeys: 10,
    maxCompanies: 10,
    maxAssistants: 10,
  });
  const company = await sql((sql) => addCompany(sql));
  for (let i = 0; i < 25; i++) {
    const id = await sql((sql) => addCompany(sql, `C${i}`));
    const key = await sql((sql) => addKey(sql, company, `key ${i}`));
    const assistant = await sql((sql) => addAssistant(sql, company));
    t.ok(await directory.key(key));
    t.ok(await directory.company(id));
    t.ok(await directory.assistant(assistant, company));
    for (const { size } of [directory.keys, directory.companies, directory.assistants])
      t.ok(size <= 10);
  }
  t.ok(await directory.key(digestOf('key 0')));
});

t.test('a company that had to go is loaded again', async (t) => {
  const { directory, sql, queries, settle } = await setScene(t, { maxCompanies: 2 });
  const [company, ...others] = await sql((sql) =>
    Promise.all(['a', 'b', 'c'].map((name) => addCompany(sql, name))),
  );
  await settle();
  const before = await directory.company(company as string);
  t.equal(directory.company(company as string), before);
  for (const id of others) await directory.company(id);
  queries.count = 0;
  const again = directory.company(company as string);
  t.ok(again instanceof Promise);
  t.same(await again, before);
  t.ok(queries.count > 0);
  t.equal(directory.company(company as string), await again);
});

t.test('a model without a price is warned about once, without its internal name', async (t) => {
  const { directory, sql, logged } = await setScene(t);
  const warnings = () => logged.filter((line) => line.includes('no price'));
  const company = await sql((sql) => addCompany(sql));
  await sql((sql) => addModel(sql, 'gratis', null, '0'));
  await sql((sql) => addModel(sql, 'own-gratis', company, '0.000'));
  await sql((sql) => addModel(sql, 'paid', company));
  await directory.company(company);
  await until(() => warnings().length === 2, 'both models are warned about');
  for (let i = 0; i < 3; i++) {
    directory.changed('all', '');
    await directory.company(company);
  }
  t.same(
    warnings()
      .map((line) => JSON.parse(line))
      .map(({ level, model, company }) => ({ level, model, company }))
      .sort((a, b) => (a.model < b.model ? -1 : 1)), // the two are read side by side
    [
      { level: 40, model: 'gratis', company: null },
      { level: 40, model: 'own-gratis', company },
    ],
  );
  t.notMatch(logged.join(''), 'internal-name');
});

/** Runs a change that no trigger announces. */
async function unannounced(
  sql: Scene['sql'],
  change: (sql: Sql) => PromiseLike<unknown>,
): Promise<void> {
  await sql(async (sql) => {
    await sql`set session_replication_role = replica`;
    await change(sql);
    await sql`reset session_replication_role`;
  });
}

t.test('a change that was not announced is found by a comparison with the database', async (t) => {
  const { directory, sql, logged } = await setScene(t, { checkMs: 0 });
  const company = await sql((sql) => addCompany(sql));
  const digest = await sql((sql) => addKey(sql, company, 'one'));
  const assistant = await sql((sql) => addAssistant(sql, company));
  await sql((sql) => addModel(sql, 'shared'));
  await sql((sql) => addModel(sql, 'own', company));
  const key = async () =>
    (await directory.key(digest)) as NonNullable<Awaited<ReturnType<typeof directory.key>>>;
  const found = async () => (await directory.company(company)) as Company;
  const changes: [change: (sql: Sql) => PromiseLike<unknown>, isSeen: () => Promise<boolean>][] = [
    [
      (sql) => sql`update api_keys set scopes = '{embeddings}'`,
      async () => (await key()).scopeBits === 2,
    ],
    [
      (sql) => sql`update api_keys set max_concurrent = 7`,
      async () => (await key()).limits?.maxConcurrent === 7,
    ],
    [
      (sql) => sql`update api_keys set allowed_cidrs = '{10.0.0.0/8}'`,
      async () => (await key()).restriction?.networks?.check('10.1.1.1', 'ipv4') === true,
    ],
    [
      (sql) => sql`update api_keys set allowed_cidrs = '{192.168.0.0/16}'`,
      async () => (await key()).restriction?.networks?.check('10.1.1.1', 'ipv4') === false,
    ],
    [
      (sql) => sql`update api_keys set allowed_model_slugs = '{fast}'`,
      async () => (await key()).restriction?.models?.has('fast') === true,
    ],
    [
      (sql) => sql`update api_keys set expires_at = '2030-01-01'`,
      async () => (await key()).expiresAt < Number.POSITIVE_INFINITY,
    ],
    [
      (sql) => sql`update api_keys set revoked_at = now()`,
      async () => (await key()).expiresAt === REVOKED,
    ],
    [
      (sql) => sql`update companies set monthly_budget_eur = 5`,
      async () => (await found()).budget !== null,
    ],
    [
      (sql) => sql`update companies set disabled_model_slugs = '{fast}'`,
      async () => (await found()).disabledSlugs.has('fast'),
    ],
    [
      (sql) => sql`update models set eu_hosted = false where slug = 'own'`,
      async () => (await found()).ownModels.get('own')?.euHosted === false,
    ],
    [
      (sql) => sql`update models set upstream_model = 'other' where slug = 'shared'`,
      async () => (await found()).sharedModels.get('shared')?.upstream === 'other',
    ],
    [
      (sql) => sql`update assistants set system_prompt = 'Be long.'`,
      async () =>
        Buffer.concat((await directory.assistant(assistant, company))?.prompt as Buffer[])
          .toString()
          .includes('long'),
    ],
    [
      (sql) => sql`delete from assistants`,
      async () => (await directory.assistant(assistant, company)) === null,
    ],
    [(sql) => sql`delete from api_keys`, async () => (await directory.key(digest)) === null],
  ];
  for (const [change, isSeen] of changes) {
    t.equal(await isSeen(), false);
    await unannounced(sql, change);
    await until(isSeen, 'it is found');
  }
  t.match(logged.join(''), 'changes of which it told nothing');
  t.notMatch(logged.join(''), digest, 'no log has a digest');
});

t.test(
  'a comparison forgets nothing that is as it was, and reaches all of a large memory',
  async (t) => {
    const { directory, sql, changes } = await setScene(t, { checkMs: 0 });
    const company = await sql((sql) => addCompany(sql));
    const names = Array.from({ length: 450 }, (_, n) => `key ${n}`);
    const digests = await sql((sql) =>
      Promise.all(names.map((name) => addKey(sql, company, name))),
    );
    await Promise.all([
      ...digests.map((digest) => directory.key(digest)),
      directory.company(company),
    ]);
    const [keys, companies] = [directory.keys.misses, directory.companies.misses];
    const last = digests.at(-1) as string;
    await unannounced(
      sql,
      (sql) => sql`update api_keys set revoked_at = now() where digest = decode(${last}, 'hex')`,
    );
    await until(() => directory.keyInMemory(last) === null, 'the changed one is forgotten');
    const { polls } = changes;
    await until(() => changes.polls > polls + 8, 'all is compared again');
    t.equal(directory.keys.size, 449);
    await Promise.all([
      ...digests.map((digest) => directory.key(digest)),
      directory.company(company),
    ]);
    t.equal(directory.keys.misses, keys + 1, 'one was read again');
    t.equal(directory.companies.misses, companies, 'the company was not');
  },
);

t.test(
  'end users that are erased at once are a few notices, and only they are forgotten',
  async (t) => {
    const { directory, sql, told, settle } = await setScene(t);
    const [leaving, staying] = (await sql((sql) =>
      Promise.all(['leaving', 'staying'].map((name) => addCompany(sql, name))),
    )) as [string, string];
    await sql(
      (sql) =>
        sql`insert into end_users (company_id, name) select ${leaving}, 'person ' || n from generate_series(0, 999) as n`,
    );
    const all = () =>
      Promise.all(
        Array.from({ length: 1000 }, (_, n) => directory.endUser(leaving, `person ${n}`)),
      );
    await until(() => all().catch(() => null), 'all are in memory'); // a busy machine may take longer than the deadline
    const other = await directory.endUser(staying, 'person 0');
    const gone = directory.endUser(leaving, 'person 7') as { id: string };
    t.equal(directory.endUsers.size, 1001);
    await settle();
    const before = told.length;
    await sql((sql) => sql`update end_users set name = null where company_id = ${leaving}`);
    await settle();
    t.ok(told.length - before < 15, `${told.length - before} notices`);
    t.equal(directory.endUsers.size, 1);
    t.equal(directory.endUser(staying, 'person 0'), other, 'nothing of others was touched');
    t.not((await directory.endUser(leaving, 'person 7'))?.id, gone.id, 'somebody new');
  },
);

t.test('a company whose keys are many is paused by a few notices', async (t) => {
  const { directory, sql, told, settle } = await setScene(t);
  const company = await sql((sql) => addCompany(sql));
  await sql(
    (sql) => sql`insert into api_keys (company_id, name, digest, prefix, scopes)
      select ${company}, 'key ' || n, sha256(('key ' || n)::bytea), 'svc_aaaa', '{chat}' from generate_series(1, 1000) as n`,
  );
  t.match(await directory.key(digestOf('key 999')), { pause: null });
  await settle();
  const before = told.length;
  await sql((sql) => sql`update companies set paused_at = now() where id = ${company}`);
  await settle();
  t.ok(told.length - before < 15, `${told.length - before} notices`);
  t.match(await directory.key(digestOf('key 999')), { pause: { error: 'account_paused' } });
});

t.test(
  'a company with many end users displaces its own, and nobody of companies with few',
  async (t) => {
    const { directory, sql } = await setScene(t, { maxEndUsers: 100 });
    const [many, few] = (await sql((sql) =>
      Promise.all(['many', 'few'].map((name) => addCompany(sql, name))),
    )) as [string, string];
    const known = await directory.endUser(few, 'ann');
    for (let i = 0; i < 300; i++) await directory.endUser(many, `person ${i}`);
    t.equal(directory.endUser(few, 'ann'), known);
    t.equal(directory.endUsers.size, 100);
    for (let i = 0; i < 60; i++) await directory.endUser(few, `person ${i}`);
    const displaced = directory.endUser(few, 'person 0');
    t.ok(displaced instanceof Promise, 'an equal part, and no more');
    t.ok(directory.endUser(many, 'person 299') instanceof Promise === false);
    t.equal(directory.endUsers.size, 100);
    await displaced;
  },
);

t.test(
  'a month brings a company so many new end users, and those beyond them one row',
  async (t) => {
    const { directory, sql } = await setScene(t);
    const [crowded, other] = (await sql((sql) =>
      Promise.all(['crowded', 'other'].map((name) => addCompany(sql, name))),
    )) as [string, string];
    const named = (company: string, names: string[], most: number) =>
      sql(
        (sql) => sql<{ name: string; id: string; other: boolean }[]>`
        select name, id::text, is_other as other from end_user_ids(${names.map(() => company)}::uuid[], ${names}::text[], ${most}) order by name`,
      );
    t.same(
      (await named(crowded, ['a', 'b', 'c', 'd'], 3)).map((row) => row.other),
      [false, false, false, true],
    );
    const [known, fresh] = await named(crowded, ['a', 'z'], 3);
    t.match([known, fresh], [{ other: false }, { other: true }]);
    t.equal((await named(crowded, ['y'], 3))[0]?.id, fresh?.id);
    t.match(await named(other, ['a'], 3), [{ other: false }], 'of each company');
    await sql(
      (sql) => sql`update end_users set first_seen = now() - interval '40 days' where name = 'a'`,
    );
    t.match(await named(crowded, ['y'], 4), [{ other: false }], 'of each month');
    t.equal((await directory.endUser(crowded, 'y'))?.id, (await named(crowded, ['y'], 4))[0]?.id);
  },
);
