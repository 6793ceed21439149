import { oneOf } from '../../domain/field.ts';
import type { Words } from '../../domain/language/en.ts';
import { rotateKey } from '../../operations/key.ts';
import { readerOf } from '../page/caller.ts';
import { change, type PageContext, param, type Route, readOfCompany } from '../page/context.ts';
import { csrfInput, formState, select } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { html } from '../page/html.ts';
import { companyHeading, page } from '../page/layout.ts';
import { KEY_LISTS, keysPath } from '../usage/reach.ts';
import { idempotencyInputs, keyInReach, readIdempotencyInputs, redirectToKey, replaceForm } from './key-reveal.ts';

/** Replacing a key: with an overlap for a planned change, at once when it leaked. */
export const rotateRoutes: readonly Route[] = KEY_LISTS.flatMap(([list, action]): readonly Route[] => [
  { method: 'GET', path: `${list}/:key/rotate`, action, handle: rotatePage },
  { method: 'POST', path: `${list}/:key/rotate`, action, handle: rotate, page: rotatePage },
]);

/** How long an old key works beside the new one: the names of the texts, by seconds. */
const OVERLAPS = {
  '3600': 'hour',
  '86400': 'day',
  '604800': 'week',
  '2592000': 'month',
} as const satisfies Readonly<Record<string, keyof Words['key']['rotate']['overlaps']>>;

async function rotatePage(c: PageContext, form: Form): Promise<Response> {
  const [company, key] = await find(c);
  const base = keysPath(c, company.id);
  const path = `${base}/${key.id}/rotate`;
  const state = formState(form, path);
  const { rotate: words } = state.words.key;
  const overlaps = Object.entries(OVERLAPS).map(([seconds, name]) => [seconds, words.overlaps[name]] as const);
  const body = html`${companyHeading(c, company)}<h1>${words.heading}</h1>
<p class="lead"><strong>${key.name}</strong> <code>${key.prefix}…</code> ${words.lead}</p>${state.summary}
<section class="card"><h2>${words.planned}</h2>
<p>${words.plannedText}</p>
<form method="post" action="${path}" class="stack">${csrfInput(c)}${idempotencyInputs()}
${select(state, { name: 'overlap', label: words.overlap, choices: overlaps, value: '86400' })}
<div class="actions"><button class="primary">${words.button}</button></div></form></section>
<section class="card"><h2>${words.leaked}</h2>
<p>${words.leakedText}</p>
<div class="actions">${replaceForm(c, key, words.stop)}</div></section>
<p><a class="button quiet" href="${base}">${state.words.form.cancel}</a></p>`;
  return page(c, words.title, body);
}

async function rotate(c: PageContext, form: Form): Promise<Response> {
  const { id: new_id, claim } = readIdempotencyInputs(c, form);
  const overlap = Number(form.required('overlap', oneOf('0', ...Object.keys(OVERLAPS))));
  form.check();
  const asked = { id: param(c, 'key'), overlap, new_id };
  const created = await change(c, (sql) => rotateKey(sql, readerOf(c), param(c, 'company'), asked, claim));
  return redirectToKey(c, created, asked.id);
}

function find(c: PageContext) {
  return readOfCompany(c, (sql) => keyInReach(c, sql));
}
