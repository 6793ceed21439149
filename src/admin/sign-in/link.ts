import type { Hono } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { Parts } from '../../domain/language/words.ts';
import type { Sql, Work } from '../../store/connection/pool.ts';
import { clientOf, type PageContext, type PageEnv } from '../page/context.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { plainPage } from '../page/layout.ts';
import { waitText } from '../process/throttle.ts';
import { emptyForm, orAgain } from './go-on.ts';

const READ_MS = 2000;

/**
 * Answers whoever opens a link with a secret. One that does not work counts like a failed sign-in.
 * @param find looks for what the secret stands for; null: nothing any more, or nothing ever
 * @param ended the one answer where there is nothing
 */
export async function byLink<T>(
  c: PageContext,
  secret: string,
  find: Work<T | null>,
  answer: (found: T) => Promise<Response>,
  ended: (c: PageContext) => Promise<Response>,
): Promise<Response> {
  const { attempts, db } = c.var.services;
  const attempt = attempts(clientOf(c), secret.slice(0, 8));
  const seconds = attempt.closedFor();
  if (seconds > 0) return tooMany(c, seconds);
  const found = await db.run(READ_MS, find);
  if (found !== null) return answer(found);
  attempt.count();
  return ended(c);
}

/** What is behind a link with a secret. */
interface Behind<T> {
  page(c: PageContext, form: Form, found: T, status?: 422): Promise<Response>;
  save(c: PageContext, form: Form, found: T): Promise<Response>;
  ended(c: PageContext): Promise<Response>;
}

/** Routes of a form behind the links that begin with a path. Opening one changes nothing: programs of mail servers do it too. */
export function formBehindLink<T>(
  app: Hono<PageEnv>,
  prefix: string,
  find: (sql: Sql, token: string) => Promise<T | null>,
  { page, save, ended }: Behind<T>,
): void {
  const opened = (c: PageContext, answer: (found: T) => Promise<Response>) =>
    byLink(c, tokenOf(c), (sql) => find(sql, tokenOf(c)), answer, ended);
  const path = `${prefix}:token{[\\w-]{43}}`;
  app.get(path, (c) => opened(c, (found) => page(c, emptyForm(c), found)));
  app.post(path, (c) =>
    opened(c, (found) => {
      const again = (_: PageContext, form: Form, status: 422) => page(c, form, found, status);
      return orAgain(c, again, (_, form) => save(c, form, found));
    }),
  );
  app.all(`${prefix}*`, (c) => c.notFound());
}

export function tokenOf(c: PageContext): string {
  return c.req.param('token') as string;
}

export function tooMany(c: PageContext, seconds: number): Promise<Response> {
  c.header('retry-after', String(seconds));
  const { words } = c.var.format;
  return sayPage(c, words.invitation.tooMany, waitText(words, seconds), 429);
}

/** A page that says one thing. @param more what follows it, such as a link */
export function sayPage(
  c: PageContext,
  title: string,
  text: Html | string | Parts,
  status?: ContentfulStatusCode,
  more: Html | '' = '',
): Promise<Response> {
  return plainPage(
    c,
    title,
    html`<div class="narrow"><h1>${title}</h1><p>${text}</p>${more}</div>`,
    status,
  );
}
