import { hash } from 'node:crypto';
import { formatEur, parseEur } from '../../domain/pricing/money.ts';
import { storedRates } from '../../domain/pricing/rates.ts';
import { rateText } from '../../domain/settings/model.ts';
import { labelsOf, type Settings } from '../../domain/settings/setting.ts';
import { isRates } from '../../domain/wording/change-text.ts';
import {
  type EditedTable,
  type LastChange,
  lastChange,
  lockRow,
} from '../../store/company/last-change.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { ConfirmationNeeded } from './confirmation.ts';
import type { PageContext } from './context.ts';
import type { FormState } from './field.ts';
import type { Form } from './form.ts';
import type { Format } from './format.ts';
import { type Html, html } from './html.ts';
import { type Cells, muted, table } from './layout.ts';

/**
 * Two people edit the same row: whoever saves second sees both values and decides. A form carries a digest of the
 * columns that it edits, as they were when its page was made.
 */

type Row = Readonly<Record<string, unknown>>;

/** The hidden field. A form that is shown again keeps the digest of what its user saw first. */
export function lockInput(state: FormState, row: object, settings: Settings): Html {
  return html`<input type="hidden" name="seen" value="${state.value('seen', digestOf(row as Row, Object.keys(settings)))}">`;
}

/** The change of a row that a form saves. */
interface RowChange<T> {
  readonly table: EditedTable;
  readonly id: string;
  /** The company of the row; null for shared models. */
  readonly company: string | null;
  /** Those that the form edits. */
  readonly settings: Settings;
  /** The values that the form would save. */
  readonly changes: object;
  /** Reads the present row, which is locked. */
  readonly find: () => Promise<T>;
  /** The page that shows the stored values. */
  readonly page: string;
}

/**
 * Locks the row of a form until the transaction ends.
 * @returns the present row
 * @throws ConfirmationNeeded when somebody else changed what the form edits since it was shown
 */
export async function lockEdited<T extends object>(
  c: PageContext,
  sql: Sql,
  form: Form,
  change: RowChange<T>,
): Promise<T> {
  await lockRow(sql, change.table, change.id);
  const present = await change.find();
  const row = present as Row;
  const changes = change.changes as Row;
  const columns = Object.keys(change.settings);
  const digest = digestOf(row, columns);
  const seen = form.values.get('seen');
  const differing = columns.filter(
    (name) => name in changes && canonical(changes[name], name) !== canonical(row[name], name),
  );
  const answer = `stale ${digest}`;
  if (seen === null || seen === digest || differing.length === 0 || form.confirms(answer))
    return present;
  const last = await lastChange(sql, change.table, change.id, change.company);
  const labels: Readonly<Record<string, string>> = labelsOf(change.settings, form.words);
  const { format, session } = c.var;
  const { stale } = format.words.form;
  const cells: Cells<string> = {
    [stale.field]: (name) => labels[name] ?? name,
    [stale.yours]: (name) => shown(changes[name], name, format),
    [stale.theirs]: (name) => shown(row[name], name, format),
  };
  throw new ConfirmationNeeded({
    answer,
    title: stale.title,
    text: html`<p>${stale.text({ name: html`<strong>${row.name ?? row.slug}</strong>`, by: savedBy(last, session.user.role === 'operator', format) })}</p>
${table(stale.differs, differing, { cells })}`,
    button: stale.save,
    link: { href: change.page, text: stale.take },
  });
}

/** Customers do not learn the addresses of operators. */
function savedBy(last: LastChange | null, isOperator: boolean, format: Format): Html | string {
  if (last === null) return '';
  const { at, actor, is_colleague } = last;
  const { stale } = format.words.form;
  const who = html`<strong>${isOperator || is_colleague ? actor : stale.operator}</strong>`;
  return html`${stale.by({ at: format.instant(at), who })}`;
}

function digestOf(row: Row, columns: readonly string[]): string {
  const values = columns.map((name) => canonical(row[name], name));
  return hash('sha256', JSON.stringify(values), 'base64url').slice(0, 22);
}

/** Equal for values that mean the same: lists have no order, and amounts no trailing zeros. */
function canonical(value: unknown, name: string): string {
  if (isRates(value)) return JSON.stringify(storedRates(value));
  if (Array.isArray(value)) return JSON.stringify([...value].sort());
  if (name.includes('_eur') && typeof value === 'string') return formatEur(parseEur(value));
  return JSON.stringify(value ?? null);
}

function shown(value: unknown, name: string, format: Format): Html {
  if (value === null || value === undefined || value === '') return muted(format.words.frame.none);
  if (isRates(value))
    return html`${(storedRates(value) ?? []).map((rate) => rateText(rate)).join('; ')}`;
  if (name.includes('_eur')) return html`${format.eurText(String(value))}`;
  if (typeof value === 'number') return html`${format.count(value)}`;
  if (typeof value === 'boolean')
    return html`${value ? format.words.form.yes : format.words.form.no}`;
  return html`<span class="typed">${Array.isArray(value) ? value.join(', ') : String(value)}</span>`;
}
