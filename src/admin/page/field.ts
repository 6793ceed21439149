import { hash, randomUUID } from 'node:crypto';
import type { PageContext } from './context.ts';
import type { Form } from './form.ts';
import { type Html, html, raw } from './html.ts';
import { writeNumber } from './number-text.ts';

/** Parts of forms: labelled controls that keep their values and show their messages after a refusal. */

export type FormState = ReturnType<typeof formState>;

/**
 * The state of the controls of one form: the values that were sent, or those given by the page.
 * @param path where the form of the page is sent; values sent to another path are ignored
 */
export function formState(form: Form, path: string) {
  const sent = form.path === path ? form : null;
  const messages = sent?.messages ?? new Map<string, string>();
  const hasFocus = messages.has('') || sent?.isResumed === true;
  let isFocused = hasFocus;
  return {
    /** This form was sent, and is shown again. */
    isSent: sent !== null,
    /** Why the form was refused, or that it is shown again; empty otherwise. */
    summary: summaryOf(form, messages, sent?.isResumed === true, hasFocus),
    /** The attribute of the first refused control, so that the browser scrolls to it. Controls are made in their order. */
    focus(name: string): string {
      if (isFocused || !messages.has(name)) return '';
      isFocused = true;
      return ' autofocus';
    },
    words: form.words,
    /** A number as the page writes it. */
    number: (amount: string) => writeNumber(amount, form.language),
    message: (name: string) => messages.get(name) ?? null,
    value: (name: string, fallback: string) => sent?.values.get(name) ?? fallback,
    isChecked: (name: string, value: string, fallback: boolean) =>
      sent === null ? fallback : sent.values.getAll(name).includes(value),
  };
}

function summaryOf(
  { words }: Form,
  messages: ReadonlyMap<string, string>,
  isResumed: boolean,
  hasFocus: boolean,
): Html {
  const focus = raw(hasFocus ? ' tabindex="-1" autofocus' : '');
  if (messages.size > 0) {
    const text = messages.get('') ?? words.form.correct;
    return html`<div class="problem" role="alert"${focus}>${text}</div>`;
  }
  if (!isResumed) return html``;
  return html`<div class="notice warn-notice" role="status"${focus}>${words.form.resumed}</div>`;
}

/**
 * The hidden fields of every form: the proof that it comes from a page of this session, its user, and the language of
 * its numbers. A form that outlives its session is shown again to the same user only.
 */
export function csrfInput(c: PageContext): Html {
  const { session, format } = c.var;
  return html`<input type="hidden" name="csrf" value="${session.formToken}"><input type="hidden" name="user" value="${session.user.user_id}"><input type="hidden" name="language" value="${format.language}">`;
}

/** Hidden fields by their names: those of a form that was sent are `form.kept`. */
export function hiddenInputs(fields: Iterable<readonly [name: string, value: string]>): Html[] {
  return Array.from(
    fields,
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  );
}

// A form that creates something does so once, however often it is sent: by a double click, or a reload of its answer.

/** A hidden field by which a repetition is known. */
export function idempotencyInput(): Html {
  return html`<input type="hidden" name="id" value="${randomUUID()}">`;
}

/**
 * The id of the row that a form creates, for `createOnce`: the same when the same form is sent again, and another one
 * when somebody went back and changed a field. Random for scripts, which send no such field.
 * @param what which of the things that the form creates, where it creates several
 */
export function idempotentId(form: Form, what = ''): string {
  if (!form.values.has('id')) return randomUUID();
  const digest = hash('sha256', what + JSON.stringify(form.kept), 'hex');
  return digest.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5'); // RFC 9562, version 8
}

/**
 * A form that saves something.
 * @param button the words of its button
 * @param beside what stands beside the button, such as `cancelLink`
 */
export function saveForm(
  c: PageContext,
  path: string,
  fields: Html | string,
  button: Html | string,
  beside: Html | string = '',
  tone: 'primary' | 'danger' | '' = 'primary',
): Html {
  return html`<form method="post" action="${path}" class="stack">${csrfInput(c)}${fields}
<div class="actions"><button class="${tone}">${button}</button> ${beside}</div></form>`;
}

/** A form of one button that does something at once. @param beside as of `saveForm` */
export function actionForm(
  c: PageContext,
  path: string,
  button: string,
  tone: 'quiet' | 'primary' | 'danger' | '' = '',
  beside: Html | string = '',
): Html {
  return html`<form method="post" action="${path}" class="actions">${csrfInput(c)}<button class="${tone}">${button}</button> ${beside}</form>`;
}

/** The same in a row, in its line. @param of what it belongs to, for screen readers @param fields hidden ones */
export function buttonForm(
  c: PageContext,
  path: string,
  text: string,
  of: string,
  fields: Html | Html[] | string = '',
): Html {
  return html`<form method="post" action="${path}" class="inline">${csrfInput(c)}${fields}<button class="quiet">${text}<span class="sr"> ${of}</span></button></form>`;
}

interface Control {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
}

/**
 * The form that adds something, above the list of present things. It is folded until it is wanted.
 * @param spec.isFirst nothing is there yet
 */
export function createCard(
  c: PageContext,
  form: Form,
  spec: {
    path: string;
    title: string;
    button: string;
    isFirst: boolean;
    fields: (state: FormState) => Html | Promise<Html>;
  },
): Html {
  const { path, title, button, isFirst, fields } = spec;
  const state = formState(form, path);
  return html`<details class="card create" id="create"${isFirst || form.path === path ? raw(' open') : ''}><summary>${title}</summary>${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${fields(state)}
<div class="actions"><button class="primary">${button}</button></div></form></details>`;
}

export interface Field extends Control {
  /** Shown unless a value was sent. Of a field for numbers: a plain decimal number. */
  readonly value?: string;
  readonly type?: 'text' | 'email' | 'password' | 'date' | 'datetime-local' | 'textarea';
  readonly required?: boolean;
  readonly autocomplete?: string;
  readonly inputmode?: 'decimal' | 'numeric';
  readonly rows?: number;
  /** Id of a datalist with suggestions. */
  readonly list?: string;
  /** The value is never sent back to the browser or to a spelling checker. Passwords never are, without this. */
  readonly secret?: true;
}

/** A labelled text field. */
export function field(state: FormState, spec: Field): Html {
  const {
    name,
    label,
    type = 'text',
    required = false,
    autocomplete = 'off',
    inputmode,
    rows = 5,
    list,
  } = spec;
  const given = spec.value ?? '';
  const isSecret = type === 'password' || spec.secret === true;
  const value = isSecret
    ? ''
    : state.value(name, inputmode === undefined ? given : state.number(given));
  const attributes = raw(
    (required ? ' required' : '') +
      (inputmode === undefined ? '' : ` inputmode="${inputmode}"`) +
      (list === undefined ? '' : ` list="${list}"`) +
      (isSecret ? ' spellcheck="false"' : '') +
      invalid(state, name),
  );
  return html`<div class="field"><label for="f-${name}">${label}</label>${
    isSecret ? html`<input type="hidden" name="secret" value="${name}">` : ''
  }
${
  type === 'textarea'
    ? html`<textarea id="f-${name}" name="${name}" rows="${rows}" autocomplete="off"${attributes}${describedBy(state, spec)}>
${value}</textarea>`
    : html`<input id="f-${name}" name="${name}" type="${type}" value="${value}" autocomplete="${autocomplete}"${attributes}${describedBy(state, spec)}>`
}
${description(state, spec)}</div>`;
}

/** A text field in a cell of a table, whose heading is its label. */
export function cellField(
  state: FormState,
  {
    name,
    label,
    value: given = '',
    inputmode,
  }: Pick<Field, 'name' | 'label' | 'value' | 'inputmode'>,
): Html {
  const value = state.value(name, inputmode === undefined ? given : state.number(given));
  const attributes = raw(
    (inputmode === undefined ? '' : ` inputmode="${inputmode}"`) + invalid(state, name),
  );
  return html`<input id="f-${name}" name="${name}" aria-label="${label}" value="${value}" autocomplete="off"${attributes}${describedBy(state, { name, label })}>${description(state, { name, label })}`;
}

/** Values and their texts. */
export type Choices = readonly (readonly [string, string])[];

/** The options of a select element. */
export function options(choices: Choices, chosen: string): Html[] {
  return choices.map(
    ([value, text]) =>
      html`<option value="${value}"${value === chosen ? raw(' selected') : ''}>${text}</option>`,
  );
}

/** A labelled choice of one. */
export function select(
  state: FormState,
  spec: Control & { readonly choices: Choices; readonly value: string },
): Html {
  const { name, label, choices } = spec;
  return html`<div class="field"><label for="f-${name}">${label}</label>
<select id="f-${name}" name="${name}"${raw(invalid(state, name))}${describedBy(state, spec)}>${options(choices, state.value(name, spec.value))}</select>
${description(state, spec)}</div>`;
}

/** A checkbox with its label. Several of one name have a value each. */
export function checkbox(
  state: FormState,
  spec: Control & { value?: string; checked: boolean; type?: 'radio' },
): Html {
  const { name, label, hint, value = 'true', type = 'checkbox' } = spec;
  const id = `f-${name}-${value}`;
  return html`<div class="check"><input type="${type}"${raw(type === 'radio' ? ' required' : '')} id="${id}" name="${name}" value="${value}"${raw(
    (state.isChecked(name, value, spec.checked) ? ' checked' : '') + invalid(state, name),
  )}${hint === undefined ? '' : html` aria-describedby="${id}-hint"`}><label for="${id}">${label}</label>${
    hint === undefined ? '' : html`<p class="hint" id="${id}-hint">${hint}</p>`
  }</div>`;
}

/** Checkboxes of one name under a legend; or radio buttons, of which one has to be taken. */
export function checkboxes(
  state: FormState,
  spec: Control & {
    readonly choices: Choices;
    readonly chosen: readonly string[];
    readonly type?: 'radio';
  },
): Html {
  const { name, label, choices, chosen, type } = spec;
  return html`<fieldset${describedBy(state, spec)}><legend>${label}</legend><div class="choices">${choices.map(
    ([value, text]) =>
      checkbox(state, {
        name,
        value,
        label: text,
        checked: chosen.includes(value),
        ...(type !== undefined && { type }),
      }),
  )}</div>${description(state, spec)}</fieldset>`;
}

/** The attributes of a refused control. */
function invalid(state: FormState, name: string): string {
  return state.message(name) === null ? '' : ` aria-invalid="true"${state.focus(name)}`;
}

/** The hint of a control and, after a refusal, its message. */
function description(state: FormState, { name, label, hint }: Control): Html {
  const message = state.message(name);
  return html`${hint === undefined ? '' : html`<p class="hint" id="f-${name}-hint">${hint}</p>`}
${message === null ? '' : html`<p class="wrong" id="f-${name}-wrong">${state.words.form.wrong(label, message)}</p>`}`;
}

/** The attribute by which screen readers find them. */
function describedBy(state: FormState, { name, hint }: Control): Html | string {
  const ids = [
    ...(hint === undefined ? [] : [`f-${name}-hint`]),
    ...(state.message(name) === null ? [] : [`f-${name}-wrong`]),
  ];
  return ids.length === 0 ? '' : html` aria-describedby="${ids.join(' ')}"`;
}
