import {
  type CsvForm,
  SPREADSHEET_NAMES,
  SPREADSHEETS,
  type Spreadsheet,
} from '../../domain/documents/csv.ts';
import { oneOf } from '../../domain/field.ts';
import type { PageContext } from './context.ts';
import { options } from './field.ts';
import { type Html, html } from './html.ts';
import { pageLocale } from './locale.ts';

/**
 * CSV for the spreadsheet of the reader. Excel reads a file by the language of the computer: a German one takes ";"
 * between cells and "," in numbers, an English one "," and ".". No file suits both. So a file is written as the page
 * writes its numbers, unless the address chooses: `spreadsheet=comma` or `semicolon`.
 */

const PARAMETER = 'spreadsheet';

/** How the file that the address asks for is written. @throws FieldError */
export function spreadsheetOf(c: PageContext): CsvForm {
  const asked = c.req.query(PARAMETER);
  return SPREADSHEETS[asked === undefined ? usual(c) : oneOf(...SPREADSHEET_NAMES)(asked)];
}

/** A link to a file for a spreadsheet in the reader's language. @param address with a query */
export function csvLink(c: PageContext, address: string): Html {
  const name = usual(c);
  const { exports } = c.var.format.words;
  return html`<a class="button quiet" href="${address}&amp;${PARAMETER}=${name}" title="${`${exports.spreadsheet} ${exports.spreadsheets[name]}`}" download>CSV</a>`;
}

/** A link to the charges of a month for FinOps programs. @param address with a query */
export function focusLink(address: string): Html {
  return html`<a class="button quiet" href="${address}" title="FOCUS 1.2 · FinOps" download>FOCUS</a>`;
}

/** The same choice as a control of a form. */
export function spreadsheetSelect(c: PageContext): Html {
  const { exports } = c.var.format.words;
  return html`<div class="field"><label for="spreadsheet">${exports.spreadsheet}</label>
<select id="spreadsheet" name="${PARAMETER}">${options(
    SPREADSHEET_NAMES.map((name) => [name, exports.spreadsheets[name]]),
    usual(c),
  )}</select></div>`;
}

/** The form that suits the numbers of the page. */
function usual(c: PageContext): Spreadsheet {
  const parts = new Intl.NumberFormat(pageLocale(c.var.format.language)).formatToParts(0.5);
  return parts.some(({ type, value }) => type === 'decimal' && value === ',')
    ? 'semicolon'
    : 'comma';
}
