import { Hono } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { CONFIRM_PATH, STOP_PATH } from '../../domain/event.ts';
import type { Parts } from '../../domain/language/words.ts';
import { confirmReceiver, removeReceiver } from '../../operations/alert.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { findAsked, findOutsider } from '../../store/users/alert-receiver.ts';
import { UUID_IN_PATH } from '../api/serve.ts';
import { clientOf, type PageContext, type PageEnv } from '../page/context.ts';
import { type Html, html } from '../page/html.ts';
import { plainPage } from '../page/layout.ts';
import { waitText } from '../process/throttle.ts';

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
    const { words } = c.var.format;
    return notice(c, words.invitation.tooMany, waitText(words, seconds), 429);
  }
  const receiver = await db.run(READ_MS, (sql) => find(sql, secret));
  if (receiver !== null) return answer(receiver);
  attempt.count();
  return ended(c);
}

function ended(c: PageContext): Promise<Response> {
  const { alerts } = c.var.format.words;
  return notice(c, alerts.ended, alerts.endedText, 404);
}

function notice(
  c: PageContext,
  title: string,
  text: Html | string | Parts,
  status?: ContentfulStatusCode,
): Promise<Response> {
  return plainPage(c, title, html`<div class="narrow"><h1>${title}</h1><p>${text}</p></div>`, status);
}

/** Company and address, as texts of the pages name them. */
function named({ email, company_name: company }: Receiver) {
  return { company, email: html`<strong>${email}</strong>` };
}

function confirmPage(c: PageContext, receiver: Receiver): Promise<Response> {
  const { alerts } = c.var.format.words;
  const body = html`<div class="narrow"><h1>${alerts.of(receiver.company_name)}</h1>
<p>${alerts.wants(named(receiver))}</p>
<form method="post" action="${c.req.path}" class="card"><button class="primary">${alerts.agree}</button></form>
<p class="hint">${alerts.agreeHint}</p></div>`;
  return plainPage(c, alerts.title, body);
}

async function agree(c: PageContext, receiver: Receiver): Promise<Response> {
  const { alerts } = c.var.format.words;
  const token = c.req.param('token') as string;
  const by = receiver.email as string;
  const hasAgreed = await actingAs(c.var.services.db, by, WRITE_MS, (sql) => confirmReceiver(sql, token));
  return hasAgreed ? notice(c, alerts.willTell, alerts.tells(named(receiver))) : ended(c);
}

function stopPage(c: PageContext, receiver: Receiver): Promise<Response> {
  const { alerts } = c.var.format.words;
  const body = html`<div class="narrow"><h1>${alerts.noMore}</h1>
<p>${alerts.gets(named(receiver))}</p>
<form method="post" action="${c.req.path}" class="card"><button class="primary">${alerts.stop}</button></form></div>`;
  return plainPage(c, alerts.noMore, body);
}

async function stopAlerts(c: PageContext, receiver: Receiver): Promise<Response> {
  const { alerts } = c.var.format.words;
  const { id, email, company_id } = receiver;
  await actingAs(c.var.services.db, email as string, WRITE_MS, (sql) => removeReceiver(sql, company_id, id));
  return notice(c, alerts.stopped, alerts.stops(named(receiver)));
}
