import type { PageContext, Route } from './context.ts';
import { formAt, pageAt } from './context.ts';
import { formState, hiddenInputs } from './field.ts';
import type { Form } from './form.ts';
import { type Html, html } from './html.ts';
import { companyHeading, confirmation, linkButton, page } from './layout.ts';

export interface Confirmation {
  /**
   * The value that `Form.confirms` finds once the user has confirmed. It names the shown facts, so that a change of
   * them asks again.
   */
  readonly answer: string;
  readonly title: string;
  readonly text: Html;
  /** The label of the button that confirms. */
  readonly button: string;
  /** A way out besides changing the form. */
  readonly link?: { readonly href: string; readonly text: string };
}

/** A form that would do more than its user may expect. Thrown before anything is changed; the form comes back. */
export class ConfirmationNeeded extends Error {
  override readonly name = 'FormQuestion';
  readonly asked: Confirmation;

  constructor(asked: Confirmation) {
    super(asked.title);
    this.asked = asked;
  }
}

/** Asks: the form is in the page, and is sent again with the answer, or shown again to be changed. */
export function confirmationPage(
  c: PageContext,
  form: Form,
  { asked }: ConfirmationNeeded,
): Promise<Response> {
  const { answer, title, text, button, link } = asked;
  const body = html`<h1>${title}</h1><section class="card"><div role="alert" tabindex="-1" autofocus>${text}</div>
<form method="post" action="${c.req.path}" class="actions"><input type="hidden" name="csrf" value="${c.var.session.formToken}">${hiddenInputs(form.kept)}
<button class="primary" name="confirmed" value="${answer}">${button}</button>
<button class="quiet" name="step" value="show">${c.var.format.words.form.change}</button>${
    link === undefined ? '' : html` ${linkButton(link.href, link.text)}`
  }</form></section>`;
  c.status(409);
  return page(c, title, body);
}

/** What a page asks before something is done that cannot be undone. */
interface Question extends Omit<Parameters<typeof confirmation>[1], 'action'> {
  readonly title: string;
}

/** The page that asks, below the heading of the company of the path, and its form, which has the same address. */
export function askedFirst(
  path: string,
  action: Route['action'],
  ask: (c: PageContext) => Promise<Question>,
  handle: Route['handle'],
  more: Pick<Route, 'whileClosed'> = {},
): Route[] {
  const show = async (c: PageContext, form: Form): Promise<Response> => {
    const { title, ...question } = await ask(c);
    const { summary } = formState(form, c.req.path);
    const card = confirmation(c, { ...question, action: c.req.path });
    return page(c, title, html`${companyHeading(c)}<h1>${title}</h1>${summary}${card}`);
  };
  return [
    pageAt(path, action, show, { ...more }),
    formAt(path, action, handle, { ...more, page: show }),
  ];
}
