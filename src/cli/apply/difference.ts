import type { RateTexts } from '../../domain/pricing/rates.ts';
import type { differences } from '../../domain/settings/difference.ts';
import { rateText } from '../../domain/settings/model.ts';

/** One change, as it is printed: what is done to what, and the members that differ. */
export interface Step {
  readonly done: 'create' | 'change' | 'remove';
  readonly what: string;
  readonly changes: readonly string[];
}

export function inWords({ member, from, to }: ReturnType<typeof differences>[number]): string {
  const text = member === 'rates' ? ratesText : valueText;
  return `${member}: ${text(from)} -> ${text(to)}`;
}

function ratesText(rates: unknown): string {
  const texts = ((rates ?? []) as readonly RateTexts[]).map((rate) => rateText(rate));
  return texts.join('; ') || 'none';
}

/** A value as people read it: in one line, at most 60 characters. */
export function valueText(value: unknown): string {
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
