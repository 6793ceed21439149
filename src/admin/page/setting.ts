import { isLimited } from '../../domain/budget.ts';
import { lines } from '../../domain/field.ts';
import {
  eachSetting,
  type Setting,
  type Settings,
  type Values,
} from '../../domain/settings/setting.ts';
import { type Choices, checkbox, checkboxes, type FormState, field, select } from './field.ts';
import type { Form } from './form.ts';
import { type Html, html } from './html.ts';

type Row = Readonly<Record<string, unknown>>;
/** Replaces parts of the controls that their rows describe. */
type Special = { readonly hint?: string; readonly choices?: Choices };

/**
 * The controls of settings, in the order of their rows.
 * @param row what is stored; null: something new
 */
export function settingFields(
  state: FormState,
  settings: Settings,
  row: object | null,
  special: Special = {},
): Html {
  return html`${Object.entries(settings).map(([column, setting]) => control(state, setting, (row as Row | null)?.[column], special))}`;
}

function control(
  state: FormState,
  { kind, isNullable, field: spec }: Setting,
  value: unknown,
  { hint = spec.hint?.(state.words), choices = spec.choices?.(state.words) }: Special = {},
): Html {
  const common = {
    name: spec.name,
    label: spec.label(state.words),
    ...(hint !== undefined && { hint }),
  };
  const several = { type: 'textarea', rows: spec.rows ?? 0 } as const;
  if (kind === 'list') {
    const chosen = (value ?? []) as readonly string[];
    if (choices !== undefined) return checkboxes(state, { ...common, choices, chosen });
    return field(state, { ...common, ...several, value: chosen.join('\n') });
  }
  const text = value === null || value === undefined ? '' : String(value);
  if (kind === 'switch' && choices !== undefined)
    return checkboxes(state, { ...common, choices, chosen: [text], type: 'radio' });
  if (kind === 'switch') return checkbox(state, { ...common, checked: value === true });
  if (spec.box !== undefined) return checkbox(state, { ...common, checked: value === spec.box[1] });
  if (choices !== undefined) return select(state, { ...common, choices, value: text });
  const required = isNullable !== true && kind !== 'factor'; // of something new: 1
  if (kind === 'instant') return field(state, { ...common, type: 'date', value: text });
  if (kind === 'amount') {
    return field(state, {
      ...common,
      required,
      inputmode: 'decimal',
      value: isLimited(text || null) ? text : '',
    });
  }
  if (spec.rows !== undefined)
    return field(state, { ...common, ...several, required, value: text });
  const plain = { ...common, required, value: text };
  const isNumber = kind === 'number' || kind === 'factor';
  return field(state, isNumber ? { ...plain, inputmode: spec.inputmode ?? 'numeric' } : plain);
}

/** Reads the controls of settings. A choice that the form does not have stays as it is. */
export function readSettings<S extends Settings>(form: Form, settings: S): Values<S> {
  return eachSetting(settings, (setting) => readControl(form, setting)) as Values<S>;
}

function readControl(
  form: Form,
  { kind, isNullable, isNeeded, read, field: { name, box, choices } }: Setting,
): unknown {
  if (kind === 'switch' && choices === undefined) return form.checked(name);
  if (kind === 'list') {
    const values = form.all(name, lines(read)).flat();
    if (values.length > 0) return values;
    if (isNeeded) form.refuse(name, form.words.form.noneChosen);
    return isNullable ? null : values;
  }
  if (box !== undefined) return form.checked(name) ? box[1] : box[0];
  if (choices !== undefined && !isNeeded && !form.values.has(name)) return undefined;
  if (kind === 'factor') return form.optional(name, form.numeric(read)) ?? undefined;
  const reader = kind === 'amount' || kind === 'number' ? form.numeric(read) : read;
  return isNullable ? form.optional(name, reader) : form.required(name, reader);
}
