import { unusualPage, unusualText } from '../../domain/wording/unusual.ts';
import { readUnusual, type UnusualRow } from '../../store/events/unusual.ts';
import { type PageContext, read } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { pageLocale } from '../page/locale.ts';

const MOST_SHOWN = 10;
const MOST_MARKED = 1000;

function textOf(row: UnusualRow, { words, language }: Format): string {
  return unusualText(row.measure, row, { ...words, locale: pageLocale(language) });
}

/** What is unusual today, each in a sentence that leads to what it consists of. @param company null: of all */
export async function unusualToday(c: PageContext, company: string | null): Promise<Html | string> {
  const { format } = c.var;
  const { unusual } = format.words;
  const rows = await read(c, (sql) => readUnusual(sql, company, false, MOST_MARKED));
  if (rows.length === 0) return '';
  const lines = rows.map(
    (row) => html`<li><a href="${unusualPage(row.measure, row)}">${textOf(row, format)}</a></li>`,
  );
  const others = lines.slice(MOST_SHOWN);
  return html`<section class="notice warn-notice unusual" aria-labelledby="unusual"><h2 id="unusual">${unusual.title}</h2>
<ul>${lines.slice(0, MOST_SHOWN)}</ul>${others.length === 0 ? '' : html`<details class="more-notices"><summary>${unusual.more(others.length)}</summary><ul>${others}</ul></details>`}</section>`;
}

/**
 * Marks the rows of a list that are unusual today.
 * @param company null: of all
 * @returns the mark of a company, a key or a model; empty: there is none
 */
export async function unusualMarks(c: PageContext, company: string | null) {
  const { format } = c.var;
  const rows = await read(c, (sql) => readUnusual(sql, company, true, MOST_MARKED));
  const mark = (is: (row: UnusualRow) => boolean): Html | string => {
    const row = rows.find(is);
    if (row === undefined) return '';
    const text = textOf(row, format);
    return html` <a class="dot" href="${unusualPage(row.measure, row)}" aria-label="${text}" title="${text}"></a>`;
  };
  return {
    company: (id: string) => mark((row) => row.company.id === id),
    key: (id: string) => mark(({ key }) => key?.id === id),
    model: (slug: string) => mark(({ model }) => model === slug),
  };
}
