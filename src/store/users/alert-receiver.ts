import { randomBytes } from 'node:crypto';
import { digestBytes } from '../../domain/key.ts';
import { refusal, throwConflict, throwNotFound, unknownCompany } from '../../domain/refusal.ts';
import { CREATED_BY } from '../connection/actor.ts';
import { explaining } from '../connection/errors.ts';
import type { Sql } from '../connection/pool.ts';

/** How long the link works by which an address outside the company confirms. */
export const CONFIRM_DAYS = 7;

/** What somebody is told of budgets. */
export interface AlertChoice {
  /** Whole percents of the budget from 1 to 100, in their order. */
  readonly percents: readonly number[];
  readonly forecast: boolean;
}

/** Members are columns of the table, without the digest. */
export interface AlertReceiverRow extends AlertChoice {
  readonly id: string;
  readonly company_id: string;
  /** null: owners and administrators without a line of their own. */
  readonly email: string | null;
  readonly created_at: Date;
  readonly created_by: string | null;
  /** When the link ends that was sent to an address outside the company; null: none was. */
  readonly expires_at: Date | null;
  readonly confirmed_at: Date | null;
  /** Of who added the address, for its e-mails as long as it is none of the company's people; null: that of the company. */
  readonly language: string | null;
  /** Whether the address is of one of the company's people: they confirm nothing. */
  readonly is_person: boolean;
}

/** A receiver and the company that tells it. */
type Named = AlertReceiverRow & { readonly company_name: string };

type NewReceiver = AlertChoice &
  Pick<AlertReceiverRow, 'company_id' | 'email' | 'language'> & { readonly created_by: string };

/** @throws RefusedChange where the address has a line, or the company does not exist */
export async function insertReceiver(sql: Sql, asked: NewReceiver): Promise<AlertReceiverRow> {
  const { company_id, email, percents, forecast, created_by, language } = asked;
  const [row] = await explaining(
    sql<AlertReceiverRow[]>`
      insert into alert_receivers as r (company_id, email, percents, forecast, created_by, language)
      values (${company_id}, ${email}, ${[...percents]}::smallint[], ${forecast}, ${created_by}, ${language})
      returning ${receiverColumns(sql)}`,
    {
      alert_receivers_once: () => throwConflict('receiver', refusal('receiverTwice', { email })),
      alert_receivers_company_id_fkey: () => unknownCompany(company_id),
    },
  );
  return row as AlertReceiverRow;
}

/** @throws RefusedChange not_found */
export async function updateReceiver(sql: Sql, company: string, id: string, { percents, forecast }: AlertChoice) {
  const [row] = await sql<AlertReceiverRow[]>`
    update alert_receivers r set percents = ${[...percents]}::smallint[], forecast = ${forecast}
    where id = ${id} and company_id = ${company} returning ${receiverColumns(sql)}`;
  return row ?? throwNotFound('receiver');
}

/** @throws RefusedChange not_found */
export async function deleteReceiver(sql: Sql, company: string, id: string): Promise<void> {
  const { count } = await sql`delete from alert_receivers where id = ${id} and company_id = ${company}`;
  if (count === 0) throwNotFound('receiver');
}

/** All lines of a company: first that of its owners and administrators, then by address. They are few. */
export async function listReceivers(sql: Sql, company: string): Promise<AlertReceiverRow[]> {
  return sql<AlertReceiverRow[]>`
    select ${receiverColumns(sql)} from alert_receivers r where company_id = ${company} order by email nulls first`;
}

/** @throws RefusedChange not_found */
export async function findReceiver(sql: Sql, company: string, id: string): Promise<AlertReceiverRow> {
  const [row] = await sql<AlertReceiverRow[]>`
    select ${receiverColumns(sql)} from alert_receivers r where company_id = ${company} and id = ${id}`;
  return row ?? throwNotFound('receiver');
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
    select ${receiverColumns(sql)}, c.name as company_name from alert_receivers r
    join (select id as owned_by, name from companies where closed_at is null) c on owned_by = company_id
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
    select ${receiverColumns(sql)}, c.name as company_name from alert_receivers r
    join (select id as owned_by, name from companies) c on owned_by = company_id
    where id = ${id} and confirmed_at is not null`;
  return row ?? null;
}

/** The columns of an AlertReceiverRow, of the table `r`. */
function receiverColumns(sql: Sql) {
  return sql`r.id, r.company_id, r.email, r.percents, r.forecast, r.created_at, ${sql.unsafe(CREATED_BY)} as created_by,
    r.expires_at, r.confirmed_at, r.language,
    r.email is null or exists (select 1 from users u where u.email = r.email and u.company_id = r.company_id) as is_person`;
}
