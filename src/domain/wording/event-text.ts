import type { CompanyEvent } from '../event.ts';
import type { Words } from '../language/en.ts';
import {
  type BudgetAlert,
  budgetPage,
  budgetTitle,
  type EndUserAlert,
  endUserPage,
  endUserTitle,
} from './alert.ts';
import { measureOf, type UnusualEvent, unusualPage, unusualText } from './unusual.ts';

/** Anyone may have written the names in the database: they are no lines, links and mentions of a chat. */
const UNSAFE: readonly (readonly [RegExp, string])[] = [
  [/\p{Cc}/gu, ' '],
  [/</g, '‹'],
  [/>/g, '›'],
  [/@(?=\p{L})/gu, '@\u200b'],
  [/\]\(/g, '] ('],
];

/**
 * An event in a sentence, with the link to its page: what a chat shows that a webhook leads to.
 * @param pages base address of the administration pages; null: no link
 */
export function eventText(event: CompanyEvent, words: Words, pages: URL | null): string {
  const { text, path } = toldOf(event, words);
  const line = UNSAFE.reduce((safe, [unsafe, instead]) => safe.replace(unsafe, instead), text);
  return pages === null ? line : `${line} ${new URL(path, pages).href}`;
}

function toldOf(
  event: CompanyEvent,
  words: Words,
): { readonly text: string; readonly path: string } {
  const [group, what = ''] = event.type.split('.');
  if (group === 'unusual') {
    const unusual = event as unknown as UnusualEvent;
    const measure = measureOf(unusual);
    return { text: unusualText(measure, unusual, words), path: unusualPage(measure, unusual) };
  }
  if (group === 'budget' || group === 'cost_center') {
    const alert = event as unknown as BudgetAlert;
    return { text: budgetTitle(alert, words), path: budgetPage(alert) };
  }
  if (group === 'end_user') {
    const alert = event as unknown as EndUserAlert;
    return { text: endUserTitle(alert, words), path: endUserPage(alert) };
  }
  const { id, name } = event.company;
  const { key } = event as { readonly key?: { readonly id: string; readonly name: string } };
  const about = key === undefined ? '' : `, ${words.unusual.key(key.name)}`;
  const page =
    key === undefined ? (group === 'statement' ? 'statements' : 'settings') : `keys/${key.id}`;
  return { text: `${name}: ${group} ${what}${about}`, path: `/companies/${id}/${page}` };
}
