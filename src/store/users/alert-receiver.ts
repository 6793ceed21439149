import { randomBytes } from 'node:crypto';
import { digestBytes } from '../../domain/key.ts';
import { refusal, throwConflict } from '../../domain/refusal.ts';
import { CREATED_BY } from '../connection/actor.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';

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

const ROWS = rowsIn<AlertReceiverRow>({
  table: 'alert_receivers',
  noun: 'receiver',
  columns: (sql) => sql`id, company_id, email, percents, forecast, created_at, ${sql.unsafe(CREATED_BY)} as created_by,
    expires_at, confirmed_at, language, email is null or exists (
      select 1 from users u where u.email = alert_receivers.email and u.company_id = alert_receivers.company_id) as is_person`,
});

export const { find: findReceiver, remove: deleteReceiver } = ROWS;

/** @throws RefusedChange where the address has a line, or the company does not exist */
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

/** @throws RefusedChange not_found */
export function updateReceiver(sql: Sql, company: string, id: string, { percents, forecast }: AlertChoice) {
  return ROWS.update(sql, sql`percents = ${[...percents]}::smallint[], forecast = ${forecast}`, id, company);
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
