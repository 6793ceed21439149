import type { Words } from '../../domain/language/en.ts';
import { COMPANY } from '../../domain/settings/company.ts';
import type { Settings } from '../../domain/settings/setting.ts';
import { changeCompany } from '../../operations/company.ts';
import type { Action } from '../../operations/frame/permission.ts';
import { type CompanyRow, findCompany } from '../../store/company/company.ts';
import { callerOf } from '../page/caller.ts';
import {
  backTo,
  change,
  mayNow,
  type PageContext,
  param,
  presentCompany,
} from '../page/context.ts';
import { formState, saveForm } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { titledCard } from '../page/layout.ts';
import { lockEdited, lockInput } from '../page/optimistic-lock.ts';
import { settingFields } from '../page/setting.ts';

/** A form of the settings page of a company, which saves some of them. */
export interface SettingCard {
  /** Behind the address of the company. */
  readonly path: string;
  /** The permission to change them. */
  readonly action: Action;
  readonly settings: Settings;
  readonly texts: (words: Words) => {
    readonly title: string;
    readonly save: string;
    readonly lead?: string;
  };
  /** Default: under the tenant role. */
  readonly by?: typeof change;
  /** Shown to who may not change them; default: nothing. */
  readonly shown?: (c: PageContext, company: CompanyRow) => Html;
  /** Default: the controls of the settings. */
  readonly fields?: typeof settingFields;
}

/** @param special parts of this page alone */
export function settingCard(
  c: PageContext,
  form: Form,
  spec: SettingCard,
  special: { readonly above?: Html | string; readonly fields?: typeof settingFields } = {},
): Html | string {
  const {
    path,
    action,
    settings,
    texts,
    shown,
    fields,
    above = '',
  } = { fields: settingFields, ...spec, ...special };
  const company = presentCompany(c);
  if (!mayNow(c, action)) return shown?.(c, company) ?? '';
  const { title, save, lead } = texts(form.words);
  const address = `/companies/${company.id}/${path}`;
  const state = formState(form, address);
  return titledCard(
    title,
    html`${state.summary}
${saveForm(
  c,
  address,
  html`${lockInput(state, company, settings)}
${lead === undefined ? '' : html`<p class="muted">${lead}</p>`}${above}${fields(state, settings, company)}`,
  save,
)}`,
  );
}

/**
 * Saves one form of the settings page.
 * @throws ConfirmationNeeded when somebody else changed the same meanwhile, or a budget is used up already
 */
export async function saveCompany(
  c: PageContext,
  form: Form,
  { settings, by = change }: SettingCard,
  changes: Partial<CompanyRow>,
): Promise<Response> {
  form.check();
  const id = param(c, 'company');
  const page = `/companies/${id}/settings`;
  await by(c, async (sql) => {
    const find = () => findCompany(sql, id);
    await lockEdited(c, sql, form, {
      table: 'companies',
      id,
      company: id,
      settings,
      changes,
      find,
      page,
    });
    await changeCompany(sql, callerOf(c, form, COMPANY), id, changes);
  });
  return backTo(c, page, 'saved');
}
