import type { Readable } from 'node:stream';
import { oneOf, readEmail, readUuid } from '../domain/field.ts';
import { hashPassword, readPassword } from '../domain/password.ts';
import { ROLES } from '../domain/user.ts';
import { erasePerson } from '../store/erasure.ts';
import { insertUser } from '../store/user.ts';
import { type Command, command, flag, named, optional, required, UsageError } from './command.ts';
import { card, erasedText } from './text.ts';

/** Bytes of standard input that are read at most. */
const MOST_INPUT = 8192;

export const userCommands: readonly Command[] = [
  command({
    name: 'user create',
    summary: 'create a user who can sign in to the administration area',
    options: {
      email: required('--email ADDRESS', readEmail, 'email address to sign in with'),
      role: required('--role ROLE', oneOf(...ROLES), 'operator, owner, administrator or member'),
      company: optional('--company ID', readUuid, 'company of the role; an operator has none'),
      password: flag(
        '--password-stdin',
        'read the password from standard input; a newline at its end is dropped',
        true,
      ),
    },
    notes:
      'Example:\n  tollgate user create --email ada@example.com --role operator \\\n    --password-stdin < password.txt',
    async run({ transact, stdin }, values) {
      const { email, role, company } = values;
      if (role === 'operator' && company !== undefined)
        throw new UsageError('an operator has no --company; leave it out');
      if (role !== 'operator' && company === undefined)
        throw new UsageError(`missing --company: the company of the ${role}`);
      const password = await passwordFrom(stdin);
      const hash = await hashPassword(password);
      const user = await transact((sql) => insertUser(sql, { email, role, company_id: company ?? null }, hash));
      const text = card('User created.', { id: user.id, email, role, company: user.company_id ?? 'all' });
      return { json: user, text };
    },
  }),
  command({
    name: 'user erase',
    summary: "erase one person's address from every table and from the audit log",
    options: {
      email: required('--email ADDRESS', readEmail, 'address of the person'),
      yes: flag('--yes', 'erase; without it the command only counts what would be erased'),
    },
    notes:
      'The user is removed and signed out. In its place, entries of the audit log and of keys get a random pseudonym, the same in all of them. Ledger, sums and seals stay. Free texts are searched for the address, not for names: rename keys and assistants that hold a name. sql/PRIVACY.md is written for data-protection officers.',
    async run({ transact }, { email, yes }) {
      const erased = await transact((sql) => erasePerson(sql, email, !yes), Number.POSITIVE_INFINITY);
      const text = erasedText(yes ? 'Person erased.' : 'This would be erased; add --yes to do it.', erased);
      return { json: { ...erased, dry_run: !yes }, text };
    },
  }),
];

async function passwordFrom(stdin: Readable): Promise<string> {
  let input = Buffer.alloc(0);
  for await (const chunk of stdin) {
    input = Buffer.concat([input, Buffer.from(chunk)]);
    if (input.length > MOST_INPUT) break;
  }
  const text = input.toString('utf8').replace(/\r?\n$/, '');
  return named('the password on standard input', () => readPassword(text));
}
