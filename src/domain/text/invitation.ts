import type { CompanyRole } from '../user.ts';

/** Where the link of an invitation leads, below the address of the administration pages. */
export const INVITATION_PATH = '/invitation/';

/** The rights of a role in a few words, for people who choose a role or are invited to one. */
export const ROLE_TEXTS: Readonly<Record<CompanyRole, string>> = {
  owner: 'everything of the company: its people, budget, EU gate and audit log, and all that administrators do',
  administrator: 'keys, models, assistants and usage',
  member: 'can sign in, and sees none of that',
};

/** The facts of an invitation. */
interface Invitation {
  readonly company: string;
  /** The person of the company who invites; null: an operator, whose address companies do not see. */
  readonly by: string | null;
  readonly role: CompanyRole;
  readonly link: string;
  /** When the link ends, in words. */
  readonly until: string;
}

/**
 * A moment to the minute for mails, whose reader's clock and language nobody knows: on the clock of the billing time
 * zone, as the pages have it, with its name.
 */
export function instantText(at: Date, timeZone: string): string {
  const text = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short', timeZone }).format(at);
  return `${text} (${timeZone})`;
}

/** Subject and plain text of the e-mail that brings an invitation. */
export function invitationMail({ company, by, role, link, until }: Invitation) {
  // anyone may have written the name in the database, and none may add lines of its own
  const name = company.replace(/\p{Cc}/gu, ' ');
  return {
    subject: `[Tollgate] You are invited to ${name}`,
    text: `${[
      `${by === null ? 'You are invited' : `${by} invites you`} to ${name} as ${role === 'member' ? 'a' : 'an'} ${role}.`,
      '',
      `Open this link to get your account. It works once, until ${until}, and for you alone: do not pass it on.`,
      '',
      link,
      '',
      'If you did not expect this message, ignore it.',
    ].join('\n')}\n`,
  };
}
