import { oneOf, readName, readUuid } from '../../domain/field.ts';
import { may } from '../../operations/frame/permission.ts';
import { createToken, revokeToken } from '../../operations/token.ts';
import { REVEAL_SECONDS } from '../../store/company/key-reveal.ts';
import { readPage } from '../../store/connection/cursor.ts';
import { PAGE_ROWS } from '../../store/lists/page.ts';
import { findTokenById, listTokens, type TokenRow } from '../../store/users/token.ts';
import { readerOf } from '../page/caller.ts';
import { askedFirst } from '../page/confirmation.ts';
import {
  backTo,
  change,
  companyOf,
  formAt,
  mayNow,
  type PageContext,
  pageAt,
  param,
  type Route,
  read,
} from '../page/context.ts';
import {
  createCard,
  type FormState,
  field,
  idempotencyInput,
  idempotentId,
  select,
} from '../page/field.ts';
import { Form } from '../page/form.ts';
import { html } from '../page/html.ts';
import {
  badge,
  type Cells,
  clipped,
  companyHeading,
  companyLink,
  copyable,
  dangerLink,
  emptyText,
  linkButton,
  muted,
  type Owned,
  page,
  table,
} from '../page/layout.ts';
import { toNext } from '../page/list.ts';
import { readLastDay } from '../page/local-time.ts';
import { gonePage, redirectToSecret, secretOf, shownPage } from '../page/shown-once.ts';

const OPERATORS = '/tokens';
const COMPANYS = '/companies/:company/tokens';

/** Tokens for administration over HTTP: those of operators, and those of one company. */
export const tokenRoutes: readonly Route[] = [OPERATORS, COMPANYS].flatMap((base): Route[] => {
  const [reads, writes] =
    base === OPERATORS
      ? (['token.read', 'token.write'] as const)
      : (['company-token.read', 'company-token.write'] as const);
  return [
    pageAt(base, reads, listPage),
    formAt(base, writes, create, { page: listPage }),
    pageAt(`${base}/:token/shown`, writes, createdPage, { whileClosed: true }),
    ...askedFirst(`${base}/:token/revoke`, writes, askRevocation, revoke, { whileClosed: true }),
  ];
});

const TONES = { active: 'good', expired: 'bad', revoked: 'bad' } as const;

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const { format } = c.var;
  const { tokens: words, numbers, frame } = format.words;
  const { base, company } = placeOf(c);
  const address = new Form(new URL(c.req.url).searchParams, base, format.language);
  const before = address.optional('before', readUuid);
  const { rows: tokens, next } = await read(c, (sql) =>
    readPage({ after: before, limit: PAGE_ROWS }, (range) => listTokens(sql, company, range)),
  );
  const action = company === null ? 'token.write' : 'company-token.write';
  const cells: Cells<TokenRow & Owned> = {
    [words.name]: ({ name }) => html`<strong>${name}</strong>`,
    ...(company === null && { [words.company]: (row) => companyLink(row, 'tokens') }),
    [words.may]: ({ access }) => words.access[access],
    [words.state]: ({ state }) => badge(TONES[state], words.states[state]),
    [words.created]: ({ created_at, created_by }) =>
      html`<span class="one-line">${format.date(created_at)} ${clipped(format.person(created_by), muted(format.person(created_by)))}</span>`,
    [words.lastUsed]: ({ last_used_at: at }) =>
      at === null ? muted(numbers.never) : format.ago(at),
    [words.expires]: ({ expires_at: at }) =>
      at === null ? muted(numbers.never) : format.instant(at),
    [frame.actions]: ({ id, name, state }) =>
      may(c.var.session.user, action, company) && state === 'active'
        ? dangerLink(`${base}/${id}/revoke`, words.revoke, name)
        : muted(frame.none),
  };
  const fields = (
    state: FormState,
  ) => html`${idempotencyInput()}${field(state, { name: 'name', label: words.name, required: true, hint: words.nameHint })}
<div class="pair">${select(state, { name: 'access', label: words.may, choices: Object.entries(words.access), value: 'read' })}
${field(state, { name: 'expires', label: words.lastDay, type: 'date', hint: words.lastDayHint })}</div>`;
  const isFirst = tokens.length === 0 && before === null;
  const body = html`${companyHeading(c)}<h1>${words.title}</h1>
<p class="lead">${words.lead({ ofCompany: company !== null, link: html`<a href="/api/v1/openapi.json">openapi.json</a>` })}</p>
${mayNow(c, action) ? createCard(c, form, { path: base, title: words.create, button: words.createButton, isFirst, fields }) : ''}
${tokens.length === 0 ? emptyText(mayNow(c, action) ? words.noneCreate : words.none) : table(words.title, tokens, { cells }, true)}
${next === null ? '' : toNext(c, `${base}?before=${next}`, words.older)}`;
  return page(c, words.title, body);
}

async function create(c: PageContext, form: Form): Promise<Response> {
  const { base, company } = placeOf(c);
  const { services } = c.var;
  const name = form.required('name', readName);
  const access = form.required('access', oneOf('read', 'write'));
  const expires_at = form.optional('expires', (day) =>
    readLastDay(day, services.calendar.timeZone, services.clock()),
  );
  form.check();
  const id = idempotentId(form);
  const asked = { id, name, company_id: company, access, expires_at };
  const created = await change(c, (sql) => createToken(sql, readerOf(c), asked));
  return redirectToSecret(c, `${base}/${id}/shown`, created.token, created.created_at);
}

async function createdPage(c: PageContext): Promise<Response> {
  const { base, company } = placeOf(c);
  const { name } = await read(c, (sql) => findTokenById(sql, param(c, 'token'), company));
  const token = secretOf(c);
  const { tokens: words } = c.var.format.words;
  if (token === null) {
    const text = html`<p>${words.goneText({ name: html`<strong>${name}</strong>`, seconds: REVEAL_SECONDS })}</p>`;
    const after = html`<p>${linkButton(base, words.all)}</p>`;
    return gonePage(c, { title: words.gone, text, after });
  }
  const { services } = c.var;
  return shownPage(c, {
    title: words.shown,
    once: words.once,
    reload: words.store(REVEAL_SECONDS),
    body: html`<section class="card reveal"><h2>${name}</h2>
${copyable(c, 'token', words.token, token)}
${copyable(c, 'curl', words.curl, `curl ${services.adminUrl ?? new URL(c.req.url).origin}/api/v1/companies${company === null ? '' : `/${company}`} \\\n  -H 'Authorization: Bearer ${token}'`)}
</section>`,
    after: html`<p><a class="button primary" href="${base}">${words.done}</a></p>`,
  });
}

async function askRevocation(c: PageContext) {
  const { base, company } = placeOf(c);
  const { name } = await read(c, (sql) => findTokenById(sql, param(c, 'token'), company));
  const { revokeHeading: title, revokeText, revokeButton: button } = c.var.format.words.tokens;
  return {
    title,
    text: html`<p><strong>${name}</strong></p><p>${revokeText}</p>`,
    button,
    back: base,
  };
}

async function revoke(c: PageContext): Promise<Response> {
  const { base, company } = placeOf(c);
  await change(c, (sql) => revokeToken(sql, param(c, 'token'), company));
  return backTo(c, base, 'token-revoked');
}

/** Whose tokens the page is about. */
function placeOf(c: PageContext) {
  const company = companyOf(c);
  return { base: company === null ? OPERATORS : `/companies/${company}/tokens`, company };
}
