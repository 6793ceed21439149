import { digestsIn } from '../../operations/key.ts';
import { findCompany } from '../../store/company/company.ts';
import { idsOfDigests, type KeyRow, keysWithCompany } from '../../store/company/key.ts';
import { companyOf, type PageContext, type Route, read } from '../page/context.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, emptyText, muted, page, table } from '../page/layout.ts';
import { keyState } from './key.ts';
import { replaceForm } from './key-reveal.ts';

const OF_COMPANY = '/companies/:company/access/find';
const OF_ALL = '/keys';

/** Finds keys in a pasted text: of one company, or, for operators, of all. Only digests are looked up. */
export const findRoutes: readonly Route[] = [
  { method: 'GET', path: OF_COMPANY, action: 'key.write', handle: findPage },
  { method: 'POST', path: OF_COMPANY, action: 'key.write', long: true, handle: find, page: findPage },
  { method: 'GET', path: OF_ALL, action: 'key.find', handle: findPage },
  { method: 'POST', path: OF_ALL, action: 'key.find', long: true, handle: find, page: findPage },
];

const SHOWN = 50;
const LOOK_UP_MS = 5000;

async function findPage(c: PageContext, form: Form, result: Html | string = ''): Promise<Response> {
  const id = companyOf(c);
  const company = id === null ? null : await read(c, (sql) => findCompany(sql, id));
  const { path } = c.req;
  const state = formState(form, path);
  const body = html`${company === null ? '' : companyHeading(c, company)}<h1>Find a leaked key</h1>
<p class="lead">Paste a key, or a text that has keys in it, such as a log or an <code>.env</code> file. It shows ${
    company === null ? 'whose they are' : 'which of your keys they are'
  }, and what can be done. The text is neither stored nor shown again.</p>
${result}
<section class="card">${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}
${field(state, { name: 'text', label: 'Key or text', type: 'textarea', rows: 6, required: true, secret: true })}
<div class="actions"><button class="primary">Find keys</button>${
    company === null ? '' : html` <a class="button quiet" href="/companies/${company.id}/access">All keys</a>`
  }</div></form></section>`;
  return page(c, 'Find a leaked key', body);
}

async function find(c: PageContext, form: Form): Promise<Response> {
  const { services } = c.var;
  const digests = form.required('text', (text) => digestsIn(text, services.keyPrefix));
  form.check();
  const ids = await services.db.run(LOOK_UP_MS, (sql) => idsOfDigests(sql, digests));
  const keys = await read(c, (sql) => keysWithCompany(sql, ids, companyOf(c), true));
  return findPage(c, form, resultOf(c, digests.length, keys));
}

type Found = Awaited<ReturnType<typeof keysWithCompany>>[number];

function resultOf(c: PageContext, looked: number, keys: readonly Found[]): Html {
  const { format, services } = c.var;
  const now = services.clock();
  const ofAll = companyOf(c) === null;
  if (keys.length === 0) {
    const whose = ofAll ? 'no company has such a key' : 'none of them is a key of this company';
    const text =
      looked === 0
        ? 'Nothing in the text has the form of a key.'
        : `${format.count(looked)} ${looked === 1 ? 'part' : 'parts'} of the text may be a key: ${whose}.`;
    return html`<div role="status">${emptyText(text)}</div>`;
  }
  const cells = {
    Key: ({ id, company_id, name, prefix }: Found) =>
      html`<strong><a href="/companies/${company_id}/access/${id}">${name}</a></strong><br><code>${prefix}…</code>`,
    ...(ofAll && {
      Company: ({ company_id, company_name }: Found) =>
        html`<a href="/companies/${company_id}/access">${company_name}</a>`,
    }),
    State: (key: KeyRow) => keyState(key, now),
    'Last used': ({ last_used_at: at }: KeyRow) => (at === null ? muted('never') : format.ago(at)),
    Actions: (key: KeyRow) =>
      key.state === 'active'
        ? html`<span class="row-actions">${replaceForm(c, key, 'Stop it and create a new one')}
<a class="button danger" href="/companies/${key.company_id}/access/${key.id}/revoke">Revoke<span class="sr"> ${key.name}</span></a></span>`
        : muted('none: it no longer works'),
  };
  const more = keys.length > SHOWN ? html`<p>The first ${SHOWN} of ${format.count(keys.length)} are shown.</p>` : '';
  return html`<div role="status">${table(keys.length === 1 ? 'One key was found' : `${format.count(keys.length)} keys were found`, keys.slice(0, SHOWN), { cells })}${more}</div>`;
}
