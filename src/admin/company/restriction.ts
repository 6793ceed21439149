import { isLimited } from '../../domain/budget.ts';
import { lines, readBudget, readSlug, wholeNumber } from '../../domain/field.ts';
import { type Catalogue, listModels } from '../../domain/gate.ts';
import type { RestrictionColumns } from '../../domain/key.ts';
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
export const LIMIT_LABELS = eachLimit(({ label }) => label);
export const RESTRICTION_LABELS = {
  ...LIMIT_LABELS,
  monthly_budget_eur: 'Budget a month in EUR',
  allowed_model_slugs: 'Models',
  allowed_cidrs: 'Networks',
} as const;

/** Three fields. @param row null: a new key */
export function limitFields(state: FormState, row: LimitColumns | null): Html {
  const fields = eachLimit(({ label }, name) =>
    field(state, { name, label, inputmode: 'numeric', value: String(row?.[name] ?? '') }),
  );
  return html`${Object.values(fields)}`;
}

export function readLimits(form: Form): LimitColumns {
  return eachLimit(({ most }, name) => form.optional(name, form.numeric(wholeNumber(most))));
}

/** @param key null: a new one */
export function restrictionFields(state: FormState, company: Catalogue, key: KeyRow | null): Html {
  const { monthly_budget_eur: budget = null, allowed_model_slugs, allowed_cidrs } = key ?? {};
  const networks: Field = {
    name: 'cidrs',
    label: RESTRICTION_LABELS.allowed_cidrs,
    type: 'textarea',
    rows: 3,
    value: allowed_cidrs?.join('\n') ?? '',
    hint: 'Where it may be used from, one on each line, such as 203.0.113.0/24 or 2001:db8::/32. An address alone means itself. Empty: from anywhere.',
  };
  return html`<p class="muted">A key can only be narrower than its company: the company’s own limits and budget hold as well. An empty field limits nothing.</p>
<div class="pair">${limitFields(state, key)}
${field(state, { name: 'budget', label: RESTRICTION_LABELS.monthly_budget_eur, inputmode: 'decimal', value: isLimited(budget) ? budget : '', hint: 'Such as 25 or 9.50; empty or 0 for unlimited. To stop a key, revoke it.' })}</div>
${modelField(state, company, allowed_model_slugs ?? [])}
${field(state, networks)}`;
}

/** The fields of the restrictions, folded until something is in one. */
export function foldedRestrictionFields(state: FormState, company: Catalogue): Html {
  const isOpen = NAMES.some((name) => state.value(name, '') !== '');
  return html`<details class="fold"${isOpen ? raw(' open') : ''}><summary>Limits and restrictions</summary>
${restrictionFields(state, company, null)}</details>`;
}

/** The models that the company may use now, and those already chosen. */
function modelField(state: FormState, company: Catalogue, allowed: readonly string[]): Html {
  const listed = listModels(company).map(({ slug }) => slug);
  const slugs = [...new Set([...listed, ...allowed])].sort();
  const spec = { name: 'model', label: RESTRICTION_LABELS.allowed_model_slugs };
  if (slugs.length > MAX_CHECKBOXES) {
    const hint = 'The only slugs it may use, one on each line. Empty: every model of the company, later ones too.';
    return field(state, { ...spec, hint, type: 'textarea', rows: 5, value: allowed.join('\n') });
  }
  if (slugs.length === 0) return html``;
  const choices = slugs.map((slug) => [slug, listed.includes(slug) ? slug : `${slug} (not listed now)`] as const);
  const hint = 'None checked: every model of the company, later ones too.';
  return checkboxes(state, { ...spec, hint, choices, chosen: allowed });
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
  if (unknown !== undefined) form.refuse(field, `${unknown.detail}.`);
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
