import { Hono } from 'hono';
import { CONFIRM_PATH, STOP_PATH } from '../../domain/event.ts';
import { confirmReceiver, removeReceiver } from '../../operations/alert.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { findAsked, findOutsider } from '../../store/users/alert-receiver.ts';
import { UUID_IN_PATH } from '../api/serve.ts';
import type { PageContext, PageEnv } from '../page/context.ts';
import { html } from '../page/html.ts';
import { emptyForm, goOnPage } from './go-on.ts';
import { byLink, sayPage } from './link.ts';

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

function found(
  c: PageContext,
  find: typeof findAsked,
  name: string,
  answer: (receiver: Receiver) => Promise<Response>,
): Promise<Response> {
  const secret = (c.req.param(name) as string).replace(/^.{36}$/, (id) => id.toLowerCase());
  return byLink(c, secret, (sql) => find(sql, secret), answer, ended);
}

function ended(c: PageContext): Promise<Response> {
  const { alerts } = c.var.format.words;
  return sayPage(c, alerts.ended, alerts.endedText, 404);
}

/** Company and address, as texts of the pages name them. */
function named({ email, company_name: company }: Receiver) {
  return { company, email: html`<strong>${email}</strong>` };
}

function confirmPage(c: PageContext, receiver: Receiver): Promise<Response> {
  const { alerts } = c.var.format.words;
  return goOnPage(c, emptyForm(c), {
    title: alerts.title,
    heading: alerts.of(receiver.company_name),
    lead: html`<p>${alerts.wants(named(receiver))}</p>`,
    button: alerts.agree,
    below: html`<p class="hint">${alerts.agreeHint}</p>`,
  });
}

async function agree(c: PageContext, receiver: Receiver): Promise<Response> {
  const { alerts } = c.var.format.words;
  const token = c.req.param('token') as string;
  const by = receiver.email as string;
  const hasAgreed = await actingAs(c.var.services.db, by, WRITE_MS, (sql) =>
    confirmReceiver(sql, token),
  );
  return hasAgreed ? sayPage(c, alerts.willTell, alerts.tells(named(receiver))) : ended(c);
}

function stopPage(c: PageContext, receiver: Receiver): Promise<Response> {
  const { alerts } = c.var.format.words;
  const lead = html`<p>${alerts.gets(named(receiver))}</p>`;
  return goOnPage(c, emptyForm(c), { title: alerts.noMore, lead, button: alerts.stop });
}

async function stopAlerts(c: PageContext, receiver: Receiver): Promise<Response> {
  const { alerts } = c.var.format.words;
  const { id, email, company_id } = receiver;
  await actingAs(c.var.services.db, email as string, WRITE_MS, (sql) =>
    removeReceiver(sql, id, company_id),
  );
  return sayPage(c, alerts.stopped, alerts.stops(named(receiver)));
}
