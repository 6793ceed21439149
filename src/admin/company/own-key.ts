import type { Company } from '../../domain/company.ts';
import { type OwnKeyAllowance, readAllowance } from '../../store/company/own-key.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { countKeys, type KeyLife, type KeySort, pageOfKeys } from '../../store/lists/page.ts';
import { holderOf } from '../page/caller.ts';
import {
  formAt,
  mayNow,
  type PageContext,
  pageAt,
  param,
  type Route,
  read,
} from '../page/context.ts';
import { createCard, type FormState, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, emptyText, page } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { keysPath } from '../usage/reach.ts';
import { create, keyList, keyViews, newKeyFields, sortsOf } from './key.ts';

const BASE = '/companies/:company/own/keys';

/** A member's own keys. The pages of a single key are those of the company's keys. */
export const ownKeyRoutes: readonly Route[] = [
  pageAt(BASE, 'own-key.read', listPage),
  formAt(`${BASE}/create`, 'own-key.write', create, { long: true, page: listPage }),
];

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const { format, services } = c.var;
  const { keys: words, ownKeys } = format.words;
  const id = param(c, 'company');
  const holder = holderOf(c);
  const base = keysPath(c, id);
  const life: KeyLife = c.req.query('state') === 'dead' ? 'dead' : 'active';
  const query = listQuery<KeySort>(c, sortsOf(words));
  const { company, keys, counts, allowance } = await read(c, async (sql) => ({
    company: await readCompany(sql, id),
    keys: await pageOfKeys(sql, id, life, query, holder.user_id),
    counts: await countKeys(sql, id, holder.user_id),
    allowance: await readAllowance(sql, holder),
  }));
  const isWritable = mayNow(c, 'own-key.write');
  const hasAny = counts.active + counts.dead > 0;
  const body = html`${companyHeading(c)}<h1>${ownKeys.title}</h1>
${hasAny || allowance.most > 0 ? html`<p class="lead">${words.lead(html`<code>${services.publicUrl}</code>`)}</p>` : ''}
${isWritable ? creation(c, form, company, allowance, counts.active === 0) : ''}
${
  hasAny
    ? list(
        c,
        { ...keyList(c, life, base, isWritable), beside: keyViews(format, base, life, counts) },
        query,
        keys,
      )
    : ''
}`;
  return page(c, ownKeys.title, body);
}

/** The form of a new key; or why there is none. */
function creation(
  c: PageContext,
  form: Form,
  company: Company,
  allowance: OwnKeyAllowance,
  isFirst: boolean,
): Html {
  const { most, budget, active } = allowance;
  const { keys: words, ownKeys } = form.words;
  const path = `${keysPath(c, company.id)}/create`;
  if (most === 0) return emptyText(active === 0 ? ownKeys.off : ownKeys.offNow);
  if (active >= most) return html`${formState(form, path).summary}<p>${ownKeys.full(most)}</p>`;
  const mostBudget = budget === null ? '' : c.var.format.eurText(budget);
  const fields = (
    state: FormState,
  ) => html`<p class="muted">${ownKeys.allowed({ most, active, budget: mostBudget })}</p>
${newKeyFields(state, company, mostBudget)}`;
  return createCard(c, form, {
    path,
    title: words.create,
    button: words.createButton,
    isFirst,
    fields,
  });
}
