import type { Visibility } from './assistant.ts';
import { END_USERS, type EndUsers, SCOPES, type Scope } from './key.ts';
import { type Refusal, refusal } from './refusal.ts';
import { emailSpelling, nameSpelling, unseenIn } from './visible-text.ts';

/**
 * Parses what people type on a command line or into a form: each reader returns the value of a text,
 * or throws a FieldError that says what the text must be. The limits are those of `sql/`, so that
 * the database accepts every value.
 */
export type Read<T> = (text: string) => T;

/** A text of the wrong form. The message continues the field's name: "must be …". */
export class FieldError extends Error {
  override readonly name = 'FieldError';
  /** What a page says in the language of its reader; null: the message is for operators and programs alone. */
  readonly refusal: Refusal | null;
  /** The refused text, as the message has it behind the reason; null: it is left out. */
  readonly refused: string | null;

  constructor(reason: string | Refusal, refused: string | null = null) {
    const text = typeof reason === 'string' ? reason : reason.text;
    super(refused === null ? text : `${text}, not ${JSON.stringify(refused)}`);
    this.refusal = typeof reason === 'string' ? null : reason;
    this.refused = refused;
  }
}

/** The most values of a list, which every request may look at. */
export const MOST_VALUES = 1000;
/** An id, in lower case. */
export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
export const SLUG = /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$/;
export const EUR = /^\d{1,12}(\.\d{1,15})?$/;
/** EUR per 1000 tokens. */
export const PRICE = /^\d{1,6}(\.\d{1,12})?$/;
/** Above 0, which `readPriceFactor` and the schema say besides. */
export const FACTOR = /^(\d{1,3}(\.\d{1,6})?|1000(\.0{1,6})?)$/;
export const MONTH = /^[12]\d{3}-(0[1-9]|1[0-2])$/;
/** The highest values that settings may have; the lowest is 1. */
export const MOST = {
  maxTokens: 32_000, // spec section 8
  modelTokens: 1_000_000_000, // what a model takes or generates
};
/**
 * What browsers take as an address (HTML, section 4.10.5.1.5), and every mail server: other letters before the @ ask for
 * SMTPUTF8 (RFC 6531), which many lack.
 */
const EMAIL =
  /^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?(?:\.[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?)*$/;
const PRESENT_EMAIL = /^[^\s\p{Cc}@<>"]+@[^\s\p{Cc}@<>"]+$/u;
const DAY = /^[12]\d{3}-\d\d-\d\d$/;
const INSTANT = /^([12]\d{3}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d))?$/;

export function readUuid(text: string): string {
  const id = text.toLowerCase();
  if (!UUID.test(id)) refuse(refusal('id'), text);
  return id;
}

/** The name that something gets: one line of 1 to 200 characters that can be seen. */
export function readName(text: string): string {
  return checkVisible(readPresentName(text));
}

/** One to six lines, each as a name is. */
export function readAddressLines(text: string): string {
  const all = lines(readName)(text);
  if (all.length === 0 || all.length > 6) throw new FieldError(refusal('lines', { most: 6 }));
  return all.join('\n');
}

/** A name that something has already. */
export function readPresentName(text: string): string {
  const name = nameSpelling(text.trim());
  if (name === '' || name.length > 200 || /\p{Cc}/u.test(name)) refuse(refusal('name'), text);
  return name;
}

/** Refuses a name that looks like another one, whoever gives it and by whatever way. @throws FieldError */
export function checkVisible(name: string): string {
  const unseen = unseenIn(name);
  if (unseen !== null) throw new FieldError(refusal('unseen', { character: unseen }));
  return name;
}

/** As `checkVisible`, for an e-mail address; a letter before the @ that is no ASCII is refused however it is spelled. */
export function checkEmail(email: string): string {
  checkVisible(email);
  const spelled = emailSpelling(email);
  const address = email.slice(0, email.lastIndexOf('@')) + spelled.slice(spelled.lastIndexOf('@'));
  return EMAIL.test(address) ? email : refuse(refusal('email'), email);
}

/** Any text without NUL, which Postgres cannot store. */
export function readText(text: string): string {
  if (text.includes('\0')) throw new FieldError(refusal('nul'));
  return text;
}

export const readSlug = matching(SLUG, refusal('slug'));

export function readBoolean(text: string): boolean {
  return oneOf('true', 'false')(text) === 'true';
}

/** A monthly budget in EUR as exact decimal text; 0 means unlimited (spec section 2.9). */
export const readBudget = matching(EUR, refusal('budget'));

/** An amount in EUR above 0, as exact decimal text: 0 would mean unlimited for a budget. */
export function readAboveZero(text: string): string {
  const amount = readBudget(text);
  return /[1-9]/.test(amount) ? amount : refuse(refusal('aboveZero'), text);
}

/** EUR per 1000 tokens as exact decimal text. */
export const readPrice = matching(
  PRICE,
  'must be EUR per 1000 tokens such as 0.0025, below 1000000, 12 decimals at most, as a plain decimal number',
);

/** EUR for one USD, as exact decimal text. */
export function readUsdRate(text: string): string {
  return PRICE.test(text) && /[1-9]/.test(text)
    ? text
    : refuse('must be the EUR for one USD, such as 0.92', text);
}

/** The factor of a company on its prices, as exact decimal text. */
export function readPriceFactor(text: string): string {
  const isRight = FACTOR.test(text) && Number(text) > 0 && Number(text) <= 1000;
  return isRight
    ? text
    : refuse('must be a number above 0, 1000 at most, with 6 decimals at most, such as 0.9', text);
}

/** Spec section 8: 0 to 2. */
export function readTemperature(text: string): number {
  const isRight = /^\d(\.\d{1,15})?$/.test(text) && Number(text) <= 2;
  return isRight ? Number(text) : refuse(refusal('temperature'), text);
}

export const readMaxTokens = wholeNumber(MOST.maxTokens);

export const readModelTokens = wholeNumber(MOST.modelTokens);

export const readScope: Read<Scope> = oneOf(...SCOPES);

export const readEndUsers: Read<EndUsers> = oneOf(...END_USERS);

export const readVisibility: Read<Visibility> = oneOf(
  'company',
  'private',
  'persons',
  'teams',
  'projects',
);

/** The address that somebody gets. */
export function readEmail(text: string): string {
  return checkEmail(readPresentEmail(text));
}

/** An address that somebody has already. */
export function readPresentEmail(text: string): string {
  const email = emailSpelling(text.trim());
  if (!PRESENT_EMAIL.test(email) || email.length > 254) refuse(refusal('email'), text);
  return email;
}

/** A date and time with its offset, or a date, whose meaning `readMoment` and its callers know: here its beginning in UTC. */
export function readInstant(text: string): Date {
  const [, day] = INSTANT.exec(text) ?? [];
  const at = new Date(text);
  if (day === undefined || !isDay(day) || !isInstant(at.getTime())) {
    refuse(refusal('instant'), text);
  }
  return at;
}

/** Whether it is of the years 1000 to 2999 in UTC, as texts of instants are; an offset may lead out of them. NaN is not. */
export function isInstant(at: number): boolean {
  const year = new Date(at).getUTCFullYear();
  return year >= 1000 && year <= 2999;
}

/** A calendar day. */
export function readDay(text: string): string {
  return DAY.test(text) && isDay(text) ? text : refuse(refusal('day'), text);
}

/** Seconds of a number of hours or days, such as "1h" or "30d". */
export function readDuration(text: string): number {
  const [, number, unit] =
    /^([1-9]\d{0,3})([hd])$/.exec(text) ?? refuse('must be hours or days such as 1h or 7d', text);
  return Number(number) * (unit === 'h' ? 3600 : 86_400);
}

/** "2026-11" as a billing month, "2026-11-01". */
export function readMonth(text: string): string {
  if (!MONTH.test(text)) refuse(refusal('month'), text);
  return `${text}-01`;
}

export function oneOf<const T extends string>(...choices: readonly T[]): Read<T> {
  return (text) => {
    const choice = choices.find((each) => each === text);
    return choice ?? refuse(refusal('choice', { choices }), text);
  };
}

/** The value, or null for "none", which clears a setting. */
export function orNone<T>(read: Read<T>): Read<T | null> {
  return (text) => (text === 'none' ? null : read(text));
}

/** Values of a text with one on each line; blank lines do not count. */
export function lines<T>(read: Read<T>): Read<T[]> {
  return (text) => {
    const filled = text.split('\n').filter((line) => line.trim() !== '');
    if (filled.length > MOST_VALUES) throw new FieldError(refusal('lines', { most: MOST_VALUES }));
    return filled.map((line) => read(line.trim()));
  };
}

/** The most percentages at which one receiver is told of a budget. */
export const MOST_PERCENTS = 10;

/** Percents of a budget such as "50, 80, 100", in their order; empty for an empty text. */
export function readPercents(text: string): number[] {
  const parts = text.split(/[\s,;%]+/).filter((part) => part !== '');
  const percents = sortedPercents(parts.map((part) => (/^\d{1,3}$/.test(part) ? Number(part) : 0)));
  if (percents.length > MOST_PERCENTS) {
    throw new FieldError(refusal('mostPercents', { most: MOST_PERCENTS }));
  }
  return percents.every((percent) => percent >= 1 && percent <= 100)
    ? percents
    : refuse(refusal('percents'), text);
}

/** Each once, in their order. */
export function sortedPercents(percents: readonly number[]): number[] {
  return [...new Set(percents)].sort((one, other) => one - other);
}

/** @param most the highest that is taken; the lowest is 1 */
export function wholeNumber(most: number): Read<number> {
  return (text) => {
    const value = /^\d{1,13}$/.test(text) ? Number(text) : 0;
    return value < 1 || value > most ? refuse(refusal('wholeNumber', { most }), text) : value;
  };
}

/** @param most the highest that is taken; the lowest is 0 */
export function wholeOrZero(most: number): Read<number> {
  return (text) => {
    const value = /^\d{1,13}$/.test(text) ? Number(text) : most + 1;
    return value > most ? refuse(refusal('wholeOrZero', { most }), text) : value;
  };
}

function matching(form: RegExp, want: string | Refusal): Read<string> {
  return (text) => (form.test(text) ? text : refuse(want, text));
}

function isDay(day: string): boolean {
  const at = new Date(`${day}T00:00:00Z`);
  // Date parses 30 February as 2 March
  return !Number.isNaN(at.getTime()) && at.toISOString().startsWith(day);
}

/** Refuses a text. @param want continues the field's name: "must be …" @throws FieldError */
export function refuse(want: string | Refusal, text: string): never {
  const shown = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  throw new FieldError(want, shown);
}
