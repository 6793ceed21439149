import { HTTPException } from 'hono/http-exception';
import { changeText } from '../domain/language/refusal-text.ts';
import { Refused } from '../domain/refusal.ts';
import { ConfirmationNeeded, confirmationPage } from './page/confirmation.ts';
import type { PageContext, Route } from './page/context.ts';
import { type Form, FormRefused } from './page/form.ts';
import { isOfSession } from './page/session.ts';

/**
 * Handles a form that was sent. It is executed only with the token of the present session. A form of the same user's
 * former session is shown again with what was typed. A refused form is shown again with status 422.
 * @param page the address of the page that has the form, for routes without a `page`
 * @throws HTTPException 403
 */
export async function submit(
  route: Route,
  c: PageContext,
  form: Form,
  page: string,
): Promise<Response> {
  const { session } = c.var;
  const isCurrent = isOfSession(session, form.values.get('csrf') ?? '');
  if (!isCurrent && form.values.get('user') !== session.user.user_id) {
    throw new HTTPException(403, { message: c.var.format.words.errors.oldForm });
  }
  if (!isCurrent || form.values.get('step') === 'show') {
    if (route.page === undefined) return c.redirect(page, 303);
    form.isResumed = true;
    return route.page(c, form);
  }
  try {
    return await route.handle(c, form);
  } catch (error) {
    if (error instanceof ConfirmationNeeded) return confirmationPage(c, form, error);
    if (error instanceof Refused && error.kind === 'conflict')
      form.refuse('', changeText(form.words, error));
    else if (!(error instanceof FormRefused)) throw error;
    if (route.page === undefined) throw error;
    c.status(422);
    c.set('isRefused', true);
    return route.page(c, form);
  }
}
