import { isOver } from '../../domain/key.ts';
import { digestsIn } from '../../operations/key.ts';
import { idsOfDigests, idsOfPrefix, keysWithCompany } from '../../store/company/key.ts';
import { LEAST_OF_PREFIX } from '../../store/lists/page.ts';
import { companyOf, formAt, type PageContext, pageAt, type Route, read } from '../page/context.ts';
import { field, formState, saveForm } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import {
  type Cells,
  companyHeading,
  dangerLink,
  emptyText,
  linkButton,
  muted,
  page,
  table,
} from '../page/layout.ts';
import { readSearch } from '../page/list.ts';
import { keyState } from './key.ts';
import { replaceForm } from './key-reveal.ts';

const OF_COMPANY = '/companies/:company/keys/find';
const OF_ALL = '/keys';

/** Finds keys in a pasted text, by digest, or those that begin so: of one company, or, for operators, of all. */
export const findRoutes: readonly Route[] = [
  pageAt(OF_COMPANY, 'key.write', findPage),
  formAt(OF_COMPANY, 'key.write', find, { long: true, page: findPage }),
  pageAt(OF_ALL, 'key.find', findPage),
  formAt(OF_ALL, 'key.find', find, { long: true, page: findPage }),
];

const SHOWN = 50;
const LOOK_UP_MS = 5000;

async function findPage(c: PageContext, form: Form, result: Html | string = ''): Promise<Response> {
  const company = companyOf(c);
  const { path } = c.req;
  const state = formState(form, path);
  const { find: words, all } = state.words.key;
  const body = html`${companyHeading(c)}<h1>${words.title}</h1>
<p class="lead">${words.lead({ ofAll: company === null, file: html`<code>.env</code>` })}</p>
${result}
<section class="card">${state.summary}
${saveForm(c, path, field(state, { name: 'text', label: words.text, type: 'textarea', rows: 6, required: true, secret: true }), words.button, company === null ? '' : linkButton(`/companies/${company}/keys`, all))}</section>`;
  return page(c, words.title, body);
}

async function find(c: PageContext, form: Form): Promise<Response> {
  const { services } = c.var;
  const digests = form.required('text', (text) => digestsIn(text, services.keyPrefix));
  const beginning = form.required('text', readSearch);
  form.check();
  const ids = await services.db.run(LOOK_UP_MS, async (sql) => {
    const whole = await idsOfDigests(sql, digests);
    return whole.length > 0 || beginning.length < LEAST_OF_PREFIX
      ? whole
      : idsOfPrefix(sql, beginning, companyOf(c));
  });
  const keys = await read(c, (sql) => keysWithCompany(sql, ids, companyOf(c), true));
  return findPage(c, form, resultOf(c, digests.length, keys));
}

type Found = Awaited<ReturnType<typeof keysWithCompany>>[number];

function resultOf(c: PageContext, looked: number, keys: readonly Found[]): Html {
  const { format, services } = c.var;
  const now = services.clock();
  const ofAll = companyOf(c) === null;
  const { keys: headings, key, numbers, frame } = format.words;
  const { find: words } = key;
  if (keys.length === 0) {
    const shown = format.count(looked);
    const text = looked === 0 ? words.noKey : words.notFound({ parts: looked, shown, ofAll });
    return html`<div role="status">${emptyText(text)}</div>`;
  }
  const cells: Cells<Found> = {
    [headings.key]: ({ id, company_id, name, prefix }) =>
      html`<strong><a href="/companies/${company_id}/keys/${id}">${name}</a></strong><br><code>${prefix}…</code>`,
    ...(ofAll && {
      [words.company]: ({ company_id, company_name }) =>
        html`<a href="/companies/${company_id}/keys">${company_name}</a>`,
    }),
    [headings.state]: (key) => keyState(key, now, format),
    [headings.lastUsed]: ({ last_used_at: at }) =>
      at === null ? muted(numbers.never) : format.ago(at),
    [frame.actions]: (key) =>
      !isOver(key.state)
        ? html`<span class="row-actions">${key.state === 'active' ? replaceForm(c, key, words.stop) : ''}
${dangerLink(`/companies/${key.company_id}/keys/${key.id}/revoke`, headings.revoke, key.name)}</span>`
        : muted(words.noAction),
  };
  const more =
    keys.length > SHOWN
      ? html`<p>${words.first({ shown: SHOWN, all: format.count(keys.length) })}</p>`
      : '';
  return html`<div role="status">${table(words.found(keys.length, format.count(keys.length)), keys.slice(0, SHOWN), { cells })}${more}</div>`;
}
