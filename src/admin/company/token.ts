import { oneOf, readName, readUuid } from '../../domain/field.ts';
import { actorName } from '../../domain/text/change-text.ts';
import { throwConflict } from '../../domain/text/refused-change.ts';
import { may } from '../../operations/permission.ts';
import { findCompany } from '../../store/company/company.ts';
import { createOnce } from '../../store/company/idempotent-form.ts';
import { REVEAL_SECONDS } from '../../store/company/key-reveal.ts';
import { PAGE_ROWS } from '../../store/lists/page.ts';
import {
  type Access,
  createToken,
  findTokenById,
  listTokens,
  revokeToken,
  type TokenRow,
} from '../../store/people/token.ts';
import { change, companyOf, mayNow, type PageContext, param, type Route, read } from '../page/context.ts';
import { createCard, type FormState, field, select } from '../page/field.ts';
import { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { idempotencyInput, idempotentId } from '../page/idempotent-form.ts';
import {
  badge,
  companyHeading,
  companyLink,
  confirmation,
  copyable,
  emptyText,
  muted,
  type Owned,
  page,
  table,
} from '../page/layout.ts';
import { toNext } from '../page/list.ts';
import { readLastDay } from '../page/local-time.ts';
import { redirectToSecret, secretOf } from '../page/shown-once.ts';

const OPERATORS = '/tokens';
const COMPANYS = '/companies/:company/tokens';

/** Tokens for administration over HTTP: those of operators, and those of one company. */
export const tokenRoutes: readonly Route[] = [OPERATORS, COMPANYS].flatMap((base): Route[] => {
  const [reads, writes] =
    base === OPERATORS
      ? (['token.read', 'token.write'] as const)
      : (['company-token.read', 'company-token.write'] as const);
  return [
    { method: 'GET', path: base, action: reads, handle: listPage },
    { method: 'POST', path: base, action: writes, handle: create, page: listPage },
    { method: 'GET', path: `${base}/:token/shown`, action: writes, whileClosed: true, handle: shownPage },
    { method: 'GET', path: `${base}/:token/revoke`, action: writes, whileClosed: true, handle: revokePage },
    { method: 'POST', path: `${base}/:token/revoke`, action: writes, whileClosed: true, handle: revoke },
  ];
});

const ACCESS: Readonly<Record<Access, string>> = { read: 'Read only', write: 'Read and change' };
const TONES = { active: 'good', expired: 'bad', revoked: 'bad' } as const;

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const { format } = c.var;
  const { base, heading, company } = await placeOf(c);
  const address = new Form(new URL(c.req.url).searchParams, base);
  const before = address.optional('before', readUuid);
  const found = await read(c, (sql) => listTokens(sql, company, { before, limit: PAGE_ROWS + 1 }));
  const tokens = found.slice(0, PAGE_ROWS);
  const next = found.length > PAGE_ROWS ? (tokens.at(-1) as TokenRow).id : null;
  const action = company === null ? 'token.write' : 'company-token.write';
  const cells = {
    Name: ({ name }: TokenRow) => html`<strong>${name}</strong>`,
    ...(company === null && { Company: (row: Owned) => companyLink(row, 'tokens') }),
    May: ({ access }: TokenRow) => ACCESS[access],
    State: ({ state }: TokenRow) => badge(TONES[state], state),
    Created: ({ created_at, created_by }: TokenRow) =>
      html`${format.instant(created_at)}<br><span class="muted">${actorName(created_by)}</span>`,
    'Last used': ({ last_used_at: at }: TokenRow) => (at === null ? muted('never') : format.ago(at)),
    Expires: ({ expires_at: at }: TokenRow) => (at === null ? muted('never') : format.instant(at)),
    Actions: ({ id, name, state }: TokenRow) =>
      may(c.var.session.user, action, company) && state === 'active'
        ? html`<a class="button danger" href="${base}/${id}/revoke">Revoke<span class="sr"> ${name}</span></a>`
        : muted('none'),
  };
  const fields = (
    state: FormState,
  ) => html`${idempotencyInput()}${field(state, { name: 'name', label: 'Name', required: true, hint: 'What will use it, such as “Terraform”.' })}
<div class="pair">${select(state, { name: 'access', label: 'It may', choices: Object.entries(ACCESS), value: 'read' })}
${field(state, { name: 'expires', label: 'Last day', type: 'date', hint: 'Optional. The token works until the end of this day.' })}</div>`;
  const isFirst = tokens.length === 0 && before === null;
  const body = html`${heading}<h1>Tokens</h1>
<p class="lead">Programs manage ${company === null ? 'this service' : 'the company'} over HTTP with one of these tokens. <a href="/api/v1/openapi.json">openapi.json</a> describes the operations.</p>
${mayNow(c, action) ? createCard(c, form, { path: base, title: 'Create a token', button: 'Create token', isFirst, fields }) : ''}
${tokens.length === 0 ? emptyText('There are no tokens.') : table('Tokens', tokens, { cells }, true)}
${next === null ? '' : toNext(`${base}?before=${next}`, 'Older tokens')}`;
  return page(c, 'Tokens', body);
}

async function create(c: PageContext, form: Form): Promise<Response> {
  const { base, company } = await placeOf(c);
  const { services, session } = c.var;
  const name = form.required('name', readName);
  const access = form.required('access', oneOf('read', 'write'));
  const expires_at = form.optional('expires', (day) => readLastDay(day, services.calendar.timeZone, services.clock()));
  form.check();
  const { email: created_by } = session.user;
  const id = idempotentId(form);
  const created = await change(c, (sql) =>
    createOnce(sql, 'admin_tokens', id, () =>
      createToken(sql, { id, name, company_id: company, access, created_by, expires_at }),
    ),
  );
  if (created === null) {
    const text = `This form was sent twice. The token “${name}” was created the first time, and shown then: if nobody stored it, revoke it and send the form again.`;
    throwConflict('token', text);
  }
  return redirectToSecret(c, `${base}/${id}/shown`, created.token, created.created_at);
}

async function shownPage(c: PageContext): Promise<Response> {
  const { base, heading, company } = await placeOf(c);
  const { name } = await read(c, (sql) => findTokenById(sql, param(c, 'token'), company));
  const token = secretOf(c);
  if (token === null) {
    const title = 'This token can no longer be shown';
    c.status(410);
    return page(
      c,
      title,
      html`${heading}<h1>${title}</h1>
<section class="card"><p>The token <strong>${name}</strong> is shown to whoever made it only, and for ${REVEAL_SECONDS} seconds. If nobody stored it, revoke it and create another one.</p></section>
<p><a class="button quiet" href="${base}">All tokens</a></p>`,
    );
  }
  const { services } = c.var;
  const body = html`${heading}<h1>Your new token</h1>
<div class="notice strong" role="status"><strong>This is the only time the token is shown.</strong> Store it now; a lost token is revoked and replaced by a new one. For ${REVEAL_SECONDS} seconds a reload of this page shows it again.</div>
<section class="card reveal"><h2>${name}</h2>
${copyable('token', 'Token', token)}
${copyable('curl', 'Try it with curl', `curl ${services.adminUrl ?? new URL(c.req.url).origin}/api/v1/companies${company === null ? '' : `/${company}`} \\\n  -H 'Authorization: Bearer ${token}'`)}
</section>
<p><a class="button primary" href="${base}">I have stored the token</a></p>`;
  return page(c, 'Your new token', body);
}

async function revokePage(c: PageContext): Promise<Response> {
  const { base, heading, company } = await placeOf(c);
  const id = param(c, 'token');
  const { name } = await read(c, (sql) => findTokenById(sql, id, company));
  const body = html`${heading}<h1>Revoke this token?</h1>
${confirmation(c, {
  action: `${base}/${id}/revoke`,
  button: 'Revoke token',
  back: base,
  text: html`<p><strong>${name}</strong></p><p>Programs that use it get 401 at once. This cannot be undone.</p>`,
})}`;
  return page(c, 'Revoke a token', body);
}

async function revoke(c: PageContext): Promise<Response> {
  const { base, company } = await placeOf(c);
  await change(c, (sql) => revokeToken(sql, param(c, 'token'), company));
  return c.redirect(`${base}?done=token-revoked`, 303);
}

/** Whose tokens the page is about. */
async function placeOf(c: PageContext): Promise<{ base: string; heading: Html | string; company: string | null }> {
  const company = companyOf(c);
  if (company === null) return { base: OPERATORS, heading: '', company };
  const row = await read(c, (sql) => findCompany(sql, company));
  return { base: `/companies/${company}/tokens`, heading: companyHeading(c, row), company };
}
