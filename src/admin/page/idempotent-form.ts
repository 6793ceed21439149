import { hash, randomUUID } from 'node:crypto';
import type { Form } from './form.ts';
import { type Html, html } from './html.ts';

/** A form that creates something does so once, however often it is sent: by a double click, or a reload of its answer. */

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
