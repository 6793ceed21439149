import { createInterface } from 'node:readline';
import { type Readable, Writable } from 'node:stream';
import type { ReadStream } from 'node:tty';
import type { Config } from '../../config.ts';
import { oneOf, readEmail, readPresentEmail, readUuid } from '../../domain/field.ts';
import { wordsOf } from '../../domain/language/language.ts';
import { asLanguage, ENGLISH } from '../../domain/languages.ts';
import { hashPassword, readPassword } from '../../domain/password.ts';
import { throwNotFound } from '../../domain/refusal.ts';
import { COMPANY_ROLES, companyMistake, ROLES } from '../../domain/user.ts';
import { accountMail, INVITATION_PATH, instantText } from '../../domain/wording/person-mail.ts';
import { eraseAnyPerson } from '../../operations/erasure.ts';
import {
  createInvitation,
  renewInvitation,
  withdrawInvitation,
} from '../../operations/invitation.ts';
import { resetFactor } from '../../operations/second-factor.ts';
import { changePassword, createUser, removeUser } from '../../operations/user.ts';
import { rowsOf } from '../../store/company/company.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { invitationOf, listInvitations } from '../../store/users/invitation.ts';
import { findReader, findUser, listUsers, type UserRow } from '../../store/users/user.ts';
import {
  ArgumentError,
  type Context,
  command,
  Failure,
  flag,
  named,
  optional,
  required,
} from '../frame/command.ts';
import { ACTOR } from '../frame/database.ts';
import { commandsOf } from '../frame/noun.ts';
import { card, erasedText, instant, listing, minute, plainly, sections } from '../frame/text.ts';

type Invitation = Awaited<ReturnType<typeof listInvitations>>[number];

const WITHDRAWN = 'Invitation withdrawn. Its link no longer works.';
const INVITED =
  'Invitation made. Nothing is sent: pass the link on, which is shown only this once and works once.';
const RENEWED =
  'Invitation renewed; its old link no longer works. Nothing is sent: pass the link on, which is shown only this once and works once.';
const INVITATION_CELLS = {
  INVITED: ({ email }: Invitation) => email,
  ROLE: ({ role }: Invitation) => role,
  COMPANY: ({ company_name }: Invitation) => company_name,
  LINK: ({ expires_at: at }: Invitation) =>
    at.getTime() > Date.now() ? `works until ${instant(at)}` : 'has ended',
};
const MAIL_MS = 8000;
/** Bytes of standard input that are read at most. */
const MOST_INPUT = 8192;

const email = required(
  '--email ADDRESS',
  readPresentEmail,
  'e-mail address that the user signs in with',
);
const password = flag(
  '--password-stdin',
  'read the password from standard input; a newline at its end is no part of it',
  true,
);

const users = commandsOf('user', {}, ({ id, email, role, company_id }: UserRow) => ({
  id,
  email,
  role,
  company: company_id ?? 'all',
}));

export const userCommands = [
  command({
    name: 'user create',
    summary: 'create a user who can sign in to the administration area',
    options: {
      email: required('--email ADDRESS', readEmail, 'e-mail address that the user signs in with'),
      role: required('--role ROLE', oneOf(...ROLES), 'operator, owner, administrator or member'),
      company: optional('--company ID', readUuid, 'company of the role; an operator has none'),
      password,
    },
    notes:
      'At a terminal, type the password, which is not shown, and press Enter. Example:\n  tollgate user create --email ada@example.com --role operator \\\n    --password-stdin < password.txt',
    async run({ transact, stdin, progress }, values) {
      const { email, role, company = null } = values;
      const mistake = companyMistake(role, company); // before somebody types a password
      if (mistake !== null) throw new ArgumentError(`--company ${mistake}`);
      const hash = await hashPassword(await passwordFrom(stdin, progress));
      const user = await transact((sql) =>
        createUser(sql, { email, role, company_id: company }, hash),
      );
      return { json: user, text: users.show('User created.', user) };
    },
  }),
  command({
    name: 'user invite',
    summary: 'make a link by which somebody joins a company',
    options: {
      email: required(
        '--email ADDRESS',
        readEmail,
        'e-mail address of the account that the link makes',
      ),
      role: optional(
        '--role ROLE',
        oneOf(...COMPANY_ROLES),
        'owner, administrator or member; needed for a new invitation',
      ),
      company: required('--company ID', readUuid, 'company of the role'),
      renew: flag(
        '--renew',
        'give an open invitation a new link and its whole time again; the old link ends',
      ),
      withdraw: flag('--withdraw', 'remove an open invitation; its link ends'),
    },
    notes:
      'The link is shown here only. It works once, for seven days. Nothing is sent by e-mail. It begins with ADMIN_URL, the address where people reach the administration pages, or without that with the address of this machine. "tollgate user list" shows open invitations.',
    async run({ transact, config, warn }, { email, role, company, renew, withdraw }) {
      if (renew && withdraw)
        throw new ArgumentError('--renew and --withdraw exclude each other; give one of them');
      const isNew = !renew && !withdraw;
      if (!isNew && role !== undefined)
        throw new ArgumentError('an open invitation keeps its role; leave --role out');
      if (withdraw) {
        const open = await transact(async (sql) => {
          const open = await invitationOf(sql, company, email);
          await withdrawInvitation(sql, open.id, company);
          return open;
        });
        return { json: open, text: card(WITHDRAWN, { email, role: open.role }) };
      }
      if (isNew && role === undefined) throw new ArgumentError('missing --role');
      const linkTo = invitationLinks(config, warn);
      const { token, ...invitation } = await transact(async (sql) =>
        role === undefined
          ? renewInvitation(
              sql,
              { actor: ACTOR },
              company,
              (await invitationOf(sql, company, email)).id,
            )
          : createInvitation(sql, { actor: ACTOR }, { company_id: company, email, role }),
      );
      const link = linkTo(token);
      const until = instant(invitation.expires_at);
      const text = card(renew ? RENEWED : INVITED, { email, role: invitation.role, link, until });
      return { json: { ...invitation, link }, text };
    },
  }),
  command({
    name: 'user list',
    summary: 'list users, their roles and when they last signed in, and open invitations',
    options: { company: optional('--company ID', readUuid, 'only the users of this company') },
    notes:
      'In JSON, invitations follow the users; "invitation_expires_at" says when the link ends, and is null for users.',
    async run({ transact }, { company = null }) {
      const { users, invitations } = await transact(async (sql) => ({
        users: await rowsOf(sql, company, await listUsers(sql, company)),
        invitations: await listInvitations(sql, company),
      }));
      const table = listing(
        users,
        {
          ...plainly('id', 'email', 'role'),
          COMPANY: ({ company_name }) => company_name ?? 'all',
          'SECOND FACTOR': ({ second_factor_since: since }) => (since === null ? '-' : 'on'),
          'LAST SIGN-IN (UTC)': ({ last_sign_in_at }) => minute(last_sign_in_at),
        },
        company === null
          ? 'There are no users; "tollgate user create" adds one.'
          : invitations.length > 0
            ? 'Nobody has joined the company yet.'
            : 'The company has no users; "tollgate user invite" makes a link for one.',
      );
      const json = [
        ...users.map((user) => ({ ...user, invitation_expires_at: null })),
        ...invitations.map(({ created_by: _, expires_at, ...row }) => ({
          ...row,
          last_sign_in_at: null,
          invitation_expires_at: expires_at,
        })),
      ];
      return { json, text: sections(table, listing(invitations, INVITATION_CELLS, '')) };
    },
  }),
  command({
    name: 'user set-password',
    summary: 'set a new password and end all sessions of the user',
    options: { email, password },
    notes: 'At a terminal, type the password, which is not shown, and press Enter.',
    async run(context, { email }) {
      const hash = await hashPassword(await passwordFrom(context.stdin, context.progress));
      const id = await changeAccount(context, email, 'password', (sql, user) =>
        changePassword(sql, user, hash),
      );
      return {
        json: { id, email },
        text: card('Password set; all sessions of the user have ended.', { id, email }),
      };
    },
  }),
  command({
    name: 'user reset-factor',
    summary: 'take the second factor of a user away and end all sessions of the user',
    options: { email },
    notes:
      'For whoever has lost phone and recovery codes. Be sure who asks: a thief of the password asks for the same. The user is told by e-mail where SMTP_URL and ALERT_FROM are set.',
    async run(context, { email }) {
      const id = await changeAccount(context, email, 'reset', resetFactor);
      const text = card('Second factor taken away; all sessions of the user have ended.', {
        id,
        email,
      });
      return { json: { id, email }, text };
    },
  }),
  users.remove({
    summary: 'remove a user, who is signed out at once',
    options: { email },
    notes:
      'Own keys of the user are revoked. Keys of companies, tokens and open invitations that the user made keep working. The last operator cannot be removed.',
    change: async (sql, _caller, { email }) => removeUser(sql, await idOf(sql, email)),
  }),
  command({
    name: 'user erase',
    summary: "erase one person's address from every table and from the audit log",
    options: {
      email: required('--email ADDRESS', readPresentEmail, 'e-mail address of the person'),
      yes: flag('--yes', 'erase; without it the command only counts what would be erased'),
    },
    notes:
      'The user is removed and signed out. A random pseudonym takes the place of the address, the same in all entries of the audit log and of keys. Ledger, sums and seals stay. Free texts are searched for the address, not for names: rename keys and assistants that hold a name. sql/PRIVACY.md is written for data-protection officers.',
    async run({ transact }, { email, yes }) {
      const erased = await transact(
        (sql) => eraseAnyPerson(sql, email, !yes),
        Number.POSITIVE_INFINITY,
      );
      const text = erasedText(
        yes ? 'Person erased.' : 'This would be erased; add --yes to do it.',
        erased,
      );
      return { json: { ...erased, dry_run: !yes }, text };
    },
  }),
];

/** Changes an account, and tells its person by e-mail where that is set up. @returns the id of the user */
async function changeAccount(
  { transact, config, warn }: Context,
  email: string,
  kind: 'password' | 'reset',
  change: (sql: Sql, id: string) => Promise<void>,
): Promise<string> {
  const { id, reader } = await transact(async (sql) => {
    const id = await idOf(sql, email);
    await change(sql, id);
    return { id, reader: await findReader(sql, id) };
  });
  if (config.alertMail === null) return id;
  const { mailer } = await import('../../events/mail.ts');
  const words = wordsOf(asLanguage(reader.language) ?? ENGLISH);
  const at = instantText(new Date(), config.billingTimezone, words);
  const message = { to: email, ...accountMail({ kind }, at, words, config.brand) };
  await mailer(
    config.alertMail,
    MAIL_MS,
  )(message).catch((error: Error) =>
    warn(`the e-mail to the user could not be sent: ${error.message}`),
  );
  return id;
}

/** The id of the user with an address. @throws Refused missing */
async function idOf(sql: Sql, email: string): Promise<string> {
  const user = await findUser(sql, email);
  return user === null ? throwNotFound('user') : user.id;
}

/**
 * What makes the link of an invitation from its random part. Warns where it has the address of this machine.
 * @throws Failure when nobody can know where people reach the pages
 */
export function invitationLinks(config: Config, warn: Context['warn']): (token: string) => string {
  const base = pagesAddress(config);
  if (config.adminUrl === null)
    warn(`the link has the address of this machine, ${base.origin}; ADMIN_URL sets another`);
  return (token) => new URL(INVITATION_PATH + token, base).href;
}

/** Where people reach the administration pages. @throws Failure when nobody can know */
function pagesAddress({ adminUrl, adminHost, adminPort }: Config): URL {
  if (adminUrl !== null) return adminUrl;
  if (adminPort === null)
    throw new Failure('ADMIN_PORT is off; set ADMIN_URL to where people reach the pages');
  return new URL(`http://${adminHost.includes(':') ? `[${adminHost}]` : adminHost}:${adminPort}`);
}

/** At a terminal one line, which is not shown; otherwise all there is. */
async function passwordFrom(stdin: Readable, progress: Context['progress']): Promise<string> {
  const { isTTY } = stdin as Partial<ReadStream>;
  if (isTTY) progress('type the password, which is not shown, and press Enter');
  const text = isTTY ? await typedUnseen(stdin) : (await wholeOf(stdin)).replace(/\r?\n$/, '');
  return named('the password on standard input', () => readPassword(text));
}

async function wholeOf(stdin: Readable): Promise<string> {
  let input = Buffer.alloc(0);
  for await (const chunk of stdin) {
    input = Buffer.concat([input, Buffer.from(chunk)]);
    if (input.length > MOST_INPUT) break;
  }
  return input.toString('utf8');
}

/** The line that somebody types at a terminal; empty where the input ends before it. Ctrl-C ends the command. */
async function typedUnseen(terminal: Readable): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({
    input: terminal,
    output: nowhere,
    terminal: true,
    historySize: 0,
  });
  const { promise, resolve } = Promise.withResolvers<string>();
  lines.once('line', resolve).once('close', () => resolve(''));
  lines.once('SIGINT', () => {
    lines.close(); // the terminal shows typed characters again
    process.kill(process.pid, 'SIGINT');
  });
  const line = await promise;
  lines.close();
  return line;
}
