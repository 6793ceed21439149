import type { Company } from '../../domain/company.ts';
import { ALLOWED_MODELS, type Catalogue, listModels } from '../../domain/gate.ts';
import { isOver } from '../../domain/key.ts';
import type { Words } from '../../domain/language/en.ts';
import { LIMIT_SETTINGS } from '../../domain/settings/company.ts';
import {
  EDITED,
  END_USER,
  KEY,
  KEY_DAY_BUDGET,
  KEY_MODELS,
  KEY_MONTH_BUDGET,
  NETWORKS,
  NEW_KEY,
  PURPOSE,
  RESTRICTIONS,
  scopesOf,
} from '../../domain/settings/key.ts';
import { restrictionTexts } from '../../domain/settings/limit-text.ts';
import { createKey } from '../../operations/key.ts';
import type { KeyRow } from '../../store/company/key.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import {
  countKeys,
  type KeyLife,
  type KeySort,
  pageOfKeys,
  playgroundKeys,
} from '../../store/lists/page.ts';
import { readPresentSums } from '../../store/usage/company-usage.ts';
import { callerOf } from '../page/caller.ts';
import {
  change,
  formAt,
  mayNow,
  type PageContext,
  pageAt,
  param,
  type Route,
  read,
} from '../page/context.ts';
import { createCard, type FormState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html, raw } from '../page/html.ts';
import {
  badge,
  type Cells,
  clipped,
  companyHeading,
  dangerLink,
  exactSwitch,
  linkButton,
  muted,
  page,
  rowMenu,
  table,
} from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { readLastDay } from '../page/local-time.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { seesOwnAlone } from '../usage/reach.ts';
import { unusualMarks } from '../usage/unusual.ts';
import { usageCards } from '../usage/usage-cards.ts';
import {
  idempotencyInputs,
  readIdempotencyInputs,
  redirectToKey,
  revealRoutes,
} from './key-reveal.ts';

const BASE = '/companies/:company/keys';
const { expires_at } = KEY;
const MAX_CHECKBOXES = 100; // more models are typed: a page stays small

/** The keys of a company, which the specification calls its access section (sections 2.7 and 5), and a summary of its month. */
export const keyRoutes: readonly Route[] = [
  pageAt(BASE, 'key.read', accessPage),
  formAt(`${BASE}/create`, 'key.write', create, { long: true, page: accessPage }),
  ...revealRoutes,
];

/** A key of a list, with what it cost this month. */
type SpentKey = Awaited<ReturnType<typeof playgroundKeys>>[number];

export function sortsOf({ created, key, lastUsed, state, cost }: Words['keys']) {
  return { '-created': created, name: key, '-used': lastUsed, expires: state, '-cost': cost };
}

async function accessPage(c: PageContext, form: Form): Promise<Response> {
  const { format, services } = c.var;
  const { keys: words } = format.words;
  const id = param(c, 'company');
  const base = `/companies/${id}/keys`;
  const life: KeyLife = c.req.query('state') === 'dead' ? 'dead' : 'active';
  const query = listQuery<KeySort>(c, sortsOf(words));
  const isWritable = mayNow(c, 'key.write');
  const isNew = c.req.query('done') === 'joined'; // the person, who was told to create a key
  const { company, keys, counts, playgroundRows, usage } = await read(c, async (sql) => ({
    company: await readCompany(sql, id),
    keys: await pageOfKeys(sql, id, life, query),
    counts: await countKeys(sql, id),
    playgroundRows: await playgroundKeys(sql, id),
    usage: await readPresentSums(sql, id),
  }));
  const marks = await unusualMarks(c, id);
  const body = html`${companyHeading(c)}<div class="title-row"><h1>${words.title}</h1>
${isWritable ? html`${linkButton(`${base}/find`, words.find)}${createForm(c, form, company, isNew || (life === 'active' && counts.active === 0))}` : ''}</div>
<p class="lead">${words.lead(html`<code>${services.publicUrl}</code>`)}</p>
${list(c, { ...keyList(c, life, base, isWritable, marks.key), beside: keyViews(format, base, life, counts) }, query, keys)}
${playgrounds(c, playgroundRows, base)}<section aria-labelledby="usage"><div class="title-row"><h2 id="usage">${words.usageIn(format.month(usage.budget.month))}</h2>
${linkButton(`/companies/${id}/usage`, words.details)}</div>
${usageCards(usage, format)}<p class="muted">${exactSwitch(c)}</p></section>`;
  return page(c, words.of(company.name), body);
}

function createForm(c: PageContext, form: Form, company: Company, isFirst: boolean): Html {
  const path = `/companies/${company.id}/keys/create`;
  const { keys: words } = form.words;
  const fields = (state: FormState) => newKeyFields(state, company);
  return createCard(c, form, {
    path,
    title: words.create,
    button: words.createButton,
    isFirst,
    fields,
  });
}

/** The way from keys that work to those that do not. @param base the address of the list */
export function keyViews(
  format: Format,
  base: string,
  life: KeyLife,
  counts: Readonly<Record<KeyLife, number>>,
): Html {
  const { keys: words } = format.words;
  const view = (state: KeyLife) =>
    html`<a href="${state === 'active' ? base : `${base}?state=dead`}"${state === life ? raw(' aria-current="page"') : ''}>${words.view({ isActive: state === 'active', count: format.count(counts[state]) })}</a>`;
  return html`<nav class="tabs views" aria-label="${words.views}">${view('active')}${view('dead')}</nav>`;
}

/**
 * Keys that work, or those that are revoked or expired.
 * @param base the address of the list
 * @param mark what a key is marked by besides
 */
export function keyList(
  c: PageContext,
  life: KeyLife,
  base: string,
  isWritable: boolean,
  mark: (id: string) => Html | string = () => '',
) {
  const { format, services } = c.var;
  const now = services.clock();
  const isOwn = seesOwnAlone(c, param(c, 'company'));
  const isActive = life === 'active';
  const { keys: words, numbers, frame } = format.words;
  const cells: Cells<SpentKey> = {
    [words.key]: ({ id, name, prefix }) =>
      html`${clipped(name, html`<a href="${base}/${id}">${name}</a>`)}${mark(id)} <code>${prefix}…</code>`,
    [words.state]: (key) => {
      const end = key.revoked_at ?? key.expires_at;
      const until = end && html`${isActive ? words.until(format.date(end)) : format.date(end)}`;
      return key.state === 'active' && until
        ? html`<span class="one-line">${badge(endsSoon(key, now) ? 'warn' : 'good', until)}${restrictionsOf(key, format)}</span>`
        : html`<span class="one-line">${keyState(key, now, format)}${isActive ? restrictionsOf(key, format) : ''}${until && html` ${muted(until)}`}</span>`;
    },
    [words.may]: (key) => clipped(scopeTexts(key, words)),
    [words.created]: (key) => format.date(key.created_at),
    ...(!isOwn && { [words.by]: (key) => personOf(key, format) }),
    [words.lastUsed]: ({ last_used_at: at }) =>
      at === null ? muted(numbers.never) : format.ago(at),
    [words.cost]: ({ spent }) => format.amount(spent),
    ...(isActive && {
      [frame.actions]: (key) =>
        isWritable ? rowMenu(c.var, key.name, keyActions(words, base, key)) : muted(frame.none),
    }),
  };
  const shown = {
    path: base,
    cells,
    figures: [words.cost],
    sorts: sortsOf(words),
    finds: words.finds,
  };
  if (isActive)
    return {
      ...shown,
      caption: words.caption,
      empty: isWritable
        ? html`${words.noneCreate((text) => html`<a href="#create">${text}</a>`)}`
        : words.none,
    };
  return { ...shown, caption: words.deadCaption, empty: words.deadNone, kept: { state: 'dead' } };
}

/** The endpoints that a key may use, in words. */
export function scopeTexts(key: KeyRow, words: Words['keys']): string {
  return scopesOf(key)
    .map((scope) => words.scopeTexts[scope])
    .join(', ');
}

/** Who made a key; of a key of a person, whose it is. */
function personOf({ user_id, person, created_by }: KeyRow, format: Format): Html {
  const { keys: words } = format.words;
  if (user_id === null) return clipped(format.person(created_by));
  const whose =
    person === null || person === created_by ? format.person(created_by) : words.ofPerson(person);
  return html`${badge('plain', words.personal)} ${clipped(whose)}`;
}

/** Links to the pages that replace and revoke a key. */
export function keyActions(
  words: Words['keys'],
  base: string,
  { id, name, state, purpose }: KeyRow,
): Html {
  const isShown = purpose === null;
  return html`${state === 'active' && isShown ? html`${linkButton(`${base}/${id}/rotate`, words.rotate, name)} ` : ''}
${state === 'revoked' ? '' : dangerLink(`${base}/${id}/revoke`, words.revoke, name)}`;
}

/** Keys of persons who tried models and assistants on the pages. */
function playgrounds(c: PageContext, keys: readonly SpentKey[], base: string): Html | string {
  if (keys.length === 0) return '';
  const { format } = c.var;
  const isWritable = mayNow(c, 'key.write');
  const { keys: words, numbers, frame } = format.words;
  const cells: Cells<SpentKey> = {
    [words.key]: ({ id, name }) => clipped(name, html`<a href="${base}/${id}">${name}</a>`),
    [words.limits]: (key) => restrictionsOf(key, format) || muted(frame.none),
    [words.lastUsed]: ({ last_used_at: at }) =>
      at === null ? muted(numbers.never) : format.ago(at),
    [words.cost]: ({ spent }) => format.amount(spent),
    [frame.actions]: (key) =>
      isWritable ? rowMenu(c.var, key.name, keyActions(words, base, key)) : muted(frame.none),
  };
  return html`<section aria-labelledby="playgrounds"><h2 id="playgrounds">${words.playgrounds}</h2>
<p class="muted">${words.playgroundsText}</p>
${table(words.playgrounds, keys, { cells, figures: [words.cost] }, true)}</section>`;
}

/** The fields of a new key. @param mostBudget as of `restrictionFields` */
export function newKeyFields(state: FormState, company: Company, mostBudget = ''): Html {
  return html`${idempotencyInputs()}
${settingFields(state, { ...PURPOSE, expires_at }, NEW_KEY)}
${foldedRestrictionFields(state, company, mostBudget)}`;
}

/** Creates the key that a form asks for, of the company or of the member who asks, and shows it. */
export async function create(c: PageContext, form: Form): Promise<Response> {
  const { calendar, clock } = c.var.services;
  const { id, claim } = readIdempotencyInputs(c, form);
  const last = form.optional(expires_at.field.name, (day) =>
    readLastDay(day, calendar.timeZone, clock()),
  );
  const asked = { ...readSettings(form, EDITED), id, expires_at: last };
  form.check();
  const caller = callerOf(c, form, KEY);
  return redirectToKey(
    c,
    await change(c, (sql) => createKey(sql, caller, param(c, 'company'), asked, claim)),
  );
}

/** Marks a key that may do less than its company, and lists its restrictions. */
function restrictionsOf(key: KeyRow, format: Format): Html | string {
  const texts = restrictionTexts(key, format, format.words.limitTexts).join(', ');
  return texts === ''
    ? ''
    : html` <span class="badge plain" title="${texts}">${format.words.keys.restricted}<span class="sr">: ${texts}</span></span>`;
}

/** @param now milliseconds since the epoch */
export function keyState(key: KeyRow, now: number, { words }: Format): Html {
  const { states } = words.keys;
  const { state } = key;
  if (state !== 'active') return badge(isOver(state) ? 'bad' : 'warn', states[state]);
  return endsSoon(key, now) ? badge('warn', states.endsSoon) : badge('good', states.active);
}

function endsSoon({ expires_at }: KeyRow, now: number): boolean {
  return expires_at !== null && expires_at.getTime() - now < 7 * 86_400_000;
}

/** @param key null: a new one @param mostBudget the most that its budget may be, in words; empty: any */
export function restrictionFields(
  state: FormState,
  company: Catalogue,
  key: KeyRow | null,
  mostBudget = '',
): Html {
  const { restrictions } = state.words;
  const hint =
    mostBudget === '' ? restrictions.budgetHint : restrictions.mostBudgetHint(mostBudget);
  return html`<p class="muted">${restrictions.lead}</p>
<div class="pair">${settingFields(state, LIMIT_SETTINGS, key)}${settingFields(state, KEY_MONTH_BUDGET, key, { hint })}
${settingFields(state, KEY_DAY_BUDGET, key)}</div>
${modelField(state, company, key)}
${settingFields(state, NETWORKS, key)}${settingFields(state, END_USER, key ?? NEW_KEY)}`;
}

/** The fields of the restrictions, folded until something is in one. */
function foldedRestrictionFields(state: FormState, company: Catalogue, mostBudget = ''): Html {
  const isOpen = Object.values(RESTRICTIONS).some(
    ({ field }) => state.value(field.name, '') !== '',
  );
  return html`<details class="fold"${isOpen ? raw(' open') : ''}><summary>${state.words.restrictions.title}</summary>
${restrictionFields(state, company, null, mostBudget)}</details>`;
}

/** The models that the company may use now, and those already chosen. */
function modelField(state: FormState, company: Catalogue, key: KeyRow | null): Html {
  const listed = listModels(company).map(({ slug }) => slug);
  const slugs = [...new Set([...listed, ...(key?.[ALLOWED_MODELS] ?? [])])].sort();
  if (slugs.length > MAX_CHECKBOXES) return settingFields(state, KEY_MODELS, key);
  if (slugs.length === 0) return html``;
  const { checkedHint: hint, notListed } = state.words.restrictions;
  const choices = slugs.map(
    (slug) => [slug, listed.includes(slug) ? slug : notListed(slug)] as const,
  );
  return settingFields(state, KEY_MODELS, key, { hint, choices });
}
