import { wordsOf } from '../domain/language/language.ts';
import { ENGLISH } from '../domain/languages.ts';
import * as schema from '../domain/settings/schema.ts';
import { MEASURES, SUBJECTS } from '../domain/unusual.ts';
import { unusualText } from '../domain/wording/unusual.ts';
import type { Sql } from '../store/connection/pool.ts';
import { readUnusual } from '../store/events/unusual.ts';
import { getList, type Operation, pageOfAll } from './frame/row.ts';

/** What is unusual today, as gateways found it in the last minutes. */

const MOST = 10_000;

const row = schema.object({
  id: { ...schema.id, description: 'that of the event, unless it is superseded' },
  measure: schema.oneOf(MEASURES),
  subject: schema.oneOf(SUBJECTS, 'what was compared'),
  company: schema.object({ id: schema.id, name: schema.string }),
  key: schema.orNull(
    schema.described(
      schema.object({ id: schema.id, name: schema.string, prefix: schema.string }),
      'what was compared, or half of it or more',
    ),
  ),
  model: schema.described(schema.textOrNull, 'likewise'),
  day: schema.day,
  until: { ...schema.string, description: 'the time up to which it was compared, "14:20"' },
  value: {
    ...schema.string,
    description: 'EUR, requests, or milliseconds of a request, as decimal text',
  },
  usual: {
    ...schema.string,
    description: 'the median of the same hours of the same weekday in the last weeks',
  },
  superseded: schema.described(
    schema.boolean,
    'it belongs to a jump that another one tells, or that began on a day before',
  ),
  text: schema.string,
});

/** @param company null: of all */
async function listUnusual(sql: Sql, company: string | null) {
  const words = wordsOf(ENGLISH);
  const rows = await readUnusual(sql, company, true, MOST);
  return rows.map((each) => ({ ...each, text: unusualText(each.measure, each, words) }));
}

export const unusualOperations: readonly Operation[] = [
  getList('listUnusual', '/companies/{company}/unusual', {
    summary: 'List what is unusual today of a company, its keys and its models',
    action: 'usage.read',
    row,
    read: async (sql, { company }, range) => pageOfAll(range, await listUnusual(sql, company)),
  }),
  getList('listAllUnusual', '/unusual', {
    summary: 'List what is unusual today',
    action: 'overview.read',
    row,
    filters: { company_id: schema.id },
    read: async (sql, { query }, range) =>
      pageOfAll(range, await listUnusual(sql, query.company_id ?? null)),
    command: {
      noun: 'unusual',
      notes: 'A running gateway compares every five minutes.',
      all: (sql, { company_id = null }) => listUnusual(sql, company_id),
      columns: ['text'],
      empty: 'Nothing is unusual today.',
    },
  }),
];
