import { isAboveLimit } from '../../domain/ceiling.ts';
import {
  BUYER,
  DAY_BUDGET,
  EU_GATE,
  LIMIT_SETTINGS,
  MEMBER_SETTINGS,
  MONTH_BUDGET,
  NAME,
  OWNERS_SETTINGS,
  PROFILE,
  STRICT_CEILINGS,
  UNUSUAL,
} from '../../domain/settings/company.ts';
import { limitTexts } from '../../domain/settings/limit-text.ts';
import { may } from '../../operations/frame/permission.ts';
import type { CompanyRow } from '../../store/company/company.ts';
import {
  changeAsOperator,
  formAt,
  isCompanyClosed,
  type PageContext,
  pageAt,
  presentCompany,
  type Route,
} from '../page/context.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, page, titledCard } from '../page/layout.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { type SettingCard, saveCompany, settingCard } from './company-edit.ts';
import { companyPauseCard, endCards, pauseCompanyForm, resumeCompanyForm } from './company-end.ts';
import { priceFactorCard, priceFactorRoutes } from './price-factor.ts';

const BASE = '/companies/:company';

/** Budget and EU gate, which the owners of a company set. */
const OWNERS: SettingCard = {
  path: 'settings',
  action: 'company.set',
  settings: OWNERS_SETTINGS,
  texts: ({ settings }) => ({ title: settings.budgetAndGate, save: settings.save }),
  shown: ownersText,
};

/** How far members may use the API themselves. */
const MEMBERS: SettingCard = {
  path: 'members',
  action: 'company.set',
  settings: MEMBER_SETTINGS,
  texts: ({ settings }) => settings.members,
  shown: membersText,
};

/** Who buys, as statements show it. */
const BUYERS: SettingCard = {
  path: 'buyer',
  action: 'company.set',
  settings: BUYER,
  texts: ({ settings }) => settings.buyer,
};

/** The ceilings. Owners see them in their own form. */
const CEILINGS: SettingCard = {
  path: 'ceilings',
  action: 'company.limit',
  settings: STRICT_CEILINGS,
  texts: () => ({
    title: 'Limits set by the operator',
    save: 'Save these limits',
    lead: 'The company’s owners cannot exceed them. They apply within a second.',
  }),
  by: changeAsOperator,
};

/** Limits of all keys of a company together. Those who are limited see them, operators set them. */
const LIMITS: SettingCard = {
  path: 'limits',
  action: 'company.limit',
  settings: LIMIT_SETTINGS,
  texts: () => ({
    title: 'Limits',
    save: 'Save limits',
    lead: 'For all keys of the company together. An empty field limits nothing.',
  }),
  fields: (...its) => html`<div class="pair">${settingFields(...its)}</div>`,
  shown: limitsText,
};

const NAMES: SettingCard = {
  path: 'name',
  action: 'company.rename',
  settings: NAME,
  texts: () => ({ title: 'Name and customer number', save: 'Save name' }),
  by: changeAsOperator,
};

/** The settings of a company. */
export const settingsRoutes: readonly Route[] = [
  pageAt(`${BASE}/settings`, 'company.read', settingsPage),
  formAt(`${BASE}/settings`, OWNERS.action, saveOwners, { page: settingsPage }),
  ...[MEMBERS, BUYERS, CEILINGS, LIMITS, NAMES].map(
    (card): Route =>
      formAt(
        `${BASE}/${card.path}`,
        card.action,
        (c, form) => saveCompany(c, form, card, readSettings(form, card.settings)),
        { page: settingsPage },
      ),
  ),
  formAt(`${BASE}/pause`, 'company.pause', pauseCompanyForm, { page: settingsPage }),
  formAt(`${BASE}/resume`, 'company.pause', resumeCompanyForm),
  ...priceFactorRoutes(settingsPage),
];

async function settingsPage(c: PageContext, form: Form): Promise<Response> {
  const company = presentCompany(c);
  const { id } = company;
  const base = `/companies/${id}`;
  const words = c.var.format.words.settings;
  const { user } = c.var.session;
  const elsewhere = html`<p>${words.models((models) => html`<a href="${base}/models">${models}</a>`)}${
    may(user, 'alert.read', id)
      ? words.alerts((alerts) => html`<a href="${base}/alerts">${alerts}</a>`)
      : ''
  }${may(user, 'company-token.read', id) ? words.tokens((tokens) => html`<a href="${base}/tokens">${tokens}</a>`) : ''}</p>`;
  const body = html`${companyHeading(c)}<h1>${words.title}</h1>
${ownersCard(c, company, form)}
${settingCard(c, form, MEMBERS)}
${settingCard(c, form, BUYERS)}
${isCompanyClosed(c) ? '' : elsewhere}
${settingCard(c, form, CEILINGS)}
${settingCard(c, form, LIMITS)}
${await priceFactorCard(c, form)}
${settingCard(c, form, NAMES)}${companyPauseCard(c, company, form)}${endCards(c, company)}
<p class="muted foot">${words.zone(c.var.services.calendar.timeZone)}</p>`;
  return page(c, words.of(company.name), body);
}

function ownersCard(c: PageContext, company: CompanyRow, form: Form): Html | string {
  const { format } = c.var;
  const { credit_limit_eur: limit, eu_locked, budget_mode } = company;
  const words = format.words.settings;
  const hint = words.budgetHint(limit === null ? '' : format.eurText(limit));
  return settingCard(c, form, OWNERS, {
    above: isAboveLimit(company)
      ? html`<p class="notice warn-notice">${words.aboveLimit(format.amount(limit as string))}</p>`
      : '',
    fields: (state) => html`${settingFields(state, MONTH_BUDGET, company, { hint })}
${settingFields(state, DAY_BUDGET, company)}
${settingFields(state, UNUSUAL, company)}
${budget_mode === 'strict' ? html`<p class="hint">${words.strict}</p>` : ''}
${eu_locked ? html`<p>${words.lockedText}</p>` : settingFields(state, EU_GATE, company)}
${settingFields(state, PROFILE, company)}`,
  });
}

function saveOwners(c: PageContext, form: Form): Promise<Response> {
  const { allow_non_eu_models: gate, ...changes } = readSettings(form, OWNERS_SETTINGS);
  const isHidden = presentCompany(c).eu_locked && !gate; // hidden settings stay as they are
  return saveCompany(
    c,
    form,
    OWNERS,
    isHidden ? changes : { ...changes, allow_non_eu_models: gate },
  );
}

function ownersText(c: PageContext, company: CompanyRow): Html {
  const { format } = c.var;
  const { settings: words, numbers } = format.words;
  const { effective_budget_eur: effective, eu_locked, allow_non_eu_models } = company;
  const budget = effective === null ? numbers.unlimited : format.amount(effective);
  return titledCard(
    words.budgetAndGate,
    html`<p>${words.read({ budget, isAllowed: allow_non_eu_models && !eu_locked })}</p>
${isCompanyClosed(c) ? '' : html`<p class="hint">${words.byOwners}</p>`}`,
  );
}

function membersText(c: PageContext, company: CompanyRow): Html {
  const { format } = c.var;
  const { members: words } = format.words.settings;
  const {
    member_max_keys: most,
    member_key_budget_eur: budget,
    member_playground: hasPlayground,
  } = company;
  const amount = budget === null ? '' : format.eurText(budget);
  return titledCard(
    words.title,
    html`<p>${words.read({ most, budget: amount, hasPlayground })}</p>`,
  );
}

function limitsText(c: PageContext, company: CompanyRow): Html {
  const { format } = c.var;
  const texts = limitTexts(company, format, format.words.limitTexts);
  const words = format.words.settings;
  return titledCard(
    words.limits,
    html`<p>${texts.length === 0 ? words.noLimits : words.allKeys(texts.join(', '))}</p>
<p class="hint">${words.limitsBy((keys) => html`<a href="/companies/${company.id}/keys">${keys}</a>`)}</p>`,
  );
}
