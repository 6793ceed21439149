import { isLimited } from '../../domain/budget.ts';
import { lines, readBudget, readSlug, wholeNumber } from '../../domain/field.ts';
import { type Catalogue, listModels } from '../../domain/gate.ts';
import { refusal } from '../../domain/input/refusal.ts';
import type { RestrictionColumns } from '../../domain/key.ts';
import type { Words } from '../../domain/language/en.ts';
import { eachLimit, LIMIT_NAMES, type LimitColumns } from '../../domain/limits.ts';
import { readCidr } from '../../domain/request/cidr.ts';
import { unknownModels } from '../../operations/model.ts';
import type { KeyRow } from '../../store/company/key.ts';
import { type PageContext, param, read } from '../page/context.ts';
import { checkboxes, type Field, type FormState, field } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html, raw } from '../page/html.ts';

/** Parts of forms for the limits of companies and keys, and for what a key may do less than its company. */

const MAX_CHECKBOXES = 100; // more models are typed: a page stays small
const NAMES = [...LIMIT_NAMES, 'budget', 'model', 'cidrs'];

/** Columns by the labels of their fields. */
export function restrictionLabels({ limits, restrictions }: Words) {
  return {
    ...limits,
    monthly_budget_eur: restrictions.budget,
    allowed_model_slugs: restrictions.models,
    allowed_cidrs: restrictions.networks,
  } as const;
}

/** Three fields. @param row null: a new key */
export function limitFields(state: FormState, row: LimitColumns | null): Html {
  const fields = eachLimit((_, name) =>
    field(state, { name, label: state.words.limits[name], inputmode: 'numeric', value: String(row?.[name] ?? '') }),
  );
  return html`${Object.values(fields)}`;
}

export function readLimits(form: Form): LimitColumns {
  return eachLimit(({ most }, name) => form.optional(name, form.numeric(wholeNumber(most))));
}

/** @param key null: a new one @param mostBudget the most that its budget may be, in words; empty: any */
export function restrictionFields(state: FormState, company: Catalogue, key: KeyRow | null, mostBudget = ''): Html {
  const { restrictions } = state.words;
  const { monthly_budget_eur: budget = null, allowed_model_slugs, allowed_cidrs } = key ?? {};
  const networks: Field = {
    name: 'cidrs',
    label: restrictions.networks,
    type: 'textarea',
    rows: 3,
    value: allowed_cidrs?.join('\n') ?? '',
    hint: restrictions.networksHint,
  };
  return html`<p class="muted">${restrictions.lead}</p>
<div class="pair">${limitFields(state, key)}
${field(state, { name: 'budget', label: restrictions.budget, inputmode: 'decimal', value: isLimited(budget) ? budget : '', hint: mostBudget === '' ? restrictions.budgetHint : restrictions.mostBudgetHint(mostBudget) })}</div>
${modelField(state, company, allowed_model_slugs ?? [])}
${field(state, networks)}`;
}

/** The fields of the restrictions, folded until something is in one. */
export function foldedRestrictionFields(state: FormState, company: Catalogue, mostBudget = ''): Html {
  const isOpen = NAMES.some((name) => state.value(name, '') !== '');
  return html`<details class="fold"${isOpen ? raw(' open') : ''}><summary>${state.words.restrictions.title}</summary>
${restrictionFields(state, company, null, mostBudget)}</details>`;
}

/** The models that the company may use now, and those already chosen. */
function modelField(state: FormState, company: Catalogue, allowed: readonly string[]): Html {
  const listed = listModels(company).map(({ slug }) => slug);
  const slugs = [...new Set([...listed, ...allowed])].sort();
  const { restrictions } = state.words;
  const spec = { name: 'model', label: restrictions.models };
  if (slugs.length > MAX_CHECKBOXES) {
    return field(state, {
      ...spec,
      hint: restrictions.slugsHint,
      type: 'textarea',
      rows: 5,
      value: allowed.join('\n'),
    });
  }
  if (slugs.length === 0) return html``;
  const choices = slugs.map((slug) => [slug, listed.includes(slug) ? slug : restrictions.notListed(slug)] as const);
  return checkboxes(state, { ...spec, hint: restrictions.checkedHint, choices, chosen: allowed });
}

/** Refuses a field that names another model than those of the company. @param before what is stored, which may stay */
export async function checkModels(
  c: PageContext,
  form: Form,
  field: string,
  slugs: readonly (string | null | undefined)[], // undefined after a mistake
  before: readonly (string | null)[] = [],
): Promise<void> {
  const [wanted, kept] = [slugs, before].map((all) => all.filter((slug) => typeof slug === 'string'));
  const [unknown] = await read(c, (sql) => unknownModels(sql, param(c, 'company'), field, wanted, kept));
  if (unknown !== undefined) {
    form.refuse(field, `${refusal('notOfCompany', { slug: unknown.slug }).in(form.words.refusals)}.`);
  }
}

/** @param before slugs that the key has already, which the company need not have */
export async function readRestrictions(
  c: PageContext,
  form: Form,
  before: readonly string[] = [],
): Promise<LimitColumns & RestrictionColumns> {
  const slugs = form.all('model', lines(readSlug)).flat();
  await checkModels(c, form, 'model', slugs, before);
  const cidrs = form.optional('cidrs', lines(readCidr)) ?? [];
  return {
    ...readLimits(form),
    monthly_budget_eur: form.optional('budget', form.numeric(readBudget)),
    allowed_model_slugs: slugs.length === 0 ? null : slugs,
    allowed_cidrs: cidrs.length === 0 ? null : cidrs,
  };
}
