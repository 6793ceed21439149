import { html, raw } from 'hono/html';
import type { PageContext } from './context.ts';
import type { Form } from './form.ts';
import type { Html } from './html.ts';

/** Parts of forms: labelled controls that keep their values and show their messages after a refusal. */

export type FormState = ReturnType<typeof formState>;

/**
 * What the controls of one form show: the values that were sent, or those given by the page.
 * @param path where the form of the page is sent; what was sent to another path does not concern it
 */
export function formState(form: Form, path: string) {
  const sent = form.path === path ? form : null;
  const messages = sent?.messages ?? new Map<string, string>();
  const summary = messages.get('') ?? 'Please correct the marked fields. Nothing was changed.';
  return {
    /** Why the form was refused; empty when it was not. */
    summary: messages.size === 0 ? html`` : html`<div class="problem" role="alert">${summary}</div>`,
    message: (name: string) => messages.get(name) ?? null,
    value: (name: string, fallback: string) => sent?.values.get(name) ?? fallback,
    isChecked: (name: string, value: string, fallback: boolean) =>
      sent === null ? fallback : sent.values.getAll(name).includes(value),
  };
}

/** The proof that a form comes from a page of this session. */
export function csrfInput(c: PageContext): Html {
  return html`<input type="hidden" name="csrf" value="${c.var.session.csrf}">`;
}

interface Control {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
}

export interface Field extends Control {
  /** Shown unless a value was sent. */
  readonly value?: string;
  readonly type?: 'text' | 'email' | 'password' | 'date' | 'textarea';
  readonly required?: boolean;
  readonly autocomplete?: string;
  readonly inputmode?: 'decimal' | 'numeric';
  readonly rows?: number;
  /** Id of a datalist with suggestions. */
  readonly list?: string;
}

/** A labelled text field. The value of a password is never sent back. */
export function field(state: FormState, spec: Field): Html {
  const { name, label, type = 'text', required = false, autocomplete = 'off', inputmode, rows = 5, list } = spec;
  const value = type === 'password' ? '' : state.value(name, spec.value ?? '');
  const attributes = raw(
    (required ? ' required' : '') +
      (inputmode === undefined ? '' : ` inputmode="${inputmode}"`) +
      (list === undefined ? '' : ` list="${list}"`) +
      (state.message(name) === null ? '' : ' aria-invalid="true"'),
  );
  return html`<div class="field"><label for="f-${name}">${label}</label>
${
  type === 'textarea'
    ? html`<textarea id="f-${name}" name="${name}" rows="${rows}" autocomplete="off"${attributes}${describedBy(state, spec)}>
${value}</textarea>`
    : html`<input id="f-${name}" name="${name}" type="${type}" value="${value}" autocomplete="${autocomplete}"${attributes}${describedBy(state, spec)}>`
}
${description(state, spec)}</div>`;
}

/** Values and their texts. */
type Choices = readonly (readonly [string, string])[];

/** What a select element offers. */
export function options(choices: Choices, chosen: string): Html[] {
  return choices.map(
    ([value, text]) => html`<option value="${value}"${value === chosen ? raw(' selected') : ''}>${text}</option>`,
  );
}

/** A labelled choice of one. */
export function select(state: FormState, spec: Control & { readonly choices: Choices; readonly value: string }): Html {
  const { name, label, choices } = spec;
  return html`<div class="field"><label for="f-${name}">${label}</label>
<select id="f-${name}" name="${name}"${describedBy(state, spec)}>${options(choices, state.value(name, spec.value))}</select>
${description(state, spec)}</div>`;
}

/** A checkbox with its label. Several of one name have a value each. */
export function checkbox(state: FormState, spec: Control & { value?: string; checked: boolean }): Html {
  const { name, label, hint, value = 'true' } = spec;
  const id = `f-${name}-${value}`;
  return html`<div class="check"><input type="checkbox" id="${id}" name="${name}" value="${value}"${
    state.isChecked(name, value, spec.checked) ? raw(' checked') : ''
  }${hint === undefined ? '' : html` aria-describedby="${id}-hint"`}><label for="${id}">${label}</label>${
    hint === undefined ? '' : html`<p class="hint" id="${id}-hint">${hint}</p>`
  }</div>`;
}

/** Checkboxes of one name under a legend. */
export function checkboxes(
  state: FormState,
  spec: Control & { readonly choices: Choices; readonly chosen: readonly string[] },
): Html {
  const { name, label, choices, chosen } = spec;
  return html`<fieldset${describedBy(state, spec)}><legend>${label}</legend><div class="choices">${choices.map(
    ([value, text]) => checkbox(state, { name, value, label: text, checked: chosen.includes(value) }),
  )}</div>${description(state, spec)}</fieldset>`;
}

/** The hint of a control and, after a refusal, its message. */
function description(state: FormState, { name, label, hint }: Control): Html {
  const message = state.message(name);
  return html`${hint === undefined ? '' : html`<p class="hint" id="f-${name}-hint">${hint}</p>`}
${message === null ? '' : html`<p class="wrong" id="f-${name}-wrong">${label} ${message}</p>`}`;
}

/** The attribute by which screen readers find them. */
function describedBy(state: FormState, { name, hint }: Control): Html | string {
  const ids = [
    ...(hint === undefined ? [] : [`f-${name}-hint`]),
    ...(state.message(name) === null ? [] : [`f-${name}-wrong`]),
  ];
  return ids.length === 0 ? '' : html` aria-describedby="${ids.join(' ')}"`;
}
