import { oneOf } from '../../domain/field.ts';
import { findKey } from '../../store/company/key.ts';
import { rotateKeyOnce } from '../../store/company/key-reveal.ts';
import { change, type PageContext, param, type Route, readOfCompany } from '../page/context.ts';
import { csrfInput, formState, select } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { html } from '../page/html.ts';
import { companyHeading, page } from '../page/layout.ts';
import { idempotencyInputs, readIdempotencyInputs, redirectToKey, replaceForm } from './key-reveal.ts';

const PATH = '/companies/:company/access/:key/rotate';

/** Replacing a key: with an overlap for a planned change, at once when it leaked. */
export const rotateRoutes: readonly Route[] = [
  { method: 'GET', path: PATH, action: 'key.write', handle: rotatePage },
  { method: 'POST', path: PATH, action: 'key.write', handle: rotate, page: rotatePage },
];

/** How long an old key works beside the new one, by seconds. */
const OVERLAPS = {
  '3600': 'One hour',
  '86400': 'One day',
  '604800': 'One week',
  '2592000': '30 days',
} as const;

async function rotatePage(c: PageContext, form: Form): Promise<Response> {
  const [company, key] = await find(c);
  const base = `/companies/${company.id}/access`;
  const path = `${base}/${key.id}/rotate`;
  const state = formState(form, path);
  const body = html`${companyHeading(c, company)}<h1>Rotate this key</h1>
<p class="lead"><strong>${key.name}</strong> <code>${key.prefix}…</code> A new key with the same name, scopes, limits and expiry takes its place. Why?</p>${state.summary}
<section class="card"><h2>A planned change</h2>
<p>Both keys work during the overlap, so that you can change over without an outage; then the old one ends.</p>
<form method="post" action="${path}" class="stack">${csrfInput(c)}${idempotencyInputs()}
${select(state, { name: 'overlap', label: 'Overlap', choices: Object.entries(OVERLAPS), value: '86400' })}
<div class="actions"><button class="primary">Create the new key</button></div></form></section>
<section class="card"><h2>The key leaked</h2>
<p>There is no overlap: every gateway refuses the old key within a second, and what still uses it gets 401 until it has the new one.</p>
<div class="actions">${replaceForm(c, key, 'Stop the old key and create a new one')}</div></section>
<p><a class="button quiet" href="${base}">Cancel</a></p>`;
  return page(c, 'Rotate a key', body);
}

async function rotate(c: PageContext, form: Form): Promise<Response> {
  const { services, session } = c.var;
  const company_id = param(c, 'company');
  const { id: new_id, claim } = readIdempotencyInputs(c, form);
  const overlap = Number(form.required('overlap', oneOf('0', ...Object.keys(OVERLAPS))));
  form.check();
  const asked = { id: param(c, 'key'), company_id, overlap, created_by: session.user.email, new_id };
  const created = await change(c, (sql) => rotateKeyOnce(sql, services.keyPrefix, asked, claim));
  return redirectToKey(c, created, asked.id);
}

function find(c: PageContext) {
  return readOfCompany(c, (sql, company) => findKey(sql, param(c, 'key'), company));
}
