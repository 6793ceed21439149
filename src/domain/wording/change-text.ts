import type { Words } from '../language/en.ts';
import { wordsOf } from '../language/language.ts';
import { ENGLISH } from '../languages.ts';
import { type RateTexts, rateName } from '../pricing/rates.ts';

/** A row of an audited table. */
type Row = Readonly<Record<string, unknown>>;

/** A row of the audit log, as far as a sentence tells it. */
export interface ChangedRow {
  readonly at: Date;
  readonly actor: string;
  /** null for those who see one company only. */
  readonly db_role: string | null;
  readonly action: 'insert' | 'update' | 'delete' | 'truncate' | 'erase';
  /** The table. */
  readonly subject: string;
  /** The company's present name; null for a deleted company and for changes that concern none. */
  readonly company_name: string | null;
  readonly before: Row | null;
  readonly after: Row | null;
}

/** One change of the audit log, in words. */
export interface RecentChange {
  /** ISO 8601. */
  readonly at: string;
  readonly who: string;
  readonly what: string;
}

/** The audited tables. */
export const AUDITED: readonly string[] = Object.keys(wordsOf(ENGLISH).audit.nouns);

/** The name for a row of an audited table; an older log has tables that are gone. */
export function nounOf({ audit: { nouns } }: Words, table: string): string {
  return Object.hasOwn(nouns, table) ? nouns[table as keyof typeof nouns] : table;
}

/** The name of a column for people, such as "monthly budget" and "input price"; operators see more of them than a company. */
export function columnWords({ audit: { columns } }: Words, name: string): string {
  if (Object.hasOwn(columns, name)) return columns[name as keyof typeof columns];
  return name.replace(/_eur$/, '').replaceAll('_', ' ');
}

/** Operators read sentences in English. */
const WORDS = wordsOf(ENGLISH);
const { actions } = WORDS.audit;
const VERBS = { ...actions, erase: `${actions.erase} in` };
const SECRETS = ['digest', 'password_hash']; // the audit log tells only that they changed
const MOST_MEMBERS = 3;
const MAX_VALUE = 40; // characters

/** "ann@gate.example", "changed key CI of Acme: max concurrent none → 4". */
export function describeChange(row: ChangedRow): RecentChange {
  const { at, actor, db_role, action, subject, company_name } = row;
  const [before, after] = [row.before ?? {}, row.after ?? {}];
  const name = nameIn(row.after ?? before);
  const verb = action === 'update' ? (endOf(before, after) ?? VERBS.update) : VERBS[action];
  const noun = action === 'truncate' ? `all rows of ${subject}` : nounOf(WORDS, subject);
  const whose = company_name === null || subject === 'companies' ? '' : ` of ${company_name}`;
  const members = verb === VERBS.update ? differences(before, after) : '';
  return {
    at: at.toISOString(),
    who: actor === db_role ? `${actor} by SQL` : actorName(actor),
    what: `${verb} ${noun}${name === '' ? '' : ` ${name}`}${whose}${members}`,
  };
}

/** The person or program that made a change, as pages name it. */
export function actorName(actor: string | null): string {
  return actor === 'cli' ? WORDS.people.commandLine : (actor ?? WORDS.people.unknown);
}

/** The word for the end or pause of a company or key, or for its return; null for other changes. */
export function endOf(
  before: Row,
  after: Row,
): 'reopened' | 'closed' | 'revoked' | 'paused' | 'resumed' | null {
  if ((before.closed_at ?? null) !== (after.closed_at ?? null))
    return after.closed_at == null ? 'reopened' : 'closed';
  if (before.revoked_at == null && after.revoked_at != null) return 'revoked';
  if ((before.paused_at ?? null) === (after.paused_at ?? null)) return null;
  return after.paused_at == null ? 'resumed' : 'paused';
}

/** The name of an audited row; a statement has its number. '' for rows without one. */
export function nameIn(row: Row): string {
  return String(row.name ?? row.slug ?? row.email ?? row.number ?? '');
}

function differences(before: Row, after: Row): string {
  const names = Object.keys({ ...before, ...after }).filter(
    (name) => JSON.stringify(before[name] ?? null) !== JSON.stringify(after[name] ?? null),
  );
  if (names.length === 0) return '';
  const told = names.slice(0, MOST_MEMBERS).map((name) => {
    const words = columnWords(WORDS, name);
    if (SECRETS.includes(name)) return `${words} changed`;
    return `${words} ${shown(before[name])} → ${shown(after[name])}`;
  });
  const more = names.length > MOST_MEMBERS ? ` and ${names.length - MOST_MEMBERS} more` : '';
  return `: ${told.join(', ')}${more}`;
}

/** Whether a value is a list of rates, of which a sentence tells the conditions. */
export function isRates(value: unknown): value is readonly RateTexts[] {
  return Array.isArray(value) && value.length > 0 && typeof value[0] === 'object';
}

/** "2026-11-23 08:18 UTC" of a time as Postgres writes it into JSON; other texts as they are. */
function minuteIn(text: string): string {
  return text.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):[\d.]+\+00:00$/, '$1 $2 UTC');
}

function shown(value: unknown): string {
  if (isRates(value)) return value.map(rateName).join('; ');
  const text =
    value == null || (Array.isArray(value) && value.length === 0)
      ? 'none'
      : minuteIn(String(value));
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text;
}
