/**
 * Why something that people typed or asked for is refused: a code with its values, and the English sentence. Commands
 * and administration over HTTP show the sentence as it is; a page says the same in the language of its reader, from the
 * word list of that language (domain/language), which has a text for each code.
 */

/** The things that administrators manage. */
export type Noun =
  | 'company'
  | 'model'
  | 'price'
  | 'key'
  | 'assistant'
  | 'user'
  | 'group'
  | 'invitation'
  | 'alert'
  | 'receiver'
  | 'cost centre budget'
  | 'end user'
  | 'event'
  | 'token'
  | 'statement'
  | 'gateway';

/** Of a field the text continues its name: "must be …". */
const ENGLISH = {
  id: () => 'must be an id such as 5f0c6a52-9d1e-4f6b-8a57-0d3c5f1b7e21',
  name: () => 'must be one line of 1 to 200 characters',
  unseen: ({ character }: { character: string }) =>
    `must not hold ${character}: it is invisible, or looks like another character`,
  nul: () => 'must not hold NUL characters',
  slug: () =>
    'must begin with a letter or digit and hold 1 to 128 letters, digits and . _ : / @ + - only',
  budget: () =>
    'must be an amount in EUR such as 250 or 99.50, below 1e12, as a plain decimal number',
  temperature: () => 'must be a number from 0 to 2, as a plain decimal number',
  email: () => 'must be an address such as ada@example.com',
  instant: () => 'must be an ISO time such as 2027-01-31 or 2027-01-31T18:00:00Z',
  day: () => 'must be a date such as 2026-11-21',
  month: () => 'must be a month such as 2026-11',
  choice: ({ choices }: { choices: readonly string[] }) =>
    `must be ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`,
  lines: ({ most }: { most: number }) => `must be at most ${most} lines`,
  percents: () => 'must be whole percentages from 1 to 100 such as 50, 80, 100',
  mostPercents: ({ most }: { most: number }) => `must be at most ${most} percentages`,
  wholeNumber: ({ most }: { most: number }) => `must be a whole number from 1 to ${most}`,
  passwordLength: ({ least }: { least: number }) =>
    `must have at least ${least} characters and at most 1024`,
  passwordText: () => 'must be one line of text in UTF-8',
  network: () => 'must be a network such as 10.0.0.0/8 or 2001:db8::/32, or one address',
  networkOfIPv4: ({ network }: { network: string }) => `must be written as IPv4, ${network}`,
  networkBits: ({ network, address }: { network: string; address: string }) =>
    `must be the network ${network} or the address ${address}`,
  lastDay: () => 'must not be before the first day',
  fiveYears: () => 'must be within five years of the first day',
  sameGroup: () => 'must be another group than the rows',
  tooManyDays: () => 'and rows can be days for up to 62 days',
  time: () => 'must be a time such as 2027-01-31T18:00',
  over: () => 'must be today or later',
  digits: () => 'must be written with the digits 0 to 9',
  unclear: ({
    text,
    shown,
    clear,
  }: {
    text: string;
    shown: readonly string[];
    clear: readonly string[];
  }) => `must be clear: “${text}” can mean ${shown.join(' or ')}. Write ${clear.join(' or ')}`,
  aboveZero: () => 'must be above 0',
  costCenter: () => 'must be a cost centre',
  costCenterName: () =>
    'must be the name of a cost centre as calls give it: at most 64 printable characters that do not begin with =, +, - or @',
  mostCostCenters: ({ most }: { most: number }) =>
    `A company has at most ${most} cost centres with a budget. Remove the budget of one first.`,
  costCenterTwice: ({ name }: { name: string }) =>
    `The cost centre “${name}” has a budget already. Change that one.`,
  endUserErased: () =>
    'The name of this end user is erased: whoever comes with it is somebody new.',
  errorCode: () => 'must be the code of an error',
  requestId: () => 'must be the id of a request',
  notOfCompany: ({ slug }: { slug: string }) =>
    `must be one of the company’s models, not ${JSON.stringify(slug)}`,
  aboveCredit: ({ limit }: { limit: string }) =>
    `must be at most ${limit}, the credit limit of the company`,
  euLocked: () => 'is locked by the operator of this service',
  wholeOrZero: ({ most }: { most: number }) => `must be a whole number from 0 to ${most}`,
  aboveMemberBudget: ({ most }: { most: string }) =>
    `must be at most ${most}, which the owners of your company let a key of a member spend`,
  memberKeysOff: () => 'The owners of your company let members have no keys of their own.',
  memberKeysFull: ({ most }: { most: number }) =>
    `You have as many active keys as a member may have here (${most}). Revoke one first.`,
  memberKeysOverlap: ({ most }: { most: number }) =>
    `With both keys you would have too many: a member may have ${most} active ${most === 1 ? 'key' : 'keys'} here when a rotation with an overlap begins. Replace this one without an overlap.`,
  allowanceOfNobody: () =>
    'needs calls that name their end user: let the key find the name in a header, or in a header and else in the body',
  keyRevoked: () => 'This key is revoked: create a new one instead.',
  keyEnded: ({ state }: { state: 'paused' | 'expired' | 'revoked' }) =>
    `This key is ${state}: ${state === 'paused' ? 'resume it first' : 'create a new one instead'}.`,
  pausedByOperator: () =>
    'The operator of this service paused this key: nobody else can resume it.',
  keyOfPlayground: () => 'The key of a playground is never shown.',
  playgroundFixed: () =>
    "This key is of a user's playground: its name, scopes and end stay as they are. Limit it, or revoke it.",
  playgroundRevoked: () => 'Your playground in this company was revoked.',
  keyTooLate: ({ at }: { at: string }) =>
    `A key that expired at ${at} would never work: give a later time.`,
  invitedAlready: ({ email }: { email: string }) =>
    `${email} is invited already. Renew or withdraw the invitation.`,
  hasAccount: ({ email }: { email: string }) =>
    `${email} cannot be invited: the address has an account already. Choose another address.`,
  lastOwner: () => 'This is the last owner of the company. Make somebody else an owner first.',
  roleByGroup: ({ group }: { group: string }) =>
    `This user has the role by a group of the identity provider, “${group}”: change it there.`,
  noAccount: () =>
    'The identity provider knows you, but there is no account for your verified e-mail address here.',
  noAccountByGroups: () =>
    'The identity provider knows you, but there is no account for your verified e-mail address here, and none of your groups gives you one.',
  groupsNotRead: () =>
    'Your account here comes from a group of the identity provider, and this service reads no groups now.',
  groupsNotTold: () =>
    'The identity provider does not tell which groups you are in. The log of this service says why.',
  groupsLost: () =>
    'None of your groups at the identity provider gives you an account here any more.',
  groupsApart: ({ one, other }: { one: string; other: string }) =>
    `Your groups “${one}” and “${other}” lead to different companies here, and an account belongs to one. Ask whoever manages your groups to take you out of the others.`,
  accountJustNow: () => 'You got an account just now. Sign in again.',
  noFactorKey: () => 'This service has no key for second factors: its operator has to set one.',
  factorGone: () => 'There is no second factor any more. Sign in again.',
  factorUnreadable: () =>
    'The second factor cannot be read: this service has another key than the one it was encrypted with. Use a recovery code, or ask the operator to take the second factor away.',
  factorRequired: () => 'This service requires a second factor: it cannot be turned off.',
  codeWrong: () => 'This code is wrong.',
  codeUsed: () => 'This code was used already. Wait for the next one.',
  recoveryWrong: () => 'This code is wrong, or was used already.',
  codesClosed: ({ minutes }: { minutes: number }) =>
    `Too many wrong codes. Try again in ${minutes < 120 ? `${minutes} minute${minutes === 1 ? '' : 's'}` : `${Math.ceil(minutes / 60)} hours`}, or use a recovery code.`,
  receiverTwice: ({ email }: { email: string | null }) =>
    `There is a rule for ${email ?? 'owners and administrators'} already. Change that one.`,
  mostReceivers: ({ most }: { most: number }) =>
    `A company has at most ${most} receivers of alerts. Remove one first.`,
  receiverOutside: ({ email }: { email: string }) =>
    `${email} belongs to none of the company's users, and could not be asked here whether it wants the alerts.`,
  receiverNothing: () =>
    'Choose a percentage or the forecast; remove the rule to send this address nothing.',
  receiverConfirms: () => 'This receiver has nothing to confirm.',
  eraseOther: ({ email }: { email: string }) =>
    `The address of the person is ${email}: give it to confirm.`,
  tokenSentTwice: ({ name }: { name: string }) =>
    `This form was sent twice. The administration token “${name}” was created the first time, and shown then: if nobody stored it, revoke it and send the form again.`,
};

/** A text for each code. */
export type RefusalTexts = typeof ENGLISH;
type Code = keyof RefusalTexts;

/** The texts of commands and of administration over HTTP. */
export const REFUSALS: Readonly<RefusalTexts> = ENGLISH;

export class Refusal {
  readonly #code: Code;
  readonly #values: readonly unknown[];
  /** The English text. */
  readonly text: string;

  constructor(code: Code, values: readonly unknown[]) {
    this.#code = code;
    this.#values = values;
    this.text = this.in(ENGLISH);
  }

  /** The text in the language of a word list. */
  in(texts: RefusalTexts): string {
    return (texts[this.#code] as (...values: readonly unknown[]) => string)(...this.#values);
  }
}

/** @param values by their names, where the text of the code has any */
export function refusal<C extends Code>(code: C, ...values: Parameters<RefusalTexts[C]>): Refusal {
  return new Refusal(code, values);
}

/** An error in one member of an input, or the rule that refuses it. */
export interface MemberMistake {
  /** A JSON Pointer into the body ("#/name"), or a parameter ("?limit"). */
  readonly pointer: string;
  /** Continues the pointer: "must be …". */
  readonly detail: string;
  /** The detail in the language of a page; absent: it is for operators and programs alone. */
  readonly reason?: Refusal;
}

/**
 * Why something is refused. wrong: its input would be refused whatever is stored; conflict: what is stored does not allow it;
 * missing: what it is about is not there. A face makes a status, an exit code or words of it.
 */
type Kind = 'wrong' | 'conflict' | 'missing';

/** An operation is refused, and nothing has changed. The message is one sentence for the person who asked. */
export class Refused extends Error {
  override readonly name = 'Refused';
  readonly kind: Kind;
  readonly mistakes: readonly MemberMistake[];
  /** The thing that is missing, or that conflicts; null: the mistakes have their places. */
  readonly noun: Noun | null;
  /** What a page says in the language of its reader; null: the message is for operators and programs alone. */
  readonly refusal: Refusal | null;

  constructor(
    kind: Kind,
    message: string | Refusal,
    mistakes: readonly MemberMistake[] = [],
    noun: Noun | null = null,
  ) {
    super(typeof message === 'string' ? message : message.text);
    this.kind = kind;
    this.mistakes = mistakes;
    this.noun = noun;
    this.refusal = typeof message === 'string' ? null : message;
  }
}

export function throwNotFound(noun: Noun, message = `There is no such ${noun}.`): never {
  throw new Refused('missing', message, [], noun);
}

export function throwConflict(noun: Noun, message: string | Refusal): never {
  throw new Refused('conflict', message, [], noun);
}

export function unknownCompany(id: string): never {
  throwNotFound('company', `There is no company ${id}.`);
}
