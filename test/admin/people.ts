import { scryptSync } from 'node:crypto';
import type { Sql } from 'postgres';
import type { Test } from 'tap';
import type { Role } from '../../src/domain/user.ts';
import { type Ask, ask } from '../support/client.ts';
import { until } from '../support/until.ts';
import { borrowWorld, startWorld, type World } from '../support/world.ts';

export const PASSWORD = 'correct horse battery staple';

export interface Office extends World {
  /** E-mail address of one user of each role. All but the operator belong to the customer's company. */
  readonly people: Readonly<Record<Role, string>>;
}

/** For `startOffice`: the gateway sends no events and looks for none, as if another one did. */
export const sendsNothing = (sql: Sql) =>
  sql`update alert_lease set holder = null, expires_at = 'infinity'`;

const PEOPLE = {
  operator: 'olga@tollgate.example',
  owner: 'owen@customer.example',
  administrator: 'ada@customer.example',
  member: 'mila@customer.example',
};

/**
 * A world with one user of each role, who signs in with PASSWORD: one of its own for settings of its own, else one
 * that is lent (see `borrowWorld`).
 * @param prepare as for `startGateway`
 */
export async function startOffice(
  t: Test,
  env: Record<string, string> = {},
  prepare?: Parameters<typeof startWorld>[3],
): Promise<Office> {
  if (Object.keys(env).length === 0) return officeOf(await borrowWorld(t, prepare, addPeople));
  return startOwnOffice(t, env, prepare);
}

/** The same, for what the processes keep in memory, and for whoever changes what all companies share. */
export async function startOwnOffice(
  ...[t, env, prepare]: Parameters<typeof startOffice>
): Promise<Office> {
  const world = await startWorld(t, env, undefined, prepare);
  await addPeople(world.sql, world.customer.company);
  return officeOf(world);
}

function officeOf(world: World): Office {
  return { ...world, people: PEOPLE };
}

async function addPeople(sql: Sql, customer: string): Promise<void> {
  const hash = cheapHash(PASSWORD);
  for (const [role, email] of Object.entries(PEOPLE)) {
    const company = role === 'operator' ? null : customer;
    await sql`insert into users (email, company_id, role, password_hash) values (${email}, ${company}, ${role}, ${hash})`;
  }
  await sql`update companies set name = 'Nordlicht Verlag' where id = ${customer}`;
}

/** The one person of an installation that is empty; signs in with PASSWORD. */
export async function addOperator(sql: Sql, email: string): Promise<void> {
  await sql`insert into users (email, role, password_hash) values (${email}, 'operator', ${cheapHash(PASSWORD)})`;
}

/** An HTTP client that keeps cookies, follows no redirects and sends forms as a browser does. */
export class Person {
  readonly base: string;
  readonly cookies = new Map<string, string>();
  /** The form token of the session that a cookie is of. */
  readonly #csrf = new Map<string, string>();

  constructor(base: string) {
    this.base = base;
  }

  async get(path: string, headers: Record<string, string> = {}): Promise<Page> {
    return this.#send(path, { headers });
  }

  /** Sends a form with the token of the session, and follows the redirect to a page that shows what it made once. */
  async post(...form: Parameters<Person['send']>): Promise<Page> {
    const page = await this.send(...form);
    const location = page.headers.get('location') ?? '';
    return /\/shown(\?|$)/.test(location) ? this.get(location) : page;
  }

  /** Sends a form with the token of the session. */
  async send(
    path: string,
    fields: Record<string, string | string[]> = {},
    headers: Record<string, string> = {},
  ): Promise<Page> {
    const body = new URLSearchParams();
    for (const [name, value] of Object.entries({ csrf: await this.csrf(), ...fields })) {
      for (const each of [value].flat()) body.append(name, each);
    }
    const type = { 'content-type': 'application/x-www-form-urlencoded;charset=UTF-8' };
    return this.#send(path, {
      method: 'POST',
      headers: { origin: this.base, ...type, ...headers },
      body: `${body}`,
    });
  }

  /** The form token of the session, read once from a page; empty when there is no session. */
  async csrf(): Promise<string> {
    const session = [...this.cookies].find(([name]) => name.endsWith('tollgate'))?.[1];
    if (session === undefined) return '';
    const known = this.#csrf.get(session);
    if (known !== undefined) return known;
    const { status, text } = await this.get('/account');
    // whoever has to set a second factor up first sees that page alone
    const page = status === 303 ? (await this.get('/account/second-factor')).text : text;
    const csrf = /name="csrf" value="([^"]+)"/.exec(page)?.[1] ?? '';
    if (csrf !== '') this.#csrf.set(session, csrf);
    return csrf;
  }

  async signIn(email: string, password = PASSWORD): Promise<Page> {
    return this.post('/sign-in', { email, password });
  }

  /** Sends a request, and again while the pages refuse it: tests are faster than their rate limit. */
  #send(path: string, asked: Ask): Promise<Page> {
    return until(
      () => this.#sendOnce(path, asked),
      `the rate limit lets a request of ${path} pass`,
      ({ text }) => text !== 'too many requests\n',
    );
  }

  async #sendOnce(path: string, asked: Ask): Promise<Page> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const { status, headers, text } = await ask(new URL(path, this.base), {
      ...asked,
      headers: { ...asked.headers, ...(cookie === '' ? {} : { cookie }) },
    });
    const setCookies = headers.getSetCookie();
    for (const each of setCookies) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(each) ?? [];
      if (value === '') this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return { status, headers, setCookies, text };
  }
}

export interface Page {
  readonly status: number;
  readonly headers: Headers;
  readonly setCookies: string[];
  readonly text: string;
}

/** The text of a page, with one space between its parts. */
export function textOf(page: string | Pick<Page, 'text'>): string {
  return (typeof page === 'string' ? page : page.text)
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll('&#39;', "'")
    .replaceAll('&quot;', '"')
    .replaceAll(/\s+/g, ' ');
}

/** The user of a role, signed in. */
export async function signedIn(office: Office, role: Role): Promise<Person> {
  const person = new Person(office.adminUrl);
  const { status } = await person.signIn(office.people[role]);
  if (status !== 303) throw new Error(`${role} could not sign in: ${status}`);
  return person;
}

/** Sessions of the user of a role, one after the other: the pages answer 20 requests a second of each. */
export async function inTurn(office: Office, role: Role): Promise<() => Person> {
  const people: Person[] = [];
  while (people.length < 8) people.push(await signedIn(office, role)); // who tries often at once is taken for a guesser
  let turn = 0;
  return () => people[turn++ % people.length] as Person;
}

/** The hash of a password at a thousandth of the usual cost. @param ln of the cost: with 15, a quarter of the usual one */
export function cheapHash(password: string, ln = 7): string {
  const salt = Buffer.alloc(16, 1);
  const key = scryptSync(password, salt, 32, { N: 2 ** ln, r: 8, p: 1, maxmem: 2 ** 26 });
  const base64 = (bytes: Buffer): string => bytes.toString('base64').replace(/=+$/, '');
  return `$scrypt$ln=${ln},r=8,p=1$${base64(salt)}$${base64(key)}`;
}
