import { ALLOWED_MODELS, type Catalogue, listModels } from '../../domain/gate.ts';
import { LIMIT_SETTINGS } from '../../domain/settings/company.ts';
import {
  END_USER,
  KEY_DAY_BUDGET,
  KEY_MODELS,
  KEY_MONTH_BUDGET,
  NETWORKS,
  NEW_KEY,
  RESTRICTIONS,
} from '../../domain/settings/key.ts';
import type { KeyRow } from '../../store/company/key.ts';
import type { FormState } from '../page/field.ts';
import { type Html, html, raw } from '../page/html.ts';
import { settingFields } from '../page/setting.ts';

/** Parts of forms for the restrictions of a key. */

const MAX_CHECKBOXES = 100; // more models are typed: a page stays small

/** @param key null: a new one @param mostBudget the most that its budget may be, in words; empty: any */
export function restrictionFields(state: FormState, company: Catalogue, key: KeyRow | null, mostBudget = ''): Html {
  const { restrictions } = state.words;
  const hint = mostBudget === '' ? restrictions.budgetHint : restrictions.mostBudgetHint(mostBudget);
  return html`<p class="muted">${restrictions.lead}</p>
<div class="pair">${settingFields(state, LIMIT_SETTINGS, key)}${settingFields(state, KEY_MONTH_BUDGET, key, { hint })}
${settingFields(state, KEY_DAY_BUDGET, key)}</div>
${modelField(state, company, key)}
${settingFields(state, NETWORKS, key)}${settingFields(state, END_USER, key ?? NEW_KEY)}`;
}

/** The fields of the restrictions, folded until something is in one. */
export function foldedRestrictionFields(state: FormState, company: Catalogue, mostBudget = ''): Html {
  const isOpen = Object.values(RESTRICTIONS).some(({ field }) => state.value(field.name, '') !== '');
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
  const choices = slugs.map((slug) => [slug, listed.includes(slug) ? slug : notListed(slug)] as const);
  return settingFields(state, KEY_MODELS, key, { hint, choices });
}
