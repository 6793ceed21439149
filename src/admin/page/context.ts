import type { Context } from 'hono';
import type { LRUCache } from 'lru-cache';
import type { Calendar } from '../../domain/month.ts';
import type { Clock } from '../../domain/ports.ts';
import { Refused, unknownCompany } from '../../domain/refusal.ts';
import type { Logger } from '../../log.ts';
import { type Action, may } from '../../operations/frame/permission.ts';
import type { Lack } from '../../operations/second-factor.ts';
import type { CompanyRow } from '../../store/company/company.ts';
import { actingAs, auditedBytes } from '../../store/connection/acting-person.ts';
import type { Database, Sql, Work } from '../../store/connection/pool.ts';
import { enterCompany, within } from '../../store/connection/tenant-role.ts';
import type { SessionRow } from '../../store/users/session.ts';
import type { RouterModels } from '../../upstream/router-models.ts';
import type { Semaphore } from '../process/semaphore.ts';
import { CLIENT_HEADER, type PagesSettings } from '../process/settings.ts';
import type { Attempts, ChangeThrottle, Throttle } from '../process/throttle.ts';
import type { brandAssets } from './assets.ts';
import type { Form, FormBindings } from './form.ts';
import type { Format } from './format.ts';

const DEADLINE_MS = 5000;

/** The services that pages are made from. */
export interface PageServices extends Omit<PagesSettings, 'router'> {
  /** What the model router offers. */
  readonly router: RouterModels;
  readonly db: Database;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly log: Logger;
  readonly assets: ReturnType<typeof brandAssets>;
  /** Limits password hashes of people who are signed in or invited, or whose browser is known. */
  readonly hashing: Semaphore;
  /** Limits password hashes of all others: a flood of sign-ins costs at most what the API leaves of one core, and 128 MiB. */
  readonly guesses: Semaphore;
  /** Failed sign-ins, and invitations that do not exist. */
  readonly attempts: Attempts;
  /** What may be an e-mail to anybody: invitations by company, new passwords by network. */
  readonly invitations: Throttle;
  readonly changes: ChangeThrottle;
  /** Limits exports and other reports, which may take minutes. */
  readonly slow: Semaphore;
  /** Limits e-mails, which wait for a mail server and hold no database connection. */
  readonly mails: Semaphore;
  /** Limits calls that people make to models and assistants, which may take minutes too, but hold no database connection. */
  readonly modelCalls: Semaphore;
  /** Texts of playground keys, by company and user. They are nowhere else. */
  readonly texts: LRUCache<string, Promise<string>>;
}

/** A session that has not ended. */
export interface Session {
  readonly user: SessionRow;
  /** SHA-256 of the token; the key of the table. */
  readonly digest: Buffer;
  /** Proves that a form is of this session, and encrypts the session's secrets. On no page. */
  readonly csrf: string;
  /** The same as the forms of one answer send it, masked: an answer that is compressed must not repeat a secret. */
  readonly formToken: string;
}

/** The values in Hono's context besides the request. Only `services` and `format` are set before a user is signed in. */
export interface PageEnv {
  Bindings: FormBindings;
  Variables: {
    readonly services: PageServices;
    readonly session: Session;
    /** How the reader reads: words, numbers, times. Set before a user is signed in, too. */
    readonly format: Format;
    /** The address that shows this page again, which the choice of a language leads back to; absent: that of the request. */
    readonly pageAddress?: string;
    /** The company of the path, as it was when the request came; null: the path names none, or one that was removed. */
    readonly company: CompanyRow | null;
    /** The page is shown again because its form was refused. */
    readonly isRefused?: true;
  };
}

/** One request of a user who is signed in and has the permission that the route names. */
export type PageContext = Context<PageEnv>;

export interface Route {
  readonly method: 'GET' | 'POST';
  /** Hono's syntax, but parameters match ids only. ":company" is the company that the action is about. */
  readonly path: string;
  /** The permission a user needs; see permission.ts. */
  readonly action: Action;
  /** The semaphore whose permit it takes, instead of the one that keeps pages fast. */
  readonly permits?: 'mails' | 'modelCalls' | 'slow';
  /** Works for a closed company although it changes something. */
  readonly whileClosed?: true;
  /** Nothing of its form is saved, so it does not count as a change. */
  readonly savesNothing?: true;
  /** Open to sessions that still lack the code of the second factor, or have to set one up. */
  readonly lacking?: readonly Lack[];
  /** The form has a long text: up to 1 MiB instead of 16 KiB. */
  readonly long?: true;
  /** @param form the fields that were sent; empty for GET */
  handle(c: PageContext, form: Form): Response | Promise<Response>;
  /** The page with the form, shown again with its values and messages when the form is refused. */
  page?(c: PageContext, form: Form): Response | Promise<Response>;
}

type More = Partial<Omit<Route, 'method' | 'path' | 'action' | 'handle'>>;

/** A page, or a file. */
export function pageAt(
  path: string,
  action: Action,
  handle: Route['handle'],
  more: More = {},
): Route {
  return { method: 'GET', path, action, handle, ...more };
}

/** Where a form is sent. */
export function formAt(
  path: string,
  action: Action,
  handle: Route['handle'],
  more: More = {},
): Route {
  return { method: 'POST', path, action, handle, ...more };
}

/** Leads from a form to a page, which says what was done. @param done of `words.notices` */
export function backTo(c: Context, path: string, done: string): Response {
  return c.redirect(`${path}?done=${done}`, 303);
}

/** Runs a query for a page. Under a company's path, row-level security shows that company's rows only. */
export function read<T>(c: PageContext, query: Work<T>, deadlineMs = DEADLINE_MS): Promise<T> {
  return within(c.var.services.db, companyOf(c), deadlineMs, query, c.var.session.user.role);
}

/** The company of the path. @throws Refused missing */
export function presentCompany(c: PageContext): CompanyRow {
  return c.var.company ?? unknownCompany(param(c, 'company'));
}

/** The company of the path, and more about it. @throws Refused missing */
export async function readOfCompany<T>(
  c: PageContext,
  query: (sql: Sql, company: string) => Promise<T>,
  deadlineMs = DEADLINE_MS,
) {
  const company = presentCompany(c);
  return [company, await read(c, (sql) => query(sql, company.id), deadlineMs)] as const;
}

/** Runs a change in one transaction; the audit log names the user. Limited to a company's rows as `read` is. */
export function change<T>(c: PageContext, work: (sql: Sql) => PromiseLike<T>): Promise<T> {
  return changeAsOperator(c, async (sql) => {
    const company = companyOf(c);
    if (company !== null) await enterCompany(sql, company, c.var.session.user.role);
    return work(sql);
  });
}

/** A change that removes something. If the thing is gone already, such as by the same form, that is no error. */
export async function removal(
  c: PageContext,
  work: (sql: Sql) => PromiseLike<unknown>,
): Promise<void> {
  try {
    await change(c, work);
  } catch (error) {
    if (!(error instanceof Refused && error.kind === 'missing')) throw error;
  }
}

/** Changes what operators alone may change, such as ceilings: not under the tenant role, which may not. */
export function changeAsOperator<T>(
  c: PageContext,
  work: (sql: Sql) => PromiseLike<T>,
  deadlineMs = DEADLINE_MS,
): Promise<T> {
  const { email, company_id } = c.var.session.user;
  const maker = {
    actor: email,
    company: company_id,
    member: memberOf(c),
    bytes: c.env.incoming.rawBody.length,
  };
  return countedChange(c.var.services, maker, deadlineMs, work);
}

/** The id of the reader, if it is a member; null otherwise. */
export function memberOf(c: PageContext): string | null {
  const { role, user_id } = c.var.session.user;
  return role === 'member' ? user_id : null;
}

/** The company of the person or program that makes a change, and the bytes of the form or body. */
interface Maker {
  readonly actor: string;
  readonly company: string | null;
  /** Id of the member who makes it; null: another role, or a program. */
  readonly member: string | null;
  readonly bytes: number;
}

/** One transaction of a change. The bytes that it adds to the audit log count for the company of its maker, or for the member. */
export async function countedChange<T>(
  { db, changes }: PageServices,
  { actor, company, member, bytes }: Maker,
  deadlineMs: number,
  work: (sql: Sql) => PromiseLike<T>,
): Promise<T> {
  const [value, kept] = await actingAs(db, actor, deadlineMs, async (sql) => {
    return [await work(sql), company === null ? 0 : await auditedBytes(sql)] as const;
  });
  changes.end(company, bytes, kept, member);
  return value;
}

/** Whether the user may take an action for the company of the path now: pages show no forms that would be refused. */
export function mayNow(c: PageContext, action: Action): boolean {
  return !isCompanyClosed(c) && may(c.var.session.user, action, companyOf(c));
}

/** Whether the company of the path is closed, so that nothing of it can be changed. */
export function isCompanyClosed(c: PageContext): boolean {
  return (c.var.company?.closed_at ?? null) !== null;
}

/** The client's address, from the gateway. */
export function clientOf(c: PageContext): string {
  return (c.req.header(CLIENT_HEADER) as string).split(' ')[1] ?? '';
}

/** The sharers of permits: all people of one company, or one operator. */
export function sharerOf(c: PageContext): string {
  const { company_id, user_id } = c.var.session.user;
  return company_id ?? user_id;
}

/** The id of the company in the path; null when there is none. */
export function companyOf(c: PageContext): string | null {
  return c.req.param('company') === undefined ? null : param(c, 'company');
}

/** An id from the path, in lower case. The route must have this parameter. */
export function param(c: PageContext, name: string): string {
  return (c.req.param(name) as string).toLowerCase();
}
