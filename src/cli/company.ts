import { oneOf, orNone, readBoolean, readBudget, readName, readSlug, readUuid } from '../domain/field.ts';
import { type CompanyRow, createCompany, listCompanies, setCompany } from '../store/company.ts';
import { unknownSlugs } from '../store/model.ts';
import { type Command, command, flag, optional, repeated, required, someChange, UsageError } from './command.ts';
import { card, instant, listing, yesNo } from './text.ts';

const budget = optional('EUR', orNone(readBudget), 'monthly budget; none or 0: unlimited');

const mode = optional(
  'standard|strict',
  oneOf('standard', 'strict'),
  'strict: each request first reserves the most it can cost, so the budget is never exceeded',
);

export const companyCommands: readonly Command[] = [
  command({
    name: 'company create',
    summary: 'add a company',
    options: {
      name: required('NAME', readName, 'name of the company'),
      budget,
      'budget-mode': mode,
      'allow-non-eu': flag('allow models hosted outside the EU'),
    },
    async run({ transact }, values) {
      const asked = {
        name: values.name,
        monthly_budget_eur: values.budget,
        budget_mode: values['budget-mode'],
        allow_non_eu_models: values['allow-non-eu'],
      };
      const company = await transact((sql) => createCompany(sql, asked));
      return { json: company, text: show('Company created.', company) };
    },
  }),
  command({
    name: 'company set',
    summary: 'change the name, budget, EU gate or models of a company',
    operand: { shown: 'ID', meaning: 'id of the company', read: readUuid },
    options: {
      name: optional('NAME', readName, 'new name'),
      budget,
      'budget-mode': mode,
      'allow-non-eu': optional('true|false', readBoolean, 'allow models hosted outside the EU'),
      'disable-model': repeated('SLUG', readSlug, 'hide and refuse this model; may be repeated'),
      'enable-model': repeated('SLUG', readSlug, 'allow this model again; may be repeated'),
    },
    notes: 'Running gateways apply the change within one second.',
    async run({ transact, warn }, values, id) {
      const { 'disable-model': disable, 'enable-model': enable } = values;
      const both = disable.find((slug) => enable.includes(slug));
      if (both !== undefined) throw new UsageError(`${both} is both disabled and enabled; choose one`);
      const changes = someChange({
        name: values.name,
        monthly_budget_eur: values.budget,
        budget_mode: values['budget-mode'],
        allow_non_eu_models: values['allow-non-eu'],
        disable,
        enable,
      });
      const company = await transact((sql) => setCompany(sql, id, changes));
      for (const slug of await transact((sql) => unknownSlugs(sql, id, disable))) {
        warn(`the company has no model ${slug}; the slug is disabled in case one is created`);
      }
      return { json: company, text: show('Company changed.', company) };
    },
  }),
  command({
    name: 'company list',
    summary: 'list all companies and their settings',
    options: {},
    async run({ transact }) {
      const companies = await transact(listCompanies);
      const rows = companies.map((company) => [
        company.id,
        company.name,
        budgetText(company.monthly_budget_eur),
        yesNo(company.allow_non_eu_models),
        company.disabled_model_slugs.join(', ') || '-',
      ]);
      return {
        json: companies,
        text: listing(
          ['ID', 'NAME', 'EUR PER MONTH', 'NON-EU', 'DISABLED MODELS'],
          rows,
          'There are no companies; "tollgate company create" adds one.',
          ['EUR PER MONTH'],
        ),
      };
    },
  }),
];

/** A budget as text (spec section 2.9: null or 0 means unlimited). */
export function budgetText(budget: string | null): string {
  return budget === null || budget === '0' ? 'unlimited' : budget;
}

function show(sentence: string, company: CompanyRow): string {
  return card(sentence, {
    id: company.id,
    name: company.name,
    'EUR per month': budgetText(company.monthly_budget_eur),
    'budget mode': company.budget_mode,
    'non-EU models': company.allow_non_eu_models ? 'allowed' : 'refused',
    'disabled models': company.disabled_model_slugs.join(', ') || '-',
    created: instant(company.created_at),
  });
}
