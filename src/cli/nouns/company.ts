import { isLimited } from '../../domain/budget.ts';
import {
  readEmail,
  readName,
  readPriceFactor,
  readScope,
  readSlug,
  readUuid,
} from '../../domain/field.ts';
import { DISABLED_MODELS } from '../../domain/gate.ts';
import { SCOPES, USUAL_SCOPES } from '../../domain/key.ts';
import { type Moment, readMoment } from '../../domain/price.ts';
import { Refused } from '../../domain/refusal.ts';
import {
  CEILINGS,
  COMPANY,
  COMPANY_SETTINGS,
  DISABLED,
  LIMIT_SETTINGS,
  PRICE_FACTOR,
} from '../../domain/settings/company.ts';
import { scopesOf } from '../../domain/settings/key.ts';
import { limitTexts } from '../../domain/settings/limit-text.ts';
import { actorName } from '../../domain/wording/change-text.ts';
import {
  changeCompany,
  createCompany,
  pauseCompany,
  previewPriceFactor,
  priceFactors,
  resumeCompany,
  schedulePriceFactor,
  withdrawPriceFactor,
} from '../../operations/company.ts';
import { onboardCompany } from '../../operations/onboarding.ts';
import { readOwnPrice } from '../../operations/own-price.ts';
import {
  type CompanyChanges,
  type CompanyRow,
  listCompanies,
} from '../../store/company/company.ts';
import type { PriceFactorRow } from '../../store/company/price-factor.ts';
import type { MadeInvitation } from '../../store/users/invitation.ts';
import { pausedIn } from '../apply/kinds.ts';
import {
  ArgumentError,
  type Context,
  command,
  Failure,
  optional,
  repeated,
  required,
  someChange,
} from '../frame/command.ts';
import { commandsOf } from '../frame/noun.ts';
import { callerOf, changeOptions, newOptions, optionText } from '../frame/setting.ts';
import { card, instant, listing, plainly, sections, yesNo, zoned } from '../frame/text.ts';
import { invitationLinks } from './user.ts';

const SETTINGS = { ...COMPANY_SETTINGS, ...CEILINGS, ...LIMIT_SETTINGS, ...PRICE_FACTOR };

/** Options for the settings of a company that is created. */
const newCompany = newOptions(SETTINGS);

const companies = commandsOf('company', { ...COMPANY, ...DISABLED }, (company: CompanyRow) => ({
  id: company.id,
  name: company.name,
  created: instant(company.created_at),
  ...(company.closed_at !== null && { closed: instant(company.closed_at) }),
  ...pauseText(company),
  'budget in effect': `${budgetText(company.effective_budget_eur)}${isLimited(company.effective_budget_eur) ? ' EUR per month' : ''}`,
  'non-EU models': company.allow_non_eu_models && !company.eu_locked ? 'allowed' : 'refused',
}));
export const { show } = companies;

const companyId = { shown: 'ID', meaning: 'id of the company', read: readUuid };

/** Why a key or a company is paused. */
export const reason = required(
  '--reason TEXT',
  readName,
  'why, in one line: owners of the company read it, callers do not',
);

/** When, by whom and why a key or a company was paused. */
export function pauseText(row: Pick<CompanyRow, 'paused_at' | 'paused_by' | 'pause_reason'>) {
  if (row.paused_at === null) return {};
  return { paused: `${instant(row.paused_at)} by ${actorName(row.paused_by)}: ${pausedIn(row)}` };
}

export const companyCommands = [
  companies.create({
    summary: 'add a company',
    options: newCompany,
    change: createCompany,
  }),
  command({
    name: 'company onboard',
    summary:
      'add a company with its limits, models and prices, its owner and a first key: all of it or nothing',
    options: {
      ...newCompany,
      ...changeOptions(DISABLED),
      own_prices: repeated(
        '--own-price SLUG=INPUT,OUTPUT',
        readOwnPrice,
        'what it alone pays for a shared model, in EUR per 1000 prompt and completion tokens; those of the cache may follow: INPUT,OUTPUT,CACHE_READ,CACHE_WRITE; may be repeated',
      ),
      owner: required('--owner-email ADDRESS', readEmail, 'who is invited as its owner'),
      key_name: optional(
        '--key-name NAME',
        readName,
        'name of its first key; without it no key is made',
      ),
      key_scopes: repeated(
        '--key-scope SCOPE',
        readScope,
        `scope of the key, ${SCOPES.join(', ')}; default: ${USUAL_SCOPES.join(', ')}; may be repeated`,
      ),
    },
    notes:
      'Link and key are shown here only; nothing is sent by e-mail. Where a part is refused nothing is created, and each mistake is a line that names its option. A model with a price of its own is from then on a model of the company alone: later changes of the shared one do not reach it.',
    async run(context, values) {
      const { transact, config, warn } = context;
      const { owner, key_name: name, key_scopes: scopes, ...company } = values;
      if (name === undefined && scopes.length > 0)
        throw new ArgumentError('--key-scope needs --key-name');
      const linkTo = invitationLinks(config, warn);
      const key =
        name === undefined
          ? undefined
          : { name, scopes: scopes.length === 0 ? USUAL_SCOPES : scopes };
      const asked = { ...company, owner: { email: owner }, key };
      const done = await transact((sql) =>
        onboardCompany(sql, callerOf(context, COMPANY), asked),
      ).catch(toOptions);
      const { token, ...invitation } = done.invitation as MadeInvitation;
      const link = linkTo(token);
      const text = sections(
        show(
          'Company created. Link and key are shown only this once: pass them on now.',
          done.company,
        ),
        card('Its owner joins by this link, once. Nothing is sent.', {
          owner,
          link,
          until: instant(invitation.expires_at),
        }),
        done.key === null
          ? ''
          : card('Its first key.', {
              key: done.key.key as string,
              name: done.key.name,
              scopes: scopesOf(done.key).join(', '),
            }),
      );
      return {
        json: { ...done.company, invitation: { ...invitation, link }, key: done.key },
        text,
      };
    },
  }),
  command({
    name: 'company set',
    summary:
      'change name, budget, EU gate, ceilings, limits, prices, models of a company, or what its members may do',
    operand: companyId,
    options: {
      ...changeOptions(SETTINGS),
      from: optional(
        '--from DATE',
        readMoment,
        'when the price factor begins: a date in the billing time zone, or an ISO time',
      ),
      disable: repeated(
        '--disable-model SLUG',
        readSlug,
        'hide and refuse this model; may be repeated',
      ),
      enable: repeated('--enable-model SLUG', readSlug, 'allow this model again; may be repeated'),
    },
    notes: 'Running gateways apply the change within one second.',
    async run(context, { from, ...values }, id) {
      const both = values.disable.find((slug) => values.enable.includes(slug));
      if (both !== undefined)
        throw new ArgumentError(`${both} is both disabled and enabled; choose one`);
      const changes = someChange(values);
      if (from !== undefined) return setFrom(context, id, changes, from);
      const company = await context.transact((sql) =>
        changeCompany(sql, callerOf(context, COMPANY), id, changes),
      );
      return { json: company, text: show('Company changed.', company) };
    },
  }),
  companies.list({
    summary: 'list all companies and their settings',
    options: {},
    read: listCompanies,
    columns: (companies) => ({
      ...plainly('id', 'name'),
      'EUR PER MONTH': ({ effective_budget_eur }) => budgetText(effective_budget_eur),
      'NON-EU': ({ allow_non_eu_models, eu_locked }) => yesNo(allow_non_eu_models && !eu_locked),
      ...(companies.some((company) => company[DISABLED_MODELS].length > 0) && {
        'DISABLED MODELS': (company: CompanyRow) => company[DISABLED_MODELS].join(', ') || '-',
      }),
      ...limitColumn(companies, (company) => limitTexts(company, PLAIN)),
      ...(companies.some(hasFactor) && plainly('price_factor')),
      ...(companies.some(({ closed_at }) => closed_at !== null) && plainly('closed_at')),
      ...(companies.some(({ paused_at }) => paused_at !== null) && plainly('paused_at')),
    }),
    empty: 'There are no companies; "tollgate company create" adds one.',
    right: ['EUR PER MONTH'],
  }),
  companies.pause({
    summary: 'refuse all keys of a company with 403 until it is resumed',
    operand: companyId,
    options: { reason },
    notes:
      'Gateways refuse them within one second; calls in flight end and are booked. Its users may still sign in, and its owners read the reason. Again: another reason.',
    change: (sql, _caller, { reason }, id) => pauseCompany(sql, id, reason),
  }),
  companies.resume({
    summary: 'accept the keys of a paused company again; keys that are paused themselves stay so',
    operand: companyId,
    options: {},
    change: (sql, _caller, _values, id) => resumeCompany(sql, id),
  }),
  command({
    name: 'company factor',
    summary: 'show the present, past and coming factors on the prices of a company',
    operand: companyId,
    options: {
      with: optional(
        '--with N',
        readPriceFactor,
        'show what the last month would have cost with this factor instead',
      ),
    },
    notes: 'Times are those of BILLING_TIMEZONE; with --json they are in UTC.',
    async run({ transact, config }, { with: factor }, id) {
      if (factor !== undefined) {
        const preview = await transact((sql) => previewPriceFactor(sql, id, factor));
        const { month, cost_eur, would_eur } = preview;
        const cells = {
          'EUR as booked': cost_eur,
          [`EUR with the factor ${factor}`]: would_eur,
        };
        return { json: preview, text: card(`API calls of ${month}. Nothing is changed.`, cells) };
      }
      const rows = await transact((sql) => priceFactors(sql, id));
      const columns = {
        FROM: ({ valid_from }: PriceFactorRow) => zoned(valid_from, config.billingTimezone),
        FACTOR: ({ factor }: PriceFactorRow) => factor,
        STATE: ({ begun }: PriceFactorRow) => (begun ? 'begun' : 'to come'),
        BY: ({ changed_by }: PriceFactorRow) => actorName(changed_by),
      };
      const text = listing(rows, columns, 'The price factor of this company was always 1.');
      return { json: rows.map(factorJson), text };
    },
  }),
  command({
    name: 'company withdraw',
    summary: 'withdraw a price factor that has not begun',
    operand: companyId,
    options: {
      from: required(
        '--from DATE',
        readMoment,
        'when it would begin, as "tollgate company factor" shows it',
      ),
    },
    async run({ transact, config }, { from }, id) {
      const row = await transact((sql) => withdrawPriceFactor(sql, id, { from }));
      return {
        json: factorJson(row),
        text: factorCard('The price factor is withdrawn.', row, config.billingTimezone),
      };
    },
  }),
];

/** Lets a price factor begin at a date. @throws ArgumentError when something else is to change */
async function setFrom(
  context: Context,
  id: string,
  { price_factor: factor, ...more }: CompanyChanges,
  from: Moment,
) {
  const isMore = Object.values(more)
    .flat()
    .some((value) => value !== undefined);
  if (factor == null || isMore) {
    throw new ArgumentError(
      'only --price-factor can begin at a date; change the rest in another command',
    );
  }
  const caller = callerOf(context, COMPANY);
  const row = await context.transact((sql) => schedulePriceFactor(sql, caller, id, factor, from));
  const zone = context.config.billingTimezone;
  return {
    json: factorJson(row),
    text: factorCard('The price factor begins at its date, on every gateway.', row, zone),
  };
}

/** A factor with its members named as the columns of `company_price_factors`. */
function factorJson({ id: _, created_at: _at, ...factor }: PriceFactorRow) {
  return factor;
}

function factorCard(
  sentence: string,
  { company_id, factor, valid_from }: PriceFactorRow,
  zone: string,
): string {
  return card(sentence, {
    company: company_id,
    'price factor': factor,
    from: zoned(valid_from, zone),
  });
}

function hasFactor({ price_factor: factor }: CompanyRow): boolean {
  return factor !== null && factor !== '1';
}

/** Members of an onboarding, which have options. */
const ONBOARDED = {
  ...COMPANY,
  ...DISABLED,
  own_prices: { option: '--own-price' },
  owner: { option: '--owner-email' },
  key: { option: '--key-name' },
};

/** @throws Failure with a line for each mistake, which names its option */
function toOptions(error: unknown): never {
  if (!(error instanceof Refused) || error.mistakes.length === 0) throw error;
  throw new Failure(...error.mistakes.map((mistake) => optionText(ONBOARDED, mistake)));
}

export function budgetText(budget: string | null): string {
  return isLimited(budget) ? budget : 'unlimited';
}

/** Numbers for a terminal: without separators, so that they can be pasted. */
export const PLAIN = { count: String, eurText: (amount: string) => `${amount} EUR` };

/** A column of a list, if any of its rows has limits. */
export function limitColumn<T>(
  rows: readonly T[],
  texts: (row: T) => string[],
): Record<string, (row: T) => string> {
  return rows.some((row) => texts(row).length > 0)
    ? { LIMITS: (row) => texts(row).join(', ') || '-' }
    : {};
}
