import { Hono } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { CONFIRM_PATH, STOP_PATH } from '../../domain/text/alert.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { confirmReceiver, findAsked, findOutsider, removeReceiver } from '../../store/people/alert-receiver.ts';
import { UUID_IN_PATH } from '../api/serve.ts';
import { clientOf, type PageContext, type PageEnv } from '../page/context.ts';
import { type Html, html } from '../page/html.ts';
import { plainPage } from '../page/layout.ts';
import { waitText } from '../page/throttle.ts';

const READ_MS = 2000;
const WRITE_MS = 5000;

/**
 * The pages behind the links in budget alerts for addresses outside a company: one to agree, which works once and within
 * a week, and one to stop. Opening a link changes nothing: programs of mail servers open them too.
 */
export function alertConsentRoutes(): Hono<PageEnv> {
  const app = new Hono<PageEnv>();
  const confirm = `${CONFIRM_PATH}:token{[\\w-]{43}}`;
  const stop = `${STOP_PATH}:receiver{${UUID_IN_PATH}}`;
  app.get(confirm, (c) => found(c, findAsked, 'token', (asked) => confirmPage(c, asked)));
  app.post(confirm, (c) => found(c, findAsked, 'token', (asked) => agree(c, asked)));
  app.get(stop, (c) => found(c, findOutsider, 'receiver', (receiver) => stopPage(c, receiver)));
  app.post(stop, (c) => found(c, findOutsider, 'receiver', (receiver) => stopAlerts(c, receiver)));
  app.all(`${CONFIRM_PATH}*`, (c) => c.notFound());
  app.all(`${STOP_PATH}*`, (c) => c.notFound());
  return app;
}

type Receiver = NonNullable<Awaited<ReturnType<typeof findAsked>>>;

/** The receiver of a link. One that does not work counts like a failed sign-in. */
async function found(
  c: PageContext,
  find: typeof findAsked,
  name: string,
  answer: (receiver: Receiver) => Promise<Response>,
): Promise<Response> {
  const { attempts, db } = c.var.services;
  const secret = (c.req.param(name) as string).replace(/^.{36}$/, (id) => id.toLowerCase());
  const attempt = attempts(clientOf(c), `alerts ${secret.slice(0, 8)}`);
  const seconds = attempt.closedFor();
  if (seconds > 0) {
    c.header('retry-after', String(seconds));
    return notice(c, 'Too many attempts', waitText(seconds), 429);
  }
  const receiver = await db.run(READ_MS, (sql) => find(sql, secret));
  if (receiver !== null) return answer(receiver);
  attempt.count();
  return ended(c);
}

function ended(c: PageContext): Promise<Response> {
  return notice(c, 'This link has ended', 'It was used already, or its time is over.', 404);
}

function notice(c: PageContext, title: string, text: Html | string, status?: ContentfulStatusCode): Promise<Response> {
  return plainPage(c, title, html`<div class="narrow"><h1>${title}</h1><p>${text}</p></div>`, status);
}

function confirmPage(c: PageContext, { email, company_name }: Receiver): Promise<Response> {
  const body = html`<div class="narrow"><h1>Budget alerts of ${company_name}</h1>
<p>${company_name} wants to tell <strong>${email}</strong> by e-mail when a part of a monthly budget is used. Each message has a link that ends it.</p>
<form method="post" action="${c.req.path}" class="card"><button class="primary">Send them to me</button></form>
<p class="hint">If you do not want them, close this page: nothing is sent then.</p></div>`;
  return plainPage(c, 'Budget alerts', body);
}

async function agree(c: PageContext, { email, company_name }: Receiver): Promise<Response> {
  const token = c.req.param('token') as string;
  const hasAgreed = await actingAs(c.var.services.db, email as string, WRITE_MS, (sql) => confirmReceiver(sql, token));
  if (!hasAgreed) return ended(c);
  return notice(c, 'You get the budget alerts', html`${company_name} tells <strong>${email}</strong> from now on.`);
}

function stopPage(c: PageContext, { email, company_name }: Receiver): Promise<Response> {
  const body = html`<div class="narrow"><h1>No more budget alerts?</h1>
<p><strong>${email}</strong> gets the budget alerts of ${company_name}.</p>
<form method="post" action="${c.req.path}" class="card"><button class="primary">Send no more</button></form></div>`;
  return plainPage(c, 'No more budget alerts', body);
}

async function stopAlerts(c: PageContext, { id, email, company_id, company_name }: Receiver): Promise<Response> {
  await actingAs(c.var.services.db, email as string, WRITE_MS, (sql) => removeReceiver(sql, company_id, id));
  return notice(
    c,
    'No more is sent',
    html`${company_name} sends no budget alerts to <strong>${email}</strong> any more.`,
  );
}
