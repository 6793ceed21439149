import { randomBytes } from 'node:crypto';
import { digestBytes } from '../../domain/key.ts';
import { refusal, throwConflict, throwNotFound } from '../../domain/refusal.ts';
import * as schema from '../../domain/settings/schema.ts';
import { COMPANY_ROLES } from '../../domain/user.ts';
import { CREATED_BY, createdBy } from '../connection/actor.ts';
import { matching } from '../connection/columns.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';

/** How long a link works. */
const DAYS = 7;

/** Members are columns of the table, without the digest. */
export const INVITATION = schema.object({
  id: schema.id,
  company_id: schema.id,
  email: schema.email,
  role: schema.oneOf(COMPANY_ROLES),
  created_at: schema.time,
  created_by: createdBy,
  expires_at: schema.time,
});
export type InvitationRow = schema.Value<typeof INVITATION>;

/** An invitation with the random part of its link, which is known only now. */
export type MadeInvitation = InvitationRow & { readonly token: string };

type NamedInvitation = InvitationRow & { readonly company_name: string };

export type NewInvitation = Pick<InvitationRow, 'company_id' | 'email' | 'role'> & {
  readonly created_by: string;
  /** The random part of its link, at least 128 bits, so that a form sent twice makes one link; random unless given. */
  readonly token?: string | undefined;
};

const ROWS = rowsIn<InvitationRow>({
  table: 'invitations',
  noun: 'invitation',
  columns: (sql) =>
    sql`id, company_id, email, role, created_at, ${sql.unsafe(CREATED_BY)} as created_by, expires_at`,
});

export const { remove: deleteInvitation, page: invitationsAfter } = ROWS;

/**
 * Invites an address, in lower case, to a company.
 * @throws Refused when it has an account in any company, or is invited already
 */
export async function insertInvitation(sql: Sql, asked: NewInvitation): Promise<MadeInvitation> {
  const { company_id, email, role, created_by, token = newToken() } = asked;
  const row: InvitationRow | undefined = await ROWS.insert(
    sql,
    sql`(company_id, email, role, digest, created_by, expires_at)
      select ${company_id}, ${email}, ${role}, ${digestBytes(token)}, ${created_by}, now() + make_interval(days => ${DAYS})
      where not has_account(${email})`,
    company_id,
    { invitations_once: () => throwConflict('invitation', refusal('invitedAlready', { email })) },
  );
  // the same for an account in this company and in another one, which nobody here may know of
  if (row === undefined) throwConflict('user', refusal('hasAccount', { email }));
  return { ...row, token };
}

/** @param by who renews it @throws Refused missing */
export async function updateInvitation(
  sql: Sql,
  company: string,
  id: string,
  by: string,
): Promise<MadeInvitation> {
  const token = newToken();
  const values = sql`digest = ${digestBytes(token)}, created_by = ${by}, created_at = now(),
    expires_at = now() + make_interval(days => ${DAYS})`;
  return { ...(await ROWS.update(sql, values, id, company)), token };
}

/** Open invitations of a company, or of all, and those whose time is over; the newest first, at most so many. */
export async function listInvitations(
  sql: Sql,
  company: string | null,
  limit: number | null = null,
) {
  return sql<NamedInvitation[]>`
    select i.*, c.name as company_name
    from (select ${ROWS.columns(sql)} from invitations where true ${matching(sql, { company_id: company })}) i
    join companies c on c.id = i.company_id order by i.created_at desc, i.id limit ${limit}`;
}

/** The invitation of an address, in lower case, to a company. @throws Refused missing */
export async function invitationOf(
  sql: Sql,
  company: string,
  email: string,
): Promise<InvitationRow> {
  const [row] = await ROWS.list(sql, sql`where company_id = ${company} and email = ${email}`);
  return row ?? throwNotFound('invitation');
}

/** The invitation of a link, with the company's name; null when it was used, withdrawn or renewed, or its time is over. */
export async function findInvitation(sql: Sql, token: string) {
  const [row] = await sql<NamedInvitation[]>`
    select i.*, c.name as company_name
    from (select ${ROWS.columns(sql)} from invitations where digest = ${digestBytes(token)} and expires_at > now()) i
    join companies c on c.id = i.company_id`;
  return row ?? null;
}

/** Removes the invitation of a link. @returns what it was; null when the link does not work any more */
export async function takeInvitation(sql: Sql, token: string): Promise<InvitationRow | null> {
  const [row] = await sql<InvitationRow[]>`
    delete from invitations where digest = ${digestBytes(token)} and expires_at > now() returning ${ROWS.columns(sql)}`;
  return row ?? null;
}

function newToken(): string {
  return randomBytes(32).toString('base64url');
}
