import { isLimited } from '../../domain/budget.ts';
import type { Setting, Settings, Values } from '../../domain/settings/setting.ts';
import { eachSetting } from '../../domain/settings/setting.ts';
import { checkbox, type FormState, field, select } from './field.ts';
import type { Form } from './form.ts';
import { type Html, html } from './html.ts';

type Row = Readonly<Record<string, unknown>>;

/**
 * The controls of settings, in the order of their rows.
 * @param row what is stored; null: something new
 * @param hints in place of those of the rows, by column
 */
export function settingFields(
  state: FormState,
  settings: Settings,
  row: object | null,
  hints: Readonly<Record<string, string>> = {},
): Html {
  return html`${Object.entries(settings).map(([column, setting]) => control(state, setting, (row as Row | null)?.[column], hints[column]))}`;
}

function control(state: FormState, { kind, isNullable, field: spec }: Setting, value: unknown, given?: string): Html {
  const { words } = state;
  const hint = given ?? spec.hint?.(words);
  const common = { name: spec.name, label: spec.label(words), ...(hint !== undefined && { hint }) };
  const text = value === null || value === undefined ? '' : String(value);
  if (kind === 'switch') return checkbox(state, { ...common, checked: value === true });
  if (spec.box !== undefined) return checkbox(state, { ...common, checked: value === spec.box[1] });
  if (spec.choices !== undefined) return select(state, { ...common, choices: spec.choices(words), value: text });
  const required = isNullable !== true;
  if (kind === 'amount') {
    return field(state, { ...common, required, inputmode: 'decimal', value: isLimited(text || null) ? text : '' });
  }
  return field(state, { ...common, required, value: text, ...(kind === 'number' && { inputmode: 'numeric' }) });
}

/** Reads the controls of settings. A choice that the form does not have stays as it is. */
export function readSettings<S extends Settings>(form: Form, settings: S): Values<S> {
  return eachSetting(settings, (setting) => readControl(form, setting)) as Values<S>;
}

function readControl(form: Form, { kind, isNullable, read, field: { name, box, choices } }: Setting): unknown {
  if (kind === 'switch') return form.checked(name);
  if (box !== undefined) return form.checked(name) ? box[1] : box[0];
  if (choices !== undefined && !form.values.has(name)) return undefined;
  const reader = kind === 'amount' || kind === 'number' ? form.numeric(read) : read;
  return isNullable ? form.optional(name, reader) : form.required(name, reader);
}
