import { type ReasonCount, reasonOfCode } from '../../domain/reports/request-explanation.ts';
import type { Format } from './format.ts';
import { type Html, html } from './html.ts';
import { type Columns, muted } from './layout.ts';

/** Why requests were refused or failed: columns of tables. */

/**
 * @param requests all of them, of which a share is told
 * @param hrefOf the list of the requests that got this error; null: nowhere
 */
export function reasonCells<T extends ReasonCount>(
  requests: number,
  format: Format,
  hrefOf: (code: string) => string | null,
): Columns<T>['cells'] {
  const { tables, reasons } = format.words;
  return {
    [tables.reason]: ({ code }) => html`${reasonOfCode(code, reasons).text} <code>${code}</code>`,
    [tables.status]: ({ code }) => reasonOfCode(code, reasons).status ?? muted(tables.unknown),
    [tables.requests]: ({ code, requests: count }) => {
      const href = hrefOf(code);
      return href === null
        ? format.count(count)
        : html`<a href="${href}">${format.count(count)}<span class="sr">${tables.requestsWith(reasonOfCode(code, reasons).text)}</span></a>`;
    },
    [tables.share]: ({ requests: count }) => format.percent((count / requests) * 100),
  };
}

/** A count, and its share where there is any. */
export function shareOf(count: number, all: number, format: Format): Html {
  return html`${format.count(count)}${count === 0 ? '' : html` ${muted(format.percent((count / all) * 100))}`}`;
}
