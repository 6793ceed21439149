import t from 'tap';
import { wordsOf } from '../../../src/domain/language/language.ts';
import { LANGUAGES } from '../../../src/domain/languages.ts';
import { OWN_MODEL_COLUMNS } from '../../../src/domain/settings/model.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { pageOfAudit } from '../../../src/store/lists/audit.ts';
import { testDatabase } from '../../support/postgres.ts';

/** What the audit log finds. Its rows are written here as the triggers write them. */

const { db } = await testDatabase(t);
const ALL = { search: '', newestFirst: true, from: null, company: null };

interface Change {
  readonly at?: string;
  readonly actor?: string;
  readonly action?: string;
  readonly subject?: string;
  readonly before?: Readonly<Record<string, unknown>> | null;
  readonly after?: Readonly<Record<string, unknown>> | null;
}

/** @returns the id of the change */
async function log(sql: Sql, change: Change): Promise<number> {
  const {
    at = '2026-01-01T00:00:00Z',
    actor = 'ann@a.example',
    action = 'update',
    subject = 'companies',
  } = change;
  const { before = null, after = null } = change;
  const [row] = await sql<[{ id: number }]>`
    insert into audit_log (at, actor, db_role, action, subject, before, after)
    values (${at}, ${actor}, 'app', ${action}, ${subject}, ${before as never}, ${after as never}) returning id`;
  return row.id;
}

t.test('each word that the page has for a change finds it, in the language of the page', (t) =>
  db.run(250_000, async (sql) => {
    const end = '2026-01-01T00:00:00+00:00';
    const actions: Readonly<Record<string, Change>> = {
      insert: { action: 'insert', after: {} },
      update: { before: {}, after: {} },
      delete: { action: 'delete', before: {} },
      truncate: { action: 'truncate' },
      erase: { action: 'erase' },
      revoked: { subject: 'api_keys', before: { revoked_at: null }, after: { revoked_at: end } },
      closed: { before: { closed_at: null }, after: { closed_at: end } },
      reopened: { before: { closed_at: end }, after: { closed_at: null } },
      paused: { before: { paused_at: null }, after: { paused_at: end } },
      resumed: { before: { paused_at: end }, after: { paused_at: null } },
    };
    for (const language of LANGUAGES) {
      const words = wordsOf(language);
      const { audit, people } = words;
      t.same(Object.keys(audit.actions).sort(), Object.keys(actions).sort());
      const tables = await sql<{ name: string; columns: string[] }[]>`
        select relname as name, array_agg(attname::text) as columns from pg_attribute join pg_class on pg_class.oid = attrelid
        where relname in ${sql(Object.keys(audit.nouns))} and attnum > 0 and not attisdropped group by relname`;
      const changes: [string, Change][] = [
        ...Object.entries(audit.actions).map(
          ([name, word]) => [word, actions[name] as Change] as [string, Change],
        ),
        ...Object.entries(audit.nouns).map(
          ([subject, word]) => [word, { subject }] as [string, Change],
        ),
        [people.commandLine, { actor: 'cli' }],
        [people.operator, { actor: 'operator' }],
        [audit.bySql, { actor: 'app' }],
        ...Object.entries(audit.columns).map(([name, word]): [string, Change] => {
          const subject = tables.find(({ columns }) => columns.includes(name))?.name;
          t.ok(subject, `${name} is a column of the log`);
          return [
            word,
            { ...(subject && { subject }), before: { [name]: 1 }, after: { [name]: 2 } },
          ];
        }),
      ];
      const nothing = await log(sql, { action: 'none', subject: 'nothing' }).catch(() => null);
      t.equal(nothing, null, 'there are no other actions');
      for (const [word, change] of changes) {
        const id = await log(sql, change);
        for (const search of process.env.ALL === undefined
          ? [word]
          : new Set([word, ...word.split(' ')])) {
          const { rows } = await pageOfAudit(sql, { ...ALL, words, search, limit: 1 });
          t.equal(rows[0]?.id, id, `${language}: ${search}`);
        }
      }
    }
  }),
);

t.test(
  'a search finds no change by the words of another one, nor fails for what no word has',
  (t) =>
    db.run(60_000, async (sql) => {
      const id = await log(sql, {
        subject: 'admin_tokens',
        action: 'insert',
        after: { name: 'Billing' },
      });
      const found = async (language: 'en' | 'de', search: string) => {
        const { rows } = await pageOfAudit(sql, {
          ...ALL,
          words: wordsOf(language),
          search,
          limit: 500,
        });
        return rows.some((row) => row.id === id);
      };
      t.ok(await found('en', 'created administration token billing'));
      for (const search of ['Verwaltungstoken angelegt', 'VERWALTUNGSTOKEN', 'angele\u0301gt'])
        t.ok(await found('de', search), search);
      t.notOk(await found('en', 'administration token revoked'));
      t.notOk(await found('de', 'Verwaltungstoken widerrufen'));
      for (const search of ['🎉', '(', '[a', '\\', 'a|b', '.*', '\ud83d', '^', '{2}'])
        t.equal(await found('de', search), false, search);
    }),
);

t.test('an owner finds nothing by columns that pages do not show', (t) =>
  db.run(60_000, async (sql) => {
    const [{ id: company }] = await sql<
      [{ id: string }]
    >`insert into companies (name) values ('Acme') returning id`;
    await sql`insert into audit_log (actor, db_role, action, subject, company_id, before, after) values
      ('ann@a.example', 'app', 'update', 'models', ${company}, ${{ upstream_model: 'x' } as never}, ${{ upstream_model: 'y' } as never})`;
    t.notOk(OWN_MODEL_COLUMNS.includes('upstream_model'));
    for (const search of ['internal name', 'upstream_model']) {
      t.same((await pageOfAudit(sql, { ...ALL, company, search })).rows, [], search);
      t.not((await pageOfAudit(sql, { ...ALL, search })).rows.length, 0, search);
    }
  }),
);

t.test('a day whose midnight comes twice begins at the first one, as on pages of usage', (t) =>
  db.run(60_000, async (sql) => {
    for (const [zone, day, before, first] of [
      ['America/Havana', '2026-11-01', '2026-11-01T03:59:59.999999Z', '2026-11-01T04:00:00Z'],
      ['Atlantic/Azores', '2026-10-25', '2026-10-24T23:59:59.999999Z', '2026-10-25T00:00:00Z'],
      ['America/Nuuk', '2026-03-29', '2026-03-29T00:59:59.999999Z', '2026-03-29T01:00:00Z'],
      ['Europe/Berlin', '2026-11-01', '2026-10-31T22:59:59.999999Z', '2026-10-31T23:00:00Z'],
    ] as const) {
      await sql`update settings set value = ${zone} where name = 'billing_timezone'`;
      const [last, next] = [await log(sql, { at: before }), await log(sql, { at: first })];
      const of = async (days: object) =>
        (await pageOfAudit(sql, { ...ALL, ...days })).rows.map(({ id }) => id);
      const dayBefore = new Date(Date.parse(day) - 86_400_000).toISOString().slice(0, 10);
      const [since, until] = [await of({ firstDay: day }), await of({ lastDay: dayBefore })];
      t.same([since.includes(next), since.includes(last)], [true, false], `from: ${zone}`);
      t.same([until.includes(next), until.includes(last)], [false, true], `to: ${zone}`);
    }
  }),
);
