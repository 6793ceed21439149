import { parseEur } from '../../domain/money.ts';

/** One change, as it is printed: what is done to what, and the members that differ. */
export interface Step {
  readonly done: 'create' | 'change' | 'remove';
  readonly what: string;
  readonly changes: readonly string[];
}

/** What a thing is to become: the members that differ. */
interface Difference {
  readonly member: string;
  readonly from: unknown;
  readonly to: unknown;
}

/** Members whose values are amounts, as exact decimal text. */
const AMOUNT = /_eur$|^cost_eur_|^input$|^output$|^cache_|_factor$/;

/** The members of what is wanted that are not so now. Amounts are compared as numbers, instants as times, lists as sets. */
export function differences(now: object, wanted: object): Difference[] {
  const present = now as Readonly<Record<string, unknown>>;
  return Object.entries(wanted)
    .filter(([member, to]) => to !== undefined && text(member, present[member]) !== text(member, to, present[member]))
    .map(([member, to]) => ({ member, from: present[member], to }));
}

/** Writes values with the same meaning as the same text. @param like the value that it is compared with */
function text(member: string, value: unknown, like: unknown = value): string {
  if (value instanceof Date) return value.toISOString();
  if (like instanceof Date && typeof value === 'string') return new Date(value).toISOString();
  if (Array.isArray(value)) return JSON.stringify([...new Set(value)].sort());
  if (typeof value === 'string' && AMOUNT.test(member)) return String(parseEur(value));
  return String(value ?? null);
}

export function inWords({ member, from, to }: Difference): string {
  return `${member}: ${shown(from)} -> ${shown(to)}`;
}

/** A value as people read it: in one line, at most 60 characters. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return 'none';
  if (value instanceof Date) return value.toISOString();
  const json = typeof value === 'string' ? value : JSON.stringify(value);
  const line = json.replaceAll(/\s+/g, ' ');
  return line.length > 60 ? `${line.slice(0, 60)}…` : line;
}

const SIGNS: Readonly<Record<Step['done'], string>> = { create: '+', change: '~', remove: '-' };

/** Changes as text, and how many there are. */
export function stepsText(steps: readonly Step[], isDry: boolean): string {
  if (steps.length === 0) return 'Nothing to change.';
  const lines = steps.flatMap(({ done, what, changes }) => [
    `${SIGNS[done]} ${what}`,
    ...changes.map((change) => `    ${change}`),
  ]);
  const counts = `${steps.length} ${steps.length === 1 ? 'change' : 'changes'}`;
  return [...lines, '', isDry ? `${counts} would be made.` : `${counts} made.`].join('\n');
}
