import { randomBytes } from 'node:crypto';
import { MOST_PERCENTS } from '../../domain/field.ts';
import { digestBytes } from '../../domain/key.ts';
import { LANGUAGES } from '../../domain/languages.ts';
import { refusal, throwConflict } from '../../domain/refusal.ts';
import * as schema from '../../domain/settings/schema.ts';
import { CREATED_BY, createdBy } from '../connection/actor.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';

/** How long the link works by which an address outside the company confirms. */
export const CONFIRM_DAYS = 7;

const percents: schema.Schema<readonly number[]> = {
  type: 'array',
  items: { type: 'integer', minimum: 1, maximum: 100 },
  maxItems: MOST_PERCENTS,
  description: 'parts of a monthly budget at which the receiver is told, in percent',
};
/** What somebody is told of budgets; percents in their order. */
export const CHOICE = schema.object({
  percents,
  forecast: schema.described(
    schema.boolean,
    'told too when the month will pass the budget at its pace',
  ),
});
export type AlertChoice = schema.Value<typeof CHOICE>;

/** Members are columns of the table, without the digest. */
export const RECEIVER = schema.object({
  id: schema.id,
  company_id: schema.id,
  email: schema.described(
    schema.orNull(schema.email),
    'null: owners and administrators without a line of their own',
  ),
  ...CHOICE.properties,
  is_person: schema.described(
    schema.boolean,
    'a user of the company, who confirms nothing; true with null',
  ),
  created_at: schema.time,
  created_by: createdBy,
  expires_at: schema.orNull(
    schema.described(schema.time, 'when the link to confirm ends; null: none was sent'),
  ),
  confirmed_at: schema.orNull(schema.time),
  language: schema.orNull(
    schema.oneOf<string>(
      LANGUAGES,
      'of e-mails to an address outside the company; null: that of the company',
    ),
  ),
});
export type AlertReceiverRow = schema.Value<typeof RECEIVER>;

/** A receiver and the company that tells it. */
type Named = AlertReceiverRow & { readonly company_name: string };

type NewReceiver = AlertChoice &
  Pick<AlertReceiverRow, 'company_id' | 'email' | 'language'> & { readonly created_by: string };

const ROWS = rowsIn<AlertReceiverRow>({
  table: 'alert_receivers',
  noun: 'receiver',
  columns: (
    sql,
  ) => sql`id, company_id, email, percents, forecast, created_at, ${sql.unsafe(CREATED_BY)} as created_by,
    expires_at, confirmed_at, language, email is null or exists (
      select 1 from users u where u.email = alert_receivers.email and u.company_id = alert_receivers.company_id) as is_person`,
});

export const { find: findReceiver, remove: deleteReceiver } = ROWS;

/** @throws Refused where the address has a line, or the company does not exist */
export function insertReceiver(sql: Sql, asked: NewReceiver): Promise<AlertReceiverRow> {
  const { company_id, email, percents, forecast, created_by, language } = asked;
  return ROWS.insert(
    sql,
    sql`(company_id, email, percents, forecast, created_by, language)
      values (${company_id}, ${email}, ${[...percents]}::smallint[], ${forecast}, ${created_by}, ${language})`,
    company_id,
    { alert_receivers_once: () => throwConflict('receiver', refusal('receiverTwice', { email })) },
  );
}

/** @throws Refused missing */
export function updateReceiver(
  sql: Sql,
  company: string,
  id: string,
  { percents, forecast }: AlertChoice,
) {
  return ROWS.update(
    sql,
    sql`percents = ${[...percents]}::smallint[], forecast = ${forecast}`,
    id,
    company,
  );
}

/** All lines of a company: first that of its owners and administrators, then by address. They are few. */
export function listReceivers(sql: Sql, company: string): Promise<AlertReceiverRow[]> {
  return ROWS.list(sql, sql`where company_id = ${company} order by email nulls first`);
}

/** Makes the link for an address outside the company; an earlier one ends. @returns its random part, known only now */
export async function askReceiver(sql: Sql, id: string): Promise<string> {
  const token = randomBytes(32).toString('base64url');
  await sql`
    update alert_receivers set digest = ${digestBytes(token)}, expires_at = now() + make_interval(days => ${CONFIRM_DAYS})
    where id = ${id}`;
  return token;
}

/** The receiver of a link, with the name of the company; null when it was used, or its time is over, or the company is closed. */
export async function findAsked(sql: Sql, token: string): Promise<Named | null> {
  const [row] = await sql<Named[]>`
    select ${ROWS.columns(sql)}, company_name from alert_receivers
    join (select id as owned_by, name as company_name from companies where closed_at is null) c on owned_by = company_id
    where digest = ${digestBytes(token)} and expires_at > now()`;
  return row ?? null;
}

/** Uses the link up. @returns whether it worked */
export async function updateConfirmed(sql: Sql, token: string): Promise<boolean> {
  const { count } = await sql`
    update alert_receivers set confirmed_at = now(), digest = null, expires_at = null
    where digest = ${digestBytes(token)} and expires_at > now()`;
  return count > 0;
}

/** A receiver outside the company by its id, which each of its e-mails has, with the name of the company; null: none. */
export async function findOutsider(sql: Sql, id: string): Promise<Named | null> {
  const [row] = await sql<Named[]>`
    select ${ROWS.columns(sql)}, company_name from alert_receivers
    join (select id as owned_by, name as company_name from companies) c on owned_by = company_id
    where id = ${id} and confirmed_at is not null`;
  return row ?? null;
}
